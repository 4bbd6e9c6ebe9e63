package grant

// rule is a rule of the law of parts. Tests leave each out, to see that it is needed.
type rule uint16

const (
	ruleLapse  rule = 1 << iota // the owner counts a part as its gateway's when the call lapses
	ruleRoom                    // a part grows only when others have given back what they have
	ruleSpent                   // what gateways get of the bucket is empty, and what they lose is spent
	ruleEnded                   // when parts end, nobody knows what was spent
	ruleSince                   // the part of a gateway that comes is empty, though it has spent nothing
	ruleReturn                  // likewise if it keeps away from it since before
	ruleLeft                    // nor of the part of a gateway that has left
	ruleEcho                    // a lease counts from when the call was sent
	ruleLevels                  // what was spent of a part is taken in
	ruleValid                   // what gateways have is void before parts go back
	ruleSmall                   // what was too small to be a part is empty when it becomes one
	ruleSize                    // what a gateway did not have is not given
	ruleAllIn                   // the bucket itself goes only with all parts
)

func (p *Params) omits(r rule) bool { return p.without&r != 0 }
