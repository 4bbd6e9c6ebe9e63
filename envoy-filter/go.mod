module github.com/titrate/titrate/envoy-filter

go 1.26.0

require github.com/titrate/titrate/control v0.0.0

require (
	github.com/titrate/titrate/proto v0.0.0
	pgregory.net/rapid v1.3.0
)

replace github.com/titrate/titrate/control => ../control

replace github.com/titrate/titrate/proto => ../proto
