// Package clock steps the time of day of one process, written in any language.
//
// # Model
//
// Programs read the time of day by the vDSO, code of the kernel in each process's memory. While the process is
// stopped before its first instruction, [Bend] replaces the beginning of clock_gettime there by a jump. It
// leads to a few instructions that make the system call and add an offset to CLOCK_REALTIME:
//
//	mov eax, SYS_clock_gettime;  syscall
//	test edi, edi;               jne out          // another clock
//	mov rcx, [offset];           add [rsi], rcx   // seconds
//	out: ret
//
// The kernel gives the process its own copy of the page when another process writes to it, as for a debugger's
// breakpoints; no other process's clock changes. [Clock.Step] writes the offset, which takes effect at the next
// reading of the clock, as a step by NTP does. The monotonic clock does not change.
package clock
