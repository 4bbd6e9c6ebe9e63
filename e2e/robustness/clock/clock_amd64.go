package clock

import (
	"encoding/binary"
	"fmt"
	"time"
)

// stub is described at the package; its last eight bytes are the offset in seconds.
var stub = []byte{
	0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi
	0x75, 10, // jne out
	0x48, 0x8b, 0x0d, 4, 0, 0, 0, // mov rcx, [rip+4]: offset
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3, // out: ret
	0, 0, 0, 0, 0, 0, 0, 0,
}

// Bend prepares the clock of a process that stands still. The process has stopped
// before it reads it.
func Bend(pid int) (*Clock, error) {
	v, err := find(pid)
	if err != nil {
		return nil, fmt.Errorf("vDSO of process %d: %w", pid, err)
	}
	defer v.Close()
	at := (v.end - uint64(len(stub))) &^ 15
	if err := v.free(at); err != nil {
		return nil, err
	}
	entry, err := v.symbol("__vdso_clock_gettime")
	if err != nil {
		return nil, err
	}
	jump := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(int32(int64(at)-int64(entry)-5)))
	if _, err := v.mem.WriteAt(stub, int64(at)); err != nil {
		return nil, fmt.Errorf("write to the vDSO of process %d: %w", pid, err)
	}
	if _, err := v.mem.WriteAt(jump, int64(entry)); err != nil {
		return nil, fmt.Errorf("write to the vDSO of process %d: %w", pid, err)
	}
	return &Clock{pid, at + uint64(len(stub)) - 8}, nil
}

// Step sets how far the clock is from the true time, whole seconds.
func (c *Clock) Step(by time.Duration) error { return c.write(int64(by / time.Second)) }
