package grant

import "testing"

// BenchmarkTakeExclusive is a request of a gateway that has the bucket itself.
func BenchmarkTakeExclusive(b *testing.B) {
	p := Params{Rate: 1e9, Burst: 1e9 * Token}
	g := NewGateway(p, 1<<20)
	g.exclusive = true
	b.ReportAllocs()
	for i := range b.N {
		g.Take(int64(i)*100, Token)
	}
}

// nowhere drops what is sent.
type nowhere struct{}

func (nowhere) Grant(Peer, Grant)   {}
func (nowhere) Recall(Peer, Recall) {}
func (nowhere) CallPart(Peer)       {}

// BenchmarkOwnerRequest is a question of one of three gateways at its owner.
func BenchmarkOwnerRequest(b *testing.B) {
	o := NewOwner(Params{Rate: 1e9, Burst: 1e9 * Token}, 1, 0)
	spent := [3]int64{}
	b.ReportAllocs()
	for i := range b.N {
		p := i % 3
		o.Request(int64(i)*1000, Peer(p), Request{
			Session: 1, Owner: 1, Number: uint32(i + 1), Seq: uint32(i + 1),
			Granted: spent[p], Spent: spent[p], Need: Token, Least: Token, Use: 100 * Token,
		}, nowhere{})
		spent[p] += Token
	}
}
