package alarm

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// clockMonotonic is a number of timerfd_create(2).
const clockMonotonic = 1

// ofSystem is a file that can be read once the timer has run out. Its calls return at once, so they are raw: others
// wake the runtime's watchdog.
type ofSystem struct {
	file *os.File
	raw  syscall.RawConn
}

// newTimer returns a timer of the system, or of Go if the system refuses one.
func newTimer() timer {
	const flags = syscall.O_NONBLOCK | syscall.O_CLOEXEC
	fd, _, failed := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, flags, 0)
	if failed != 0 {
		return newOfGo()
	}
	file := os.NewFile(fd, "timer")
	raw, err := file.SyscallConn()
	if err != nil {
		return newOfGo()
	}
	return ofSystem{file, raw}
}

func (t ofSystem) reset(after time.Duration) {
	spec := [2]syscall.Timespec{1: syscall.NsecToTimespec(max(1, after.Nanoseconds()))} // once; 0 would stop it
	_ = t.raw.Control(func(fd uintptr) {                                                // fails once it is stopped
		_, _, _ = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	})
}

func (t ofSystem) wait() bool {
	var times uint64
	return t.raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&times)), unsafe.Sizeof(times))
		return err != syscall.EAGAIN
	}) == nil
}

func (t ofSystem) stop() { _ = t.file.Close() }
