// Package clock steps the time of day of one process, whatever it is built with.
//
// # Model
//
// Programs ask the time of day of the vDSO, code of the kernel in each process's
// memory. While the process stands still before its first instruction, [Bend]
// replaces the beginning of clock_gettime there by a jump to a few instructions
// that make the system call and add an offset to CLOCK_REALTIME:
//
//	mov eax, SYS_clock_gettime;  syscall
//	test edi, edi;               jne out          // another clock
//	mov rcx, [offset];           add [rsi], rcx   // seconds
//	out: ret
//
// The kernel gives the process a page of its own when another process writes to
// it, as for a debugger's breakpoints; nobody else's clock is touched. [Clock.Step]
// writes the offset, which takes effect at the next reading of the clock, as a step
// by NTP does. The monotonic clock goes on.
package clock
