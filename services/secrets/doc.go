// Package secrets makes what the processes of an installation know each other by: certificates of one CA, and gossip
// keys.
//
// [Make] makes a set of certificates whole or not at all. The CA's key is kept nowhere, so a missing certificate cannot
// be added later: then a new CA makes the whole set again. What is there already stays as it is. So Make may be called
// at each upgrade.
//
// [Files] and [Kubernetes] are where secrets go.
package secrets
