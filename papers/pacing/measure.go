package pacing

import (
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/titrate/titrate/papers/experiment"
)

// send runs a loop for span on this kernel. The loop sends datagrams to a loopback socket that no process
// reads, and sleeps by nanosleep on its own thread. send returns the relative error of the rate.
func send(l Loop, mbit float64, span time.Duration) (off float64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sink, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer sink.Close()
	out, err := net.Dial("udp", sink.LocalAddr().String())
	if err != nil {
		return 0, err
	}
	defer out.Close()
	data, began, sum := make([]byte, int(packet)), time.Now(), 0.
	for {
		elapsed := time.Since(began)
		bytes, sleep := l.Wake(elapsed.Seconds(), mbit*1e6/8, packet)
		for n := 0.; n < bytes; n += packet {
			_, _ = out.Write(data) // a full socket drops: it is the pace that counts
		}
		sum += bytes
		if elapsed >= span { // the last wake-up counts: it makes up for its own delay
			return 1 - sum*8/(mbit*1e6*elapsed.Seconds()), nil
		}
		pause := syscall.NsecToTimespec(int64(sleep * 1e9))
		_ = syscall.Nanosleep(&pause, nil) // cut short by a signal: the loop looks at the clock
	}
}

// busy starts five processes that use the CPU, as the paper did; call the function to end them.
func busy() (end func(), err error) {
	var all []*exec.Cmd
	end = func() {
		for _, c := range all {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	for range 5 {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			end()
			return nil, err
		}
		all = append(all, c)
	}
	return end, nil
}

// measured runs each loop at 10 and 500 Mbit/s without and with load, three times each for
// one second, in turn.
func measured(short bool) *experiment.Result {
	r, before := &experiment.Result{}, loadAverage()
	c := r.Chart("rmc-kernel", "Send loops on this kernel, error by rate; median of three seconds", "rate (Mbit/s)",
		"relative error (%)")
	c.LogX, c.LogY = true, true
	span, rounds := time.Second, 3
	if short {
		span, rounds = 50*time.Millisecond, 1
	}
	for _, load := range []bool{false, true} {
		end := func() {}
		if load {
			var err error
			if end, err = busy(); err != nil {
				r.Note("load", "could not be started: "+err.Error())
				continue
			}
		}
		for _, n := range loops {
			word := map[bool]string{false: "machine as it is", true: "five busy processes"}[load]
			l, texts := c.Line(n.name+", "+word, experiment.Solid), []string(nil)
			for _, rate := range []float64{10, 100, 500} {
				var offs []float64
				for range rounds {
					off, err := send(n.make(now), rate, span)
					if err != nil {
						r.Note(n.name, err.Error())
						continue
					}
					offs = append(offs, 100*off)
				}
				slices.Sort(offs)
				if len(offs) == 0 {
					continue
				}
				median := stat.Quantile(.5, stat.Empirical, offs, nil)
				texts = append(texts, fmt.Sprintf("%.2g", median))
				l.Add(rate, math.Max(.001, math.Abs(median)))
			}
			r.Note(fmt.Sprintf("%s, %s: error at 10, 100, 500 Mbit/s, %%", n.name, word), strings.Join(texts, ", "))
		}
		end()
	}
	c.Level("paper: RMC below 0.06 %", 10, 500, .06)
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	r.Note("kernel, CPUs, load average of the last minute before and after; five busy processes are this program's",
		fmt.Sprintf("%s, %d CPUs, %s and %s", strings.TrimSpace(string(release)), runtime.NumCPU(), before,
			loadAverage()))
	return r
}

// loadAverage returns the load average of the last minute from /proc; ? if there is none.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	minute, _, ok := strings.Cut(string(text), " ")
	if !ok {
		return "?"
	}
	return minute
}
