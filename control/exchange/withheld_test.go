package exchange_test

import (
	"reflect"
	"testing"

	"github.com/titrate/titrate/control/exchange"
)

// A key that was withdrawn while there was no agent is announced with its last count and then
// withdrawn. A key that is used again meanwhile, or on the new link, is not withdrawn.
func TestWithheldClaims(t *testing.T) {
	key := func(key uint64, admitted float64) exchange.KeyClaim {
		return exchange.KeyClaim{Key: key, Claim: 3, Unsaturated: 3, Admitted: admitted}
	}
	var w exchange.Withheld
	w.Add(&exchange.Claims{Keys: []exchange.KeyClaim{key(1, 5), key(2, 5), key(3, 5)}})
	w.Add(&exchange.Claims{Keys: []exchange.KeyClaim{key(1, 8)}, Withdrawn: []uint64{2, 3, 9}})
	w.Add(&exchange.Claims{Withdrawn: []uint64{1}})
	w.Add(&exchange.Claims{Keys: []exchange.KeyClaim{key(2, 6)}})
	c := exchange.Claims{Keys: []exchange.KeyClaim{key(3, 7)}}
	w.AddTo(&c)
	want := exchange.Claims{Keys: []exchange.KeyClaim{key(3, 7), {Key: 1, Admitted: 8}}, Withdrawn: []uint64{1, 9}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, want %+v", c, want)
	}
	c = exchange.Claims{}
	if w.AddTo(&c); !reflect.DeepEqual(c, exchange.Claims{}) {
		t.Errorf("%+v are announced twice", c)
	}
}
