module github.com/titrate/titrate/lab

go 1.26

require github.com/titrate/titrate/control v0.0.0

replace github.com/titrate/titrate/control => ../control
