module github.com/titrate/titrate/lab

go 1.26

replace github.com/titrate/titrate/control => ../control

require (
	github.com/titrate/titrate/control v0.0.0-00010101000000-000000000000
	pgregory.net/rapid v1.3.0
)
