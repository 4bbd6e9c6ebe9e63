package console

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/titrate/titrate/e2e/bench/rig"
)

// fleetPaths has the paths of the screen Fleet.
const fleetPaths = `{"paths":["/v1alpha1/pools?page_size=100","/v1alpha1/gateways","/v1alpha1:check",
	"/v1alpha1:top?selection.by=TENANT&selection.order=ADMITTED&selection.most=12&selection.pool=api"]}`

// watchers measures what watchers cost the coordinator: none, 16, and with the page in the browser as many as it takes.
// A quarter of these reads nothing. The others and the page get news, and another call has its answer. Without -whole
// only the most are measured.
func (s *system) watchers(t *testing.T) {
	measures := []int{0, 16, 63}
	if !*whole {
		measures = measures[2:]
	}
	time.Sleep(time.Second) // the streams of the screens before have ended
	for _, n := range measures {
		ctx, end := context.WithCancel(t.Context())
		var lines atomic.Int64
		for i := range n {
			s.follow(t, ctx, fmt.Sprintf("127.0.0.%d", 2+i%4), i%4 == 3 && n == 63, &lines)
		}
		pid := s.Coordinators[0].Process().PID()
		from, began, had := cpu(t, pid), time.Now(), lines.Load()
		time.Sleep(*measured)
		used, took := cpu(t, pid)-from, time.Since(began)
		asked := time.Now()
		r, err := http.Get(s.open + "v1alpha1/pools")
		if err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("with %d watchers: %v, %v", n, r, err)
		}
		t.Logf("%d watchers: %.1f %% of a core, %d answers a second, another call takes %v", n,
			100*used.Seconds()/took.Seconds(), int(float64(lines.Load()-had)/took.Seconds()), time.Since(asked).Round(time.Millisecond))
		if n > 0 && lines.Load() == 0 {
			t.Errorf("%d watchers have got nothing", n)
		}
		end()
		time.Sleep(time.Second) // their places are free again
	}
}

// beside fails the test if the page has no news while something goes on.
func (b *browser) beside(something func()) {
	b.t.Helper()
	b.screen("/")
	b.shows("who fills api")
	evaluate[bool](b, `(() => {
		window.news = new Set();
		setInterval(() => {
			const figures = document.querySelector(".figures");
			if (figures) window.news.add(figures.innerText);
		}, 100);
		return true;
	})()`)
	something()
	if n := evaluate[int](b, "window.news.size"); n < 2 {
		b.t.Error("the page has no news beside slow watchers")
	}
	b.do(chromedp.Reload())
}

// follow opens a stream from an address of its own, and reads it unless it is a slow one.
func (s *system) follow(t *testing.T, ctx context.Context, from string, slow bool, lines *atomic.Int64) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableCompression: true}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.open+"events", strings.NewReader(fleetPaths))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("a watcher from %s: %v, %v", from, answer, err)
	}
	go func() {
		defer client.CloseIdleConnections()
		defer answer.Body.Close()
		if slow {
			<-ctx.Done()
			return
		}
		for in := bufio.NewReader(answer.Body); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "data:") {
				lines.Add(1)
			}
		}
	}()
}

// cpu is the time that a process has used.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	used, err := rig.ProcessTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	return used
}
