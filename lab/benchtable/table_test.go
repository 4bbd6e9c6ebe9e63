package main

import (
	"strings"
	"testing"
)

const output = `goos: linux
pkg: github.com/titrate/titrate/control/fairshare
cpu: Some Processor
BenchmarkLink-2   	 5300316	        61.08 ns/op	       0 B/op	       0 allocs/op
BenchmarkLink-2   	 5300316	        59.00 ns/op	       0 B/op	       0 allocs/op
BenchmarkFill/minimum/1000000/cold-2  	 1	 113477394 ns/op	 6.000 passes	 0 B/op	 0 allocs/op
BenchmarkFill/minimum/1000000/warm-2  	 2	  67732265 ns/op	 5.000 passes	 0 B/op	 1 allocs/op
PASS
ok  	github.com/titrate/titrate/control/fairshare	4.982s
`

const table = `cpu: Some Processor; fastest run of each

fairshare   time    per second     allocations   
  Link      59 ns   16.9 million   0             

fairshare                cold     warm      allocations   
  Fill minimum 1000000   113 ms   67.7 ms   1             6 passes
`

func TestTables(t *testing.T) {
	var got strings.Builder
	if err := run(strings.NewReader(output), &got); err != nil {
		t.Fatal(err)
	}
	if got.String() != table {
		t.Errorf("got\n%q\nwant\n%q", got.String(), table)
	}
}

func TestFailuresAreToldOn(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"empty":   {"", "no benchmark"},
		"failure": {output + "--- FAIL: BenchmarkX\nFAIL\nFAIL\tgithub.com/titrate/titrate/control/rmc\t0.1s\n", "control/rmc"},
		"garbled": {"pkg: x\nBenchmarkX-2 1 two ns/op\n", "no number"},
	} {
		var out strings.Builder
		if err := run(strings.NewReader(c.in), &out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
