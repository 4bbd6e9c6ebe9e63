package main

import (
	"context"
	"time"

	"github.com/titrate/titrate/e2e/robustness/check"
)

// A stall is a time in which this process, which only sleeps, was not woken: the
// machine was busy with something else, and so were the gateways.
const (
	wake      = 10 * time.Millisecond
	stallFrom = 60 * time.Millisecond
)

// stalls notes stalls until ctx ends, then sends them.
func (s *scene) stalls(ctx context.Context) <-chan []check.Span {
	found := make(chan []check.Span, 1)
	go func() {
		var all []check.Span
		ticker := time.NewTicker(wake)
		defer ticker.Stop()
		for last := s.load.Now(); ; {
			select {
			case <-ctx.Done():
				found <- all
				return
			case <-ticker.C:
			}
			now := s.load.Now()
			if now-last > stallFrom {
				all = append(all, check.Span{From: last, To: now})
			}
			last = now
		}
	}()
	return found
}
