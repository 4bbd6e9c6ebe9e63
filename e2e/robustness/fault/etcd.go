package fault

import (
	"context"
	"math/rand/v2"
	"os"

	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/world"
)

var killEtcd = Kind{
	Name: "kill-etcd", Does: "SIGKILL of a member of etcd, leading or not, started again later",
	Touches: "etcd", Longest: 8 * second, Grace: check.Grace{Unfair: 5 * second},
	Draw: func(r *rand.Rand, s Scene) Fault {
		e := one(r, s.World().Etcd)
		return &simple{"kill -9 " + e.Name, "", func(context.Context) error {
			e.Kill()
			return nil
		}, func(ctx context.Context) error { return e.Start(ctx) }}
	},
}

var freezeEtcd = Kind{
	Name: "freeze-etcd", Does: "SIGSTOP of a member of etcd, leading or not, SIGCONT later",
	Touches: "etcd", Shortest: second, Longest: 8 * second, Grace: check.Grace{Unfair: 5 * second},
	Draw: func(r *rand.Rand, s Scene) Fault { return freeze(one(r, s.World().Etcd), nil) },
}

var loseQuorum = Kind{
	Name: "lose-quorum", Does: "SIGKILL of two or three members of etcd, started again later",
	Touches: "etcd", Shortest: 2 * second, Longest: 12 * second, Grace: check.Grace{Unfair: 8 * second, Freezes: true},
	Draw: func(r *rand.Rand, s Scene) Fault {
		lost := append([]*world.Server(nil), s.World().Etcd...)
		r.Shuffle(len(lost), func(i, j int) { lost[i], lost[j] = lost[j], lost[i] })
		lost = lost[:2+r.IntN(2)]
		what := "kill -9"
		for _, e := range lost {
			what += " " + e.Name
		}
		return &simple{what, "", func(context.Context) error {
			for _, e := range lost {
				e.Kill()
			}
			return nil
		}, func(ctx context.Context) error { return s.World().StartAll(ctx, lost) }}
	},
}

var compactEtcd = Kind{
	Name: "compact-etcd", Does: "etcd forgets all revisions but the last, and is defragmented",
	Touches: "etcd", Grace: check.Grace{Fair: true},
	Draw: func(_ *rand.Rand, s Scene) Fault {
		return &simple{"compact etcd", "", s.World().Compact, func(context.Context) error { return nil }}
	},
}

var restoreEtcd = Kind{
	Name: "restore-etcd",
	Does: "etcd is saved, changed for some seconds, lost, and begun anew from what was saved; " +
		"coordinators live",
	Touches: "all", Shortest: 2 * second, Longest: 6 * second, Grace: check.Grace{Unfair: 8 * second, Freezes: true},
	Draw: func(_ *rand.Rand, s Scene) Fault {
		var file string
		forget := func() {}
		return &simple{"restore etcd from a snapshot", "", func(ctx context.Context) (err error) {
			forget = s.Remember()
			file, err = s.World().Snapshot(ctx)
			return err
		}, func(ctx context.Context) error {
			defer os.Remove(file)
			return s.Alone(func() error {
				forget()
				return s.World().Restore(ctx, file)
			})
		}}
	},
}
