package comparison

import "github.com/titrate/titrate/papers/pacing"

// Document returns the text between the markers of docs/comparison.md.
func Document() string {
	return "### One limit over ten gateways\n\n" + Limits() +
		"\n### A queue in front of HTTP clients\n\n" + Queues() +
		"\n### A queue of TCP packets\n\n" + TCP() +
		"\n### Send loops\n\n" + pacing.Table() +
		"\n### Sharing several pools\n\n" + Allocators()
}
