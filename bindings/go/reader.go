package gowk

// #include "gowkgo.h"
import "C"

import (
	"runtime"
	"sync"
	"unsafe"
)

// Reader is a filter open for lookups, beside a writer in any process or without one. It sees each commit when that
// returns. Goroutines may share it, and look up at the same time.
type Reader struct {
	// Held for reading by every call, so that Close waits for them.
	mutex  sync.RWMutex
	handle *C.gowk_reader
}

// OpenReader opens the filter at a path for lookups; recovers it first if its last writer died.
func OpenReader(path string, options *Options) (*Reader, error) {
	return openReader(path, options, func(p *C.char, o *C.gowk_options, r **C.gowk_reader, e *C.gowk_error) C.int64_t {
		return C.gowk_reader_open(p, o, r, e)
	})
}

// OpenInMemory is like OpenReader, with a copy of the filter in memory, as of its last commit. It sees no later commits.
func OpenInMemory(path string, options *Options) (*Reader, error) {
	return openReader(path, options, func(p *C.char, o *C.gowk_options, r **C.gowk_reader, e *C.gowk_error) C.int64_t {
		return C.gowk_reader_open_in_memory(p, o, r, e)
	})
}

// FromBytes reads a filter from bytes: from Reader.Bytes, or from a file whose last writer has closed it, for example one
// embedded with package embed. The bytes are checked like a file, and copied.
func FromBytes(bytes []byte, options *Options) (*Reader, error) {
	return openReader("", options, func(_ *C.char, o *C.gowk_options, r **C.gowk_reader, e *C.gowk_error) C.int64_t {
		bytes, length := pointed(bytes)
		return C.gowk_reader_from_bytes(unsafe.Pointer(&bytes[0]), length, o, r, e)
	})
}

func openReader(path string, options *Options, open func(*C.char, *C.gowk_options, **C.gowk_reader, *C.gowk_error) C.int64_t) (*Reader, error) {
	r := &Reader{}
	err := opening(path, options, func(path *C.char, options *C.gowk_options, failure *C.gowk_error) C.int64_t {
		return open(path, options, &r.handle, failure)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Close frees the reader, after all calls that are under way. It never fails.
func (r *Reader) Close() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	C.gowk_reader_close(r.handle)
	r.handle = nil
	return nil
}

func (r *Reader) isClosed() error { return closed("the reader") }

// Contains returns whether the key is there. "No" is always right; "yes" is wrong at the filter's false-positive rate.
func (r *Reader) Contains(key []byte) (bool, error) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if r.handle == nil {
		return false, r.isClosed()
	}
	n, err := outcome(C.gowkgo_reader_contains(r.handle, address(key), C.size_t(len(key))))
	runtime.KeepAlive(key)
	return n == 1, err
}

// Count returns how many copies of the key are stored: in a counting filter inserted minus removed, never too low; in
// other filters 0 or 1.
func (r *Reader) Count(key []byte) (int64, error) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if r.handle == nil {
		return 0, r.isClosed()
	}
	n, err := outcome(C.gowkgo_reader_count(r.handle, address(key), C.size_t(len(key))))
	runtime.KeepAlive(key)
	return n, err
}

// ContainsBatch looks up keys, several times as fast as one by one, and returns an answer for each.
func (r *Reader) ContainsBatch(keys [][]byte) ([]bool, error) {
	found := make([]bool, len(keys))
	err := inParts(keys, func(first int, keys *C.gowk_key, n C.size_t) error {
		_, err := r.call(func(failure *C.gowk_error) C.int64_t {
			return C.gowk_reader_contains_batch(r.handle, keys, n, answers(found[first:]), failure)
		})
		return err
	})
	return found, err
}

// Makes a call of the reader; for calls that take much longer than nanoseconds.
func (r *Reader) call(call func(*C.gowk_error) C.int64_t) (int64, error) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if r.handle == nil {
		return 0, r.isClosed()
	}
	var failure C.gowk_error
	return done(call(&failure), &failure)
}

// Metadata returns the value under a name, as of the last commit, or ErrNotFound.
func (r *Reader) Metadata(name string) ([]byte, error) {
	return metadata(name, func(name *C.char, buffer unsafe.Pointer, size C.size_t) (int64, error) {
		return r.call(func(failure *C.gowk_error) C.int64_t {
			return C.gowk_reader_metadata(r.handle, name, buffer, size, failure)
		})
	})
}

// Info describes the filter as of its last commit.
func (r *Reader) Info() (Info, error) {
	var found C.gowk_info
	_, err := r.call(func(failure *C.gowk_error) C.int64_t { return C.gowk_reader_info(r.handle, &found, failure) })
	return infoOf(&found), err
}

// Reload reopens the filter if another file has taken its name, as after mv new live, and returns whether it did. Batches
// do this first; commits and doublings are seen without it.
func (r *Reader) Reload() (bool, error) {
	n, err := r.call(func(failure *C.gowk_error) C.int64_t { return C.gowk_reader_reload(r.handle, failure) })
	return n == 1, err
}

// Verify reads the whole filter, and compares each page with its checksum; ErrDamaged says how many are damaged.
func (r *Reader) Verify() error {
	_, err := r.call(func(failure *C.gowk_error) C.int64_t { return C.gowk_reader_verify(r.handle, failure) })
	return err
}

// CopyTo copies the filter, as of one commit, to a file that must not exist.
func (r *Reader) CopyTo(path string) error { return r.copy(path, 0) }

// CopyOver is like CopyTo, but may replace a filter at the path. The readers of that filter go on with the copy.
func (r *Reader) CopyOver(path string) error { return r.copy(path, 1) }

func (r *Reader) copy(path string, replace C.int32_t) error {
	cname, err := cpath(path)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(cname))
	_, err = r.call(func(failure *C.gowk_error) C.int64_t {
		return C.gowk_reader_copy_to(r.handle, cname, replace, failure)
	})
	return err
}

// Bytes copies the filter, as of one commit, to memory: the same bytes that CopyTo writes to a file.
func (r *Reader) Bytes() ([]byte, error) {
	var copied *C.uint8_t
	n, err := r.call(func(failure *C.gowk_error) C.int64_t { return C.gowk_reader_to_bytes(r.handle, &copied, failure) })
	if err != nil {
		return nil, err
	}
	defer C.gowk_bytes_free(copied, C.size_t(n))
	bytes := make([]byte, n)
	copy(bytes, unsafe.Slice((*byte)(copied), n))
	return bytes, nil
}
