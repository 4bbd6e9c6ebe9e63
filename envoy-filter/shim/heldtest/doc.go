// Package heldtest runs held.c without Envoy: what the worker does at the worst moment of the ticker.
//
// The C file and its headers are links to those of the shim, as in parsetest.
package heldtest
