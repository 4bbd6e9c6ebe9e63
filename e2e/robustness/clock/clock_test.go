package clock

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/installation/child"
)

// TestMain lets the test binary be a process that prints the time when it is asked.
func TestMain(m *testing.M) {
	if os.Getenv("CLOCK_TEST_CHILD") != "" {
		began := time.Now()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			fmt.Println(time.Now().Unix(), int(time.Since(began).Seconds()))
		}
		return
	}
	os.Exit(m.Run())
}

// The time of day of a process steps, its monotonic clock and everybody else's
// time of day do not.
func TestStep(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("amd64 only")
	}
	g := child.NewGroup()
	t.Cleanup(g.Close)
	var c *Clock
	log := filepath.Join(t.TempDir(), "log")
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := g.Start(child.Spec{Name: "told", Path: os.Args[0], Log: log, Input: in,
		Env: []string{"CLOCK_TEST_CHILD=1"},
		Born: func(pid int) (err error) {
			if c, err = Bend(pid); err == nil {
				err = c.Step(-time.Hour)
			}
			return err
		}})
	if err != nil {
		t.Fatal(err)
	}
	told := func(line int) (day, passed int64) {
		fmt.Fprintln(out)
		for range 1000 {
			text, _ := os.ReadFile(log)
			if lines := strings.Split(string(text), "\n"); len(lines) > line+1 {
				a, b, _ := strings.Cut(lines[line], " ")
				day, _ = strconv.ParseInt(a, 10, 64)
				passed, _ = strconv.ParseInt(b, 10, 64)
				return day, passed
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("the child says nothing: %s", child.Tail(p.Log, 5))
		return 0, 0
	}
	near := func(got, want int64) bool { return got >= want-60 && got <= want+60 }
	if day, passed := told(0); !near(day, time.Now().Unix()-3600) || passed > 60 {
		t.Errorf("after a step of an hour back: %d, %d", day-time.Now().Unix(), passed)
	}
	if err := c.Step(24 * time.Hour); err != nil {
		t.Fatal(err)
	}
	if day, passed := told(1); !near(day, time.Now().Unix()+86400) || passed > 60 {
		t.Errorf("after a step of a day: %d, %d", day-time.Now().Unix(), passed)
	}
}
