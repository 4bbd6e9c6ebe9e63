module github.com/titrate/titrate/tools/release

go 1.26.0
