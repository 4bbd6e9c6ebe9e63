// Benchtable reads what `go test -bench` prints and writes tables that people can read:
// what, time per operation, operations per second, allocations; for laws that start from
// a guess, cold and warm side by side.
//
//	cd control && go test -run '^$' -bench . -benchmem -count 3 ./... | go run ../lab/benchtable
//
// Of several runs of a benchmark the fastest counts: whatever else a machine does makes
// it slower, never faster. A table appears as soon as its package is done. The exit
// status is 1 if a package failed or no benchmark was read.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}

// run turns the output of go test into tables.
func run(in io.Reader, out io.Writer) error {
	var (
		pkg    string
		rows   []*row
		seen   int
		failed []string
	)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "pkg: "):
			pkg = strings.TrimPrefix(line, "pkg: ")
		case strings.HasPrefix(line, "ok "), strings.HasPrefix(line, "FAIL"):
			write(out, pkg, rows)
			seen, rows = seen+len(rows), nil
			if strings.HasPrefix(line, "FAIL\t") {
				failed = append(failed, line)
			}
		case strings.HasPrefix(line, "Benchmark"):
			if r, err := parse(line); err != nil {
				return err
			} else if r != nil {
				rows = add(rows, r)
			}
		case strings.HasPrefix(line, "cpu: ") && seen == 0:
			fmt.Fprintf(out, "%s; fastest run of each\n", line)
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "panic"), strings.HasPrefix(line, " "):
			fmt.Fprintln(out, line)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, "; "))
	}
	if seen == 0 {
		return fmt.Errorf("no benchmark in the input, want the output of go test -bench")
	}
	return nil
}
