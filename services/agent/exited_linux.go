package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// exited reports whether a process is gone, or is a zombie that its parent has not reaped. In doubt it returns false.
func exited(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	// "pid (name) state …"; the name may hold anything, ')' among it.
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return ok && len(rest) > 0 && strings.ContainsRune("ZXx", rune(rest[0]))
}
