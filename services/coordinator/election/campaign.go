package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/titrate/titrate/services/pause"
)

// campaign holds one session: it campaigns, leads, and returns why the session ended.
func (e *Elector) campaign(ctx context.Context) (err error) {
	// What is done under the session ends with it or with ctx; giving the key back comes after both.
	under, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	session, err := e.session(ctx, under)
	if err != nil {
		return err
	}
	defer context.AfterFunc(session.Ctx(), func() { cancel(nil) })()
	defer e.close(ctx, session)
	// Before the session is revoked, which an absent etcd draws out: from here on nothing new may be granted.
	defer func() { e.sessionEnded(ctx, err) }()
	e.mu.Lock()
	e.etcd = nil
	e.mu.Unlock()
	contest := concurrency.NewElection(session, e.config.Prefix)
	own := fmt.Sprintf("%s/%x", e.config.Prefix, session.Lease())
	checked := make(chan struct{})
	go func() {
		defer close(checked)
		cancel(e.checkSession(under, own))
	}()
	defer func() {
		cancel(nil)
		<-checked
		if why := context.Cause(under); !errors.Is(why, context.Canceled) {
			err = why
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.observe(under, contest, own)
	}()
	defer func() { cancel(nil); <-done }()
	if e.config.Share {
		if err = e.register(under, session.Lease()); err != nil {
			return fmt.Errorf("register as a sharer: %w", err)
		}
		shared := make(chan struct{})
		go func() {
			defer close(shared)
			e.watchSharing(under)
		}()
		defer func() { cancel(nil); <-shared }()
	}
	if err = contest.Campaign(under, e.config.Address); err != nil {
		return fmt.Errorf("campaign: %w", err)
	}
	if err = e.becomeLeader(under, contest); err != nil {
		return err
	}
	return e.leadUntilLost(under, contest)
}

// becomeLeader stores an epoch above all that are known, and leads under it.
func (e *Elector) becomeLeader(under context.Context, contest *concurrency.Election) error {
	if e.config.Share { // who has just gone is not to be among them
		if _, err := e.readSharing(under); err != nil {
			return fmt.Errorf("elected, but who shares is not known: %w", err)
		}
	}
	epoch, sharing, err := e.nextEpoch(under, contest)
	if err != nil {
		return fmt.Errorf("elected, but no epoch can be had: %w", err)
	}
	e.mu.Lock()
	if !e.chair { // else it is a new epoch of the same election
		e.won++
	}
	e.chair = true
	e.set(State{Role: Leading, Epoch: epoch, Leader: e.config.Address, Sharing: sharing})
	e.mu.Unlock()
	if sharing != nil {
		e.config.Log.Info("elected", "epoch", epoch, "address", e.config.Address, "sharers", len(sharing.Sharers))
		return nil
	}
	e.config.Log.Info("elected", "epoch", epoch, "address", e.config.Address)
	return nil
}

// session gets a lease and keeps it alive apart from ctx, so that the key can be given back after ctx has ended. What
// the library does without being asked ends with under. A campaign that ends takes its key back under its client's
// context, and with that of the process it would wait for an absent etcd without end. Revoking the lease deletes the
// key, too.
func (e *Elector) session(ctx, under context.Context) (*concurrency.Session, error) {
	asking, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	granted, err := e.config.Client.Grant(asking, int64(e.config.TTL/time.Second))
	if err != nil {
		return nil, fmt.Errorf("etcd does not grant a session: %w", err)
	}
	if e.unrevoked != 0 { // or this candidate would wait for its own old key
		if _, err := e.config.Client.Revoke(asking, e.unrevoked); err == nil ||
			errors.Is(err, rpctypes.ErrLeaseNotFound) {
			e.unrevoked = 0
		}
	}
	client := clientv3.NewCtxClient(under)
	client.KV, client.Lease, client.Watcher = e.config.Client.KV, e.config.Client.Lease, e.config.Client.Watcher
	session, err := concurrency.NewSession(client,
		concurrency.WithLease(granted.ID), concurrency.WithContext(context.WithoutCancel(ctx)))
	if err != nil {
		return nil, fmt.Errorf("etcd session: %w", err)
	}
	if session == nil {
		return nil, errors.New("etcd session ended at once")
	}
	return session, nil
}

// close revokes the session, which deletes its key; a session that is gone, or an
// etcd that is, lets the lease run out instead.
func (e *Elector) close(ctx context.Context, session *concurrency.Session) {
	session.Orphan()
	revoking, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if _, err := e.config.Client.Revoke(revoking, session.Lease()); err != nil &&
		!errors.Is(err, rpctypes.ErrLeaseNotFound) {
		e.unrevoked = session.Lease()
		e.config.Log.Debug("session not revoked; its lease runs out", "error", err)
	}
}

// leadUntilLost leads until the session ends or the key is gone.
func (e *Elector) leadUntilLost(under context.Context, contest *concurrency.Election) error {
	events := e.config.Client.Watch(under, contest.Key(), clientv3.WithRev(contest.Rev()+1))
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		select {
		case r, open := <-events:
			if !open { // the session has ended, or etcd has compacted what comes next: checkSession goes on
				events = nil
			}
			if slices.ContainsFunc(r.Events, func(v *clientv3.Event) bool { return v.Type == mvccpb.Event_DELETE }) {
				return errors.New("the leader's key was deleted")
			}
		case <-e.sharersChanged:
			pause.For(under, shareWait)
			if err := e.share(under, contest); err != nil {
				return err
			}
		case <-check.C:
			if err := e.share(under, contest); err != nil { // an agent that knows one leader only may be gone
				return err
			}
			if e.epochTooLow() {
				e.config.Log.Warn("an agent has obeyed a higher epoch, so etcd was restored or replaced: taking a " +
					"higher one")
				if err := e.becomeLeader(under, contest); err != nil {
					return err
				}
			}
		case <-under.Done():
			return errSessionEnded
		}
	}
}
