package parsetest

/*
#include <stdlib.h>
#include "usage.h"
*/
import "C"

import (
	"unsafe"

	"github.com/titrate/titrate/envoy-filter/settings"
)

// Usage is a titrate_usage_reader.
type Usage struct {
	reader *C.struct_titrate_usage_reader
	format *C.struct_titrate_usage_format
	owned  []unsafe.Pointer
}

// ReaderSize is the memory of a reader, bytes.
const ReaderSize = C.sizeof_struct_titrate_usage_reader

// NewUsage begins to read a body. Free it.
func NewUsage(paths []settings.UsagePath, events bool) *Usage {
	u := &Usage{}
	list := (*C.struct_titrate_usage_path)(u.allocate((1 + len(paths)) * C.sizeof_struct_titrate_usage_path))
	for i, p := range paths {
		to := &unsafe.Slice(list, len(paths))[i]
		to.field, to.counts, to.length = C.uint8_t(p.Field), C.uint8_t(p.Counts), C.uint8_t(len(p.Keys))
		for j, key := range p.Keys {
			if key != settings.AnyElement {
				at := u.allocate(len(key) + 1)
				copy(unsafe.Slice((*byte)(at), len(key)), key)
				to.key[j] = C.abi_bytes{ptr: (*C.char)(at), length: C.size_t(len(key))}
			}
		}
	}
	u.format = (*C.struct_titrate_usage_format)(u.allocate(C.sizeof_struct_titrate_usage_format))
	u.format.count, u.format.path = C.size_t(len(paths)), list
	u.reader = (*C.struct_titrate_usage_reader)(u.allocate(ReaderSize))
	C.titrate_usage_begin(u.reader, u.format, C.bool(events))
	return u
}

func (u *Usage) allocate(size int) unsafe.Pointer {
	at := C.calloc(1, C.size_t(size))
	u.owned = append(u.owned, at)
	return at
}

// Read is titrate_usage_read.
func (u *Usage) Read(chunk string) {
	guarded(chunk, func(in C.abi_bytes) { C.titrate_usage_read(u.reader, in) })
}

// Get is titrate_usage_get.
func (u *Usage) Get(counts settings.Usage) (tokens float64, ok bool) {
	var n C.double
	ok = bool(C.titrate_usage_get(u.reader, C.int(counts), &n))
	return float64(n), ok
}

// Final is titrate_usage_final.
func (u *Usage) Final(counts settings.Usage) (tokens float64, ok bool) {
	var n C.double
	ok = bool(C.titrate_usage_final(u.reader, C.int(counts), &n))
	return float64(n), ok
}

// Whole is titrate_usage_whole.
func (u *Usage) Whole() bool { return bool(C.titrate_usage_whole(u.reader)) }

// Events is the number of events with data.
func (u *Usage) Events() uint64 { return uint64(u.reader.data_events) }

// Free frees it.
func (u *Usage) Free() {
	for _, at := range u.owned {
		C.free(at)
	}
}
