package agent

import (
	"context"
	"slices"
	"time"
)

// keysEvery is the time between two looks at the file with the gossip keys.
const keysEvery = 5 * time.Second

// watchKeys puts changed gossip keys in force, until ctx ends. A file that cannot be used leaves those before in
// force, and is an alarm until it can.
func (a *Agent) watchKeys(ctx context.Context, ticker *time.Ticker) {
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		keys, err := a.c.keys()
		if err == nil && !slices.EqualFunc(keys, a.gossipKeys, slices.Equal) {
			if err = a.gossip.Rotate(keys); err == nil {
				a.gossipKeys = keys
				a.log.Info("gossip keys replaced", "keys", len(keys))
			}
		}
		if was := a.keysTrouble.Swap(&err); err != nil && (was == nil || *was == nil) {
			a.log.Error("gossip keys not replaced: those before stay in force", "error", err)
		}
	}
}

// keysUnusable is an alarm: the file with the gossip keys is not what is in force, or another agent has other keys.
func (a *Agent) keysUnusable() error {
	if err := a.keysTrouble.Load(); err != nil && *err != nil {
		return *err
	}
	return a.gossip.Unopened()
}
