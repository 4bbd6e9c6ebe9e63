package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fake replaces titrate-lab: it writes the verdict of its seed, and exits with the status of this verdict.
const fake = `#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in --seed) seed=$2 ;; --json) file=$2 ;; --trace) trace=$2 ;; esac
  shift
done
echo '{}' >"$trace"
case $seed in
1) echo '{"pass":true,"load":{"lateP99Ms":1.5,"pathP99Ms":2.5}}' >"$file" ;;
2) echo '{"checks":[{"name":"client_mean","phase":"agent","subject":"small","value":7,"bound":6}]}' >"$file"; exit 1 ;;
3) echo '{"void":true,"voidReasons":["1 % of the starts were 130 ms late"],"checks":[
     {"name":"failed","phase":"hops","value":88,"bound":0}]}' >"$file"; exit 3 ;;
4) exit 1 ;;
5) echo '{"pass":true}' >"$file"; exit 1 ;;
esac
`

func TestTable(t *testing.T) {
	for seeds, want := range map[string]struct {
		runs   int
		first  uint64
		status int
		rows   []string
		kept   []string
	}{
		"all pass": {1, 1, 0, []string{`1 \| 1 \| \S+ \| \S+ \| 1.5 \| 2.5 \| PASS \|  \|`, `1 PASS, 0 FAIL, 0 VOID, of 1 `},
			nil},
		"a void run is no pass and no failure": {1, 3, exitVoid, []string{
			`VOID \| 1 % of the starts were 130 ms late; hops failed: 88 > 0 \|`, `0 PASS, 0 FAIL, 1 VOID, of 1 `},
			[]string{"run-1.json", "run-1.log", "run-1.ndjson"}},
		"none hides a failure": {5, 1, exitFailed, []string{`2 \| 2 .*FAIL \| agent client_mean small: 7 > 6 \|`,
			`4 \| 4 .*FAIL \| no verdict: exit status 1 \|`, `FAIL \| every bound was kept, but exit status 1 \|`,
			`1 PASS, 3 FAIL, 1 VOID, of 5 `}, []string{"run-2.json", "run-2.log", "run-2.ndjson", "run-3.json", "run-3.log",
			"run-3.ndjson", "run-4.log", "run-4.ndjson", "run-5.json", "run-5.log", "run-5.ndjson"}},
	} {
		t.Run(seeds, func(t *testing.T) {
			dir, lab := t.TempDir(), filepath.Join(t.TempDir(), "titrate-lab")
			if err := os.WriteFile(lab, []byte(fake), 0o700); err != nil {
				t.Fatal(err)
			}
			o := options{lab: lab, runs: want.runs, seed: want.first, vary: true, duration: time.Second}
			var out bytes.Buffer
			if status := all(t.Context(), &o, dir, &out); status != want.status {
				t.Errorf("exit status %d, want %d", status, want.status)
			}
			for _, row := range want.rows {
				if !regexp.MustCompile(row).MatchString(out.String()) {
					t.Errorf("no %s in\n%s", row, out.String())
				}
			}
			var kept []string
			files, _ := filepath.Glob(filepath.Join(dir, "*"))
			for _, f := range files {
				kept = append(kept, filepath.Base(f))
			}
			if strings.Join(kept, " ") != strings.Join(want.kept, " ") {
				t.Errorf("kept %v, want %v", kept, want.kept)
			}
		})
	}
}
