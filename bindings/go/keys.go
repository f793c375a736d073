package gowk

// #include "gowkgo.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Keys are keys in one piece of memory, which C reads where it lies: [Reader.ContainsKeys] and [Writer.InsertKeys] copy no
// key, while batches of [][]byte copy each. Append is such a copy, too: Keys save time where a key must be copied in any
// case, as from a bufio.Scanner, or is used more than once. The zero value holds no keys, and is ready for use.
//
// Goroutines may read the same Keys at the same time, also in calls of this package; while one appends or resets, no other
// may use them.
type Keys struct {
	bytes []byte
	ends  []uint64 // Of each key, in bytes; the first begins at 0.
}

// Append copies a key to the end of the keys. It may be empty.
func (k *Keys) Append(key []byte) {
	k.bytes = append(k.bytes, key...)
	k.ends = append(k.ends, uint64(len(k.bytes)))
}

// AppendString is like Append.
func (k *Keys) AppendString(key string) {
	k.bytes = append(k.bytes, key...)
	k.ends = append(k.ends, uint64(len(k.bytes)))
}

// Len returns how many keys there are.
func (k *Keys) Len() int { return len(k.ends) }

// Key returns a key, as it was appended. It must not be changed, and is right until Reset.
func (k *Keys) Key(i int) []byte {
	begin, end := uint64(0), k.ends[i]
	if i > 0 {
		begin = k.ends[i-1]
	}
	return k.bytes[begin:end:end]
}

// Reset removes all keys, and keeps their memory for the next ones.
func (k *Keys) Reset() { k.bytes, k.ends = k.bytes[:0], k.ends[:0] }

// The places of the keys for C. An empty slice has no first element: it gets one.
//
// Calls write &bytes[0] themselves: see pointed.
func (k *Keys) pointed() (bytes []byte, ends []uint64, n C.size_t) {
	bytes, _ = pointed(k.bytes)
	if ends = k.ends; len(ends) == 0 {
		ends = make([]uint64, 1)
	}
	return bytes, ends, C.size_t(len(k.ends))
}

// ContainsKeys is like [Reader.ContainsBatch], without copies of the keys.
func (r *Reader) ContainsKeys(keys *Keys) ([]bool, error) {
	found := make([]bool, keys.Len())
	bytes, ends, n := keys.pointed()
	_, err := r.call(func(failure *C.gowk_error) C.int64_t {
		return C.gowk_reader_contains_packed(
			r.handle, unsafe.Pointer(&bytes[0]), (*C.uint64_t)(&ends[0]), n, answers(found), failure)
	})
	runtime.KeepAlive(keys)
	return found, err
}

// InsertKeys is like [Writer.InsertBatch], without copies of the keys.
func (w *Writer) InsertKeys(keys *Keys) ([]Result, error) {
	results := make([]Result, keys.Len())
	bytes, ends, n := keys.pointed()
	_, err := w.call(func(failure *C.gowk_error) C.int64_t {
		return C.gowk_writer_insert_packed(
			w.handle, unsafe.Pointer(&bytes[0]), (*C.uint64_t)(&ends[0]), n, places(results), failure)
	})
	runtime.KeepAlive(keys)
	return results, err
}
