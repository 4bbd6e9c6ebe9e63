module github.com/titrate/titrate/lab

go 1.26

replace github.com/titrate/titrate/control => ../control
