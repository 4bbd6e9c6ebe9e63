package link

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
)

// Calls of standing parts, their answers and a Division are the same after their way.
func TestPartsOnTheLink(t *testing.T) {
	for _, m := range []Message{
		&exchange.TokenAnswers{Division: &exchange.Division{Gateways: 3, Full: true}},
		&exchange.TokenAnswers{Calls: []exchange.PartCall{{Key: 1, PartCall: grant.PartCall{Owner: 2, At: 3, Lease: 4,
			Rate: 5, Burst: 6}}, {Key: 7}}, Grants: []exchange.TokenGrant{{Key: 8, Grant: grant.Grant{Valid: 9}}}},
		&exchange.TokenRequests{Divides: &exchange.Division{Gateways: 3}, Answers: []exchange.PartAnswer{{Key: 1,
			PartAnswer: grant.PartAnswer{Owner: 2, At: 3, Given: 4, Size: 5, Spent: 6, Full: 7, Since: 8, Base: 9, Spends: []grant.Spend{{Age: 10, Cost: 11}}}}, {Key: 9}},
			List: []exchange.TokenRequest{{Key: 10}}},
		&exchange.Decisions{List: []exchange.Decision{{Limits: []exchange.LimitStep{{Name: "a"},
			{Name: "b", Parted: true}}}}},
	} {
		var wire bytes.Buffer
		if err := newestWriter(&wire).Write(m); err != nil {
			t.Fatal(err)
		}
		got, err := NewReader(&wire).Next()
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v, %v, want %+v", got, err, m)
		}
	}
}
