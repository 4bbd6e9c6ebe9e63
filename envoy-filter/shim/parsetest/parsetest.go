package parsetest

/*
#include <stdlib.h>
#include "parse.h"
#include "siphash.h"
#include "guard.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

// Longest is the longest value that has no digest.
const Longest = C.TITRATE_LONGEST

// guard is used by one call at a time.
var guard sync.Mutex

// guarded puts text where its end is the end of readable memory, for the call.
func guarded(text string, call func(C.abi_bytes)) {
	guard.Lock()
	defer guard.Unlock()
	if len(text) > C.GUARD_SIZE/2 {
		text = text[:C.GUARD_SIZE/2]
	}
	at := unsafe.Add(unsafe.Pointer(C.guard_end()), -len(text))
	copy(unsafe.Slice((*byte)(at), len(text)), text)
	call(C.abi_bytes{ptr: (*C.char)(at), length: C.size_t(len(text))})
}

// own is a copy in C's memory, for arguments that are not from outside.
func own(text string) (C.abi_bytes, func()) {
	p := C.CString(text)
	return C.abi_bytes{ptr: p, length: C.size_t(len(text))}, func() { C.free(unsafe.Pointer(p)) }
}

// room is memory that a parser may write to, followed by guard bytes.
type room [Longest + 64]byte

func newRoom() *room {
	r := (*room)(C.calloc(1, C.size_t(unsafe.Sizeof(room{}))))
	for i := Longest; i < len(r); i++ {
		r[i] = 0xa5
	}
	return r
}

func (r *room) at() *C.char { return (*C.char)(unsafe.Pointer(r)) }

func (r *room) free() {
	for _, c := range r[Longest:] {
		if c != 0xa5 {
			panic("a parser has written beyond its room")
		}
	}
	C.free(unsafe.Pointer(r))
}

// result copies a view after checking that the view is inside one of the allowed places.
func result(value C.abi_bytes, in C.abi_bytes, r *room) string {
	within := func(start unsafe.Pointer, n int) bool {
		from := uintptr(unsafe.Pointer(value.ptr))
		return from >= uintptr(start) && from+uintptr(value.length) <= uintptr(start)+uintptr(n)
	}
	if value.length > 0 && !within(unsafe.Pointer(in.ptr), int(in.length)) &&
		(r == nil || !within(unsafe.Pointer(r), Longest)) {
		panic(fmt.Sprintf("a result of %d bytes outside the allowed places", int(value.length)))
	}
	return C.GoStringN(value.ptr, C.int(value.length))
}

// Cookie is titrate_cookie.
func Cookie(header, name string) (value string, ok bool) {
	n, free := own(name)
	defer free()
	guarded(header, func(in C.abi_bytes) {
		var v C.abi_bytes
		if ok = bool(C.titrate_cookie(in, n, &v)); ok {
			value = result(v, in, nil)
		}
	})
	return value, ok
}

// Query is titrate_query.
func Query(path, name string) (value string, ok bool) {
	n, free := own(name)
	defer free()
	r := newRoom()
	defer r.free()
	guarded(path, func(in C.abi_bytes) {
		var v C.abi_bytes
		if ok = bool(C.titrate_query(in, n, r.at(), &v)); ok {
			value = result(v, in, r)
		}
	})
	return value, ok
}

// Address is titrate_address.
func Address(text string, v4, v6 int) (value string, ok bool) {
	r := newRoom()
	defer r.free()
	guarded(text, func(in C.abi_bytes) {
		var v C.abi_bytes
		if ok = bool(C.titrate_address(in, C.int(v4), C.int(v6), r.at(), &v)); ok {
			value = result(v, in, r)
		}
	})
	return value, ok
}

// Forwarded calls titrate_forwarded; left is the number of remaining hops.
func Forwarded(header string, hops int) (entry string, left int, ok bool) {
	n := C.int(hops)
	guarded(header, func(in C.abi_bytes) {
		var v C.abi_bytes
		if ok = bool(C.titrate_forwarded(in, &n, &v)); ok {
			entry = result(v, in, nil)
		}
	})
	return entry, int(n), ok
}

// Bounded is titrate_bounded.
func Bounded(text string) (value string) {
	r := newRoom()
	defer r.free()
	guarded(text, func(in C.abi_bytes) { value = result(C.titrate_bounded(in, r.at()), in, r) })
	return value
}

// Cost is titrate_cost.
func Cost(text string) (cost float64, ok bool) {
	guarded(text, func(in C.abi_bytes) {
		var c C.double
		ok = bool(C.titrate_cost(in, &c))
		cost = float64(c)
	})
	return cost, ok
}

// How text is compared.
const (
	Present  = C.TITRATE_PRESENT
	Exact    = C.TITRATE_EXACT
	Prefix   = C.TITRATE_PREFIX
	Suffix   = C.TITRATE_SUFFIX
	Contains = C.TITRATE_CONTAINS
)

// Compare is titrate_compare.
func Compare(how int, text, want string) (yes bool) {
	w, free := own(want)
	defer free()
	guarded(text, func(in C.abi_bytes) { yes = bool(C.titrate_compare(C.int(how), in, w)) })
	return yes
}

// PathOnly is titrate_path_only.
func PathOnly(path string) (only string) {
	guarded(path, func(in C.abi_bytes) { only = result(C.titrate_path_only(in), in, nil) })
	return only
}

// NameOf is titrate_name_of, of a value at the beginning of its room if inRoom.
func NameOf(prefix, value string, inRoom bool) (name string) {
	p, free := own(prefix)
	defer free()
	r := newRoom()
	defer r.free()
	guarded(value, func(in C.abi_bytes) {
		if inRoom {
			copy(r[:Longest], value)
			in = C.abi_bytes{ptr: r.at(), length: C.size_t(min(len(value), Longest))}
		}
		name = result(C.titrate_name_of(p, in, r.at()), in, r)
	})
	return name
}

// SipHash is titrate_siphash.
func SipHash(key [2]uint64, text string) string {
	var digits [16]byte
	k := C.struct_titrate_key{k: [2]C.uint64_t{C.uint64_t(key[0]), C.uint64_t(key[1])}}
	guarded(text, func(in C.abi_bytes) { C.titrate_siphash(&k, in, (*C.char)(unsafe.Pointer(&digits))) })
	return string(digits[:])
}
