package upstream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fire sends n requests at once and returns the answers' times and statuses.
func fire(s *Server, n int) (times []time.Duration, statuses []int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	start := time.Now()
	for range n {
		all.Go(func() {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			mu.Lock()
			defer mu.Unlock()
			times, statuses = append(times, time.Since(start)), append(statuses, w.Code)
		})
	}
	all.Wait()
	return times, statuses
}

// Overload makes it slow by whole service times, and then fail: k·(m+1)
// requests at once, a queue of k·m, and a few that find it full.
func TestOverloadedIsSlowThenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Workers: 4, ServiceTime: 50 * time.Millisecond, Queue: 8})
		if err != nil {
			t.Fatal(err)
		}
		times, statuses := fire(s, 15)
		at := map[time.Duration]int{}
		for i, status := range statuses {
			want := http.StatusOK
			if times[i] == 0 {
				want = http.StatusServiceUnavailable
			}
			if status != want {
				t.Errorf("answered %d after %v", status, times[i])
			}
			at[times[i]]++
		}
		want := map[time.Duration]int{0: 3, 50 * time.Millisecond: 4, 100 * time.Millisecond: 4,
			150 * time.Millisecond: 4}
		for d, n := range want {
			if at[d] != n {
				t.Errorf("%d answers after %v, want %d", at[d], d, n)
			}
		}
	})
}

func TestCapacityIsWorkersOverServiceTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{Workers: 20, ServiceTime: 60 * time.Millisecond, Queue: 10000}
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		fire(s, 2000)
		got := 2000 / time.Since(start).Seconds()
		if got > c.Capacity()*1.001 || got < c.Capacity()*.999 {
			t.Errorf("served %.1f/s, capacity %.1f/s", got, c.Capacity())
		}
	})
}

func TestOneWhoLeavesTheQueueTakesNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Workers: 1, ServiceTime: time.Second, Queue: 1})
		if err != nil {
			t.Fatal(err)
		}
		go fire(s, 1)
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		var status atomic.Int64
		go func() {
			code, _ := s.serve(ctx)
			status.Store(int64(code))
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if got := status.Load(); got != statusAbandoned {
			t.Errorf("status %d", got)
		}
		times, statuses := fire(s, 1) // the place in the queue is free again
		if statuses[0] != http.StatusOK || times[0] != 2*time.Second {
			t.Errorf("status %d after %v", statuses[0], times[0])
		}
	})
}

func TestTraceHasALinePerRequestAndHealthNone(t *testing.T) {
	var file bytes.Buffer
	s, err := New(Config{Workers: 1, ServiceTime: time.Nanosecond, Trace: &file})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.ListenAndServe(ctx, l, time.Second) }()
	for _, path := range []string{HealthPath, "/a", "/b"} {
		req, _ := http.NewRequest(http.MethodGet, "http://"+l.Addr().String()+path, nil)
		req.Header.Set("x-tenant", "acme")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if stamped := resp.Header.Get(ArrivalHeader) != ""; stamped != (path != HealthPath) {
			t.Errorf("%s: arrival stamped: %v", path, stamped)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var paths []string
	for in := bufio.NewScanner(&file); in.Scan(); {
		var e entry
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Tenant != "acme" || e.Status != http.StatusOK || e.Time == 0 {
			t.Errorf("%+v", e)
		}
		paths = append(paths, e.Path)
	}
	if len(paths) != 2 || paths[0] != "/a" || paths[1] != "/b" {
		t.Errorf("traced %v", paths)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	for _, c := range []Config{
		{Workers: 0, ServiceTime: 1},
		{Workers: 1, ServiceTime: 0},
		{Workers: 1, ServiceTime: 1, Queue: -1},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}
