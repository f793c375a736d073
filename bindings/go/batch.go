package gowk

// #include "gowkgo.h"
import "C"

import (
	"errors"
	"runtime"
	"sync"
	"unsafe"
)

// Memory of C for the keys of a batch: C must not get memory of Go that holds pointers, as an array of keys does.
type scratch struct {
	memory unsafe.Pointer
	size   uintptr
}

// A gowk_key, with its pointer as a number: storing a pointer would let the garbage collector look at what the memory held
// before, which may be anything.
type place struct{ data, length uintptr }

// Does not compile unless both have one size.
var _ = [1]byte{}[unsafe.Sizeof(place{})-unsafe.Sizeof(C.gowk_key{})]

// Larger memory is not kept for the next batch.
const mostKept = 1 << 20

// Keys of one call of C. The copies of so many URLs stay in a processor's own cache until they are read.
const together = 4096

var scratches = sync.Pool{New: func() any {
	s := &scratch{}
	runtime.SetFinalizer(s, (*scratch).free)
	return s
}}

func (s *scratch) free() {
	C.free(s.memory)
	s.memory, s.size = nil, 0
}

// Calls with one part of the keys after the other, and the index of its first key, until a call fails. Without keys,
// calls once.
func inParts(keys [][]byte, call func(first int, keys *C.gowk_key, n C.size_t) error) error {
	for first := 0; ; first += together {
		rest := keys[first:]
		part := rest[:min(len(rest), together)]
		var err error
		withKeys(part, func(keys *C.gowk_key, n C.size_t) { err = call(first, keys, n) })
		if err != nil || len(part) == len(rest) {
			return err
		}
	}
}

// Changes keys in parts. A part with refused keys stops no other.
func changeInParts(keys [][]byte, call func(int, *C.gowk_key, C.size_t, *C.gowk_error) C.int64_t) error {
	var refused error
	err := inParts(keys, func(first int, keys *C.gowk_key, n C.size_t) error {
		var failure C.gowk_error
		_, err := done(call(first, keys, n, &failure), &failure)
		if errors.Is(err, ErrNoRoom) {
			refused, err = err, nil
		}
		return err
	})
	if err == nil {
		err = refused
	}
	return err
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

// Calls with the keys as an array of C, which is right during the call.
func withKeys(keys [][]byte, call func(*C.gowk_key, C.size_t)) {
	if len(keys) == 0 {
		call(nil, 0)
		return
	}
	total := uintptr(0)
	for _, key := range keys {
		total += uintptr(len(key))
	}
	array := uintptr(len(keys)) * unsafe.Sizeof(C.gowk_key{})
	s := scratches.Get().(*scratch)
	if need := array + total; s.size < need {
		s.free()
		// C.malloc never returns nil: it ends the program instead.
		s.size = need + need/4
		s.memory = C.malloc(C.size_t(s.size))
	}
	places := unsafe.Slice((*place)(s.memory), len(keys))
	bytes := unsafe.Slice((*byte)(unsafe.Add(s.memory, array)), total)
	from := uintptr(s.memory) + array
	at := 0
	for i, key := range keys {
		places[i] = place{from + uintptr(at), uintptr(len(key))}
		at += copy(bytes[at:], key)
	}
	call((*C.gowk_key)(s.memory), C.size_t(len(keys)))
	if s.size > mostKept {
		s.free()
	}
	scratches.Put(s)
}

func answers(found []bool) *C.uint8_t {
	if len(found) == 0 {
		return nil
	}
	return (*C.uint8_t)(unsafe.Pointer(&found[0]))
}

func places(results []Result) *C.uint8_t {
	if len(results) == 0 {
		return nil
	}
	return (*C.uint8_t)(unsafe.Pointer(&results[0]))
}
