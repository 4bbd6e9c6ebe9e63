package tokens

import (
	"reflect"
	"testing"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
)

// A request is the same after its way in a packet; of an older agent it has one time of refill.
func TestRequestInAPacket(t *testing.T) {
	q := exchange.TokenRequest{Key: 1, KeyName: exchange.KeyName{Tenant: "t", Limit: "l", Client: "\xff"}, Request: grant.Request{
		Session: 4, Owner: 5, Number: 6, Seq: 7, Recalled: 8, Granted: 9, Spent: 10, Returned: 11, Extra: 12, Need: 13,
		Least: 14, Ahead: 15, Use: 16, Waited: 17,
		Refills:   [grant.Refills]grant.Refill{{Amount: 18, Age: 19}, {Amount: 20, Age: 21}, {Amount: 22, Age: 23}},
		Exclusive: true, Released: true, Forgotten: true, Register: true, Held: 24, Level: 25, Full: 26,
	}}
	if got := fromRequest(toRequest(27, &q)); !reflect.DeepEqual(got, q) {
		t.Errorf("%+v, want %+v", got, q)
	}
	older := gossipv1.TokenRequest{Refilled: 1, Age: 2}
	if got := fromRequest(&older).Refills; got != [grant.Refills]grant.Refill{{Amount: 1, Age: 2}} {
		t.Error(got)
	}
	for range 9 {
		older.Refills = append(older.Refills, &gossipv1.Refill{Refilled: 3, Age: 4})
	}
	if got := fromRequest(&older).Refills; got[grant.Refills-1].Amount != 3 {
		t.Error(got)
	}
}

// A grant is the same after its way in a packet.
func TestGrantInAPacket(t *testing.T) {
	g := exchange.TokenGrant{Key: 1, Grant: grant.Grant{Owner: 2, Session: 3, Seq: 4, Granted: 5, Admit: 6, Seen: 7, Wait: 8,
		Others: 9, Level: 10, Exclusive: true, Full: 11, Pending: true, Begin: true, NoRoom: true}}
	if got := fromGrant(toGrant(12, &g)); got != g {
		t.Errorf("%+v, want %+v", got, g)
	}
}
