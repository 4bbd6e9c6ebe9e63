package client

import (
	"cmp"
	"fmt"
	"sync"
	"time"
)

// Options of a Client. The zero value works.
type Options struct {
	// MaxInFlight bounds the window of each destination. Default 1000.
	MaxInFlight int
	// Start is the window of a destination that is not known yet. Default 10.
	Start int
	// Retries is the number of times that a refused request is sent again. Default 3; negative: never.
	Retries int
	// MaxPause bounds what a gateway may ask for. Default 1 minute.
	MaxPause time.Duration
}

func (o Options) withDefaults() Options {
	o.MaxInFlight = max(1, cmp.Or(o.MaxInFlight, 1000))
	o.Start = min(max(1, cmp.Or(o.Start, 10)), o.MaxInFlight)
	o.Retries = max(0, cmp.Or(o.Retries, 3))
	o.MaxPause = cmp.Or(max(0, o.MaxPause), time.Minute)
	return o
}

// Client keeps what is known of each destination. Safe for concurrent use; share
// one among all that talk to the same services.
type Client struct {
	o       Options
	mu      sync.Mutex
	windows map[string]*window
}

// New returns a Client.
func New(o Options) *Client {
	return &Client{o: o.withDefaults(), windows: map[string]*window{}}
}

const (
	maxWindows = 1024             // above it, idle ones are forgotten
	idle       = 10 * time.Minute // after which a window says nothing any more
)

// window of a destination.
func (c *Client) window(destination string) *window {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.windows[destination]
	if w == nil {
		if len(c.windows) >= maxWindows {
			for name, w := range c.windows {
				if w.idleFor() > idle {
					delete(c.windows, name)
				}
			}
		}
		w = newWindow(c.o)
		c.windows[destination] = w
	}
	return w
}

// State is the client's state of a destination.
type State struct {
	Window   float64       // requests that may be in flight
	InFlight int           // now
	Waiting  int           // for the window or for the end of a pause
	RTT      time.Duration // smoothed; 0: no answer yet
	Until    time.Time     // nothing leaves before; zero: no pause
}

// State returns the state of a destination, the zero State of an unknown one.
func (c *Client) State(destination string) State {
	c.mu.Lock()
	w := c.windows[destination]
	c.mu.Unlock()
	if w == nil {
		return State{}
	}
	return w.state()
}

// ThrottledError is returned in place of a request that could not leave before its deadline.
type ThrottledError struct {
	Destination string
	RetryAt     time.Time // when the gateway will take requests again
}

// Error says until when the destination takes nothing.
func (e *ThrottledError) Error() string {
	return fmt.Sprintf("client: %s asked to be left alone until %s, which is after the request's deadline",
		e.Destination, e.RetryAt.Format(time.RFC3339Nano))
}
