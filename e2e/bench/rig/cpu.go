package rig

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/titrate/titrate/lab/installation/child"
)

// CPU is the processes whose time a variant's requests are charged.
type CPU []*child.Process

// Of returns the user and system time that all processes together have used so far.
func (c CPU) Of() (time.Duration, error) {
	var sum time.Duration
	for _, p := range c {
		t, err := ProcessTime(p.PID())
		if err != nil {
			return 0, fmt.Errorf("CPU time of %s: %w", p.Name, err)
		}
		sum += t
	}
	return sum, nil
}

// OwnCPU is the user and system time that this process has used so far.
func OwnCPU() (time.Duration, error) { return ProcessTime(os.Getpid()) }

// Busy is the time that all processors of the machine together have worked so far, for all programs.
func Busy() (time.Duration, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0, err
	}
	c := stat.CPUTotal
	seconds := c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
	return time.Duration(seconds * float64(time.Second)), nil
}

// ProcessTime is the user and system time that a process has used so far. It reads the CPU clock of the process,
// whose id is the complement of the pid, then the kind of clock (2: as counted by the scheduler).
func ProcessTime(pid int) (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid)<<3|2, &t)
	return time.Duration(t.Nano()), err
}

// ReadBytes returns how many bytes a process has read so far, from files and sockets alike.
func ReadBytes(p *child.Process) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.PID()))
	if err != nil {
		return 0, err
	}
	rest, ok := strings.CutPrefix(string(text), "rchar: ")
	if !ok {
		return 0, fmt.Errorf("/proc/%d/io does not begin with rchar", p.PID())
	}
	number, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseInt(number, 10, 64)
}

// AnonymousBytes is the memory of a process that no file backs: heaps, stacks,
// tables.
func AnonymousBytes(p *child.Process) (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", p.PID()))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if rest, ok := strings.CutPrefix(in.Text(), "Anonymous:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no line Anonymous", f.Name())
}

// Load is the load average of the machine over the last minute, 0 if it cannot be read.
func Load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}
