package telemetry

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// cgroupMemory is the file with the memory limit of this process's control group, bytes: in a container,
	// the limit of the container.
	cgroupMemory = "/sys/fs/cgroup/memory.max"
	// heapPart is the part of that limit that Go may take before it collects garbage more often. The rest is for
	// what Go does not count: the binary, stacks of C, the page cache of what is written.
	heapPart = .9
)

// LimitMemory makes Go keep below the limit of this process's control group, so that it collects garbage
// before the kernel kills it. GOMEMLIMIT in the environment goes before.
func LimitMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := memoryLimit(cgroupMemory); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit)
	}
}

// memoryLimit is heapPart of the limit that a file has, math.MaxInt64 if there is none.
func memoryLimit(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return math.MaxInt64
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit <= 0 { // "max"
		return math.MaxInt64
	}
	return int64(heapPart * float64(limit))
}
