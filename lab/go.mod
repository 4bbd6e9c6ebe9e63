module github.com/titrate/titrate/lab

go 1.26.0

replace github.com/titrate/titrate/control => ../control

replace github.com/titrate/titrate/papers => ../papers

require (
	github.com/titrate/titrate/control v0.0.0-00010101000000-000000000000
	github.com/titrate/titrate/papers v0.0.0-00010101000000-000000000000
	pgregory.net/rapid v1.3.0
)
