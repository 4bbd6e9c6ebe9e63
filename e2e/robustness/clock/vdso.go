package clock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Clock is a process's.
type Clock struct {
	pid    int
	offset uint64 // address
}

func (c *Clock) write(seconds int64) error {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.pid), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("step the clock of process %d: %w", c.pid, err)
	}
	_, err = mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(seconds)), int64(c.offset))
	return errors.Join(err, mem.Close())
}

// vdso of a process.
type vdso struct {
	mem        *os.File
	begin, end uint64
	image      []byte
}

// Close closes the process's memory.
func (v *vdso) Close() { v.mem.Close() }

func find(pid int) (*vdso, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	v := &vdso{}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &v.begin, &v.end); err != nil {
				return nil, err
			}
		}
	}
	if v.begin == 0 {
		return nil, errors.New("there is none")
	}
	if v.mem, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err != nil {
		return nil, err
	}
	v.image = make([]byte, v.end-v.begin)
	if _, err := v.mem.ReadAt(v.image, int64(v.begin)); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// free checks that nothing is where the code is to be.
func (v *vdso) free(from uint64) error {
	if len(bytes.Trim(v.image[from-v.begin:], "\x00")) > 0 {
		return errors.New("the vDSO has no room at its end")
	}
	return nil
}

// symbol is the address of a function.
func (v *vdso) symbol(name string) (uint64, error) {
	file, err := elf.NewFile(bytes.NewReader(v.image))
	if err != nil {
		return 0, fmt.Errorf("read the vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("read the vDSO: %w", err)
	}
	for _, s := range symbols {
		if s.Name == name {
			return v.begin + s.Value, nil
		}
	}
	return 0, fmt.Errorf("the vDSO has no %s", name)
}
