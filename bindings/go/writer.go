package gowk

// #include "gowkgo.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Writer is a filter open for writing; over all processes there is one at a time for each filter.
//
// Its changes belong to a transaction: the writer sees them at once, and nobody else before Commit. Goroutines may share
// it; calls wait for each other.
type Writer struct {
	mutex  sync.Mutex
	handle *C.gowk_writer
}

// How often OpenContext tries again.
const poll = 20 * time.Millisecond

func openWriter(path string, options *Options, open func(*C.char, *C.gowk_options, **C.gowk_writer, *C.gowk_error) C.int64_t) (*Writer, error) {
	w := &Writer{}
	err := opening(path, options, func(path *C.char, options *C.gowk_options, failure *C.gowk_error) C.int64_t {
		return open(path, options, &w.handle, failure)
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Open opens or creates the filter at a path for writing. It recovers the filter first if its last writer died. A new
// filter appears under its name with its first commit. While another process has a writer, Open fails with ErrLocked,
// after Options.Wait.
func Open(path string, options *Options) (*Writer, error) {
	return openWriter(path, options, func(p *C.char, o *C.gowk_options, w **C.gowk_writer, e *C.gowk_error) C.int64_t {
		return C.gowk_writer_open(p, o, w, e)
	})
}

// OpenContext is like Open, and waits until other writers are done. If the context ends first, the error is both the
// context's error and ErrLocked.
func OpenContext(ctx context.Context, path string, options *Options) (*Writer, error) {
	for {
		w, err := Open(path, options)
		if !errors.Is(err, ErrLocked) {
			return w, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %v", contextError{ctx.Err(), err}, err)
		case <-time.After(poll):
		}
	}
}

// Two errors in one; errors.Join is of Go 1.20.
type contextError struct{ context, locked error }

func (e contextError) Error() string { return e.context.Error() }

func (e contextError) Is(target error) bool {
	return errors.Is(e.context, target) || errors.Is(e.locked, target)
}

// OpenExisting is like Open, but fails with ErrNotFound instead of creating a filter.
func OpenExisting(path string, options *Options) (*Writer, error) {
	return openWriter(path, options, func(p *C.char, o *C.gowk_options, w **C.gowk_writer, e *C.gowk_error) C.int64_t {
		return C.gowk_writer_open_existing(p, o, w, e)
	})
}

// Create is like Open, but fails with ErrExists if the filter exists, unless Options.Replace is set.
func Create(path string, options *Options) (*Writer, error) {
	return openWriter(path, options, func(p *C.char, o *C.gowk_options, w **C.gowk_writer, e *C.gowk_error) C.int64_t {
		return C.gowk_writer_create(p, o, w, e)
	})
}

// Close frees the writer, whatever the outcome. Changes that were not committed are lost, and the error is then
// ErrUncommitted. Closing a closed writer is no error.
func (w *Writer) Close() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	handle := w.handle
	if handle == nil {
		return nil
	}
	w.handle = nil
	var failure C.gowk_error
	_, err := done(C.gowk_writer_close(handle, &failure), &failure)
	return err
}

func (w *Writer) isClosed() error { return closed("the writer") }

// Insert inserts a key, and returns whether it is new: it was not there before. A set stores a key unless it is there; a
// counting filter always stores one more copy. Without room it fails with ErrNoRoom, and other keys stay.
func (w *Writer) Insert(key []byte) (bool, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.handle == nil {
		return false, w.isClosed()
	}
	n, err := outcome(C.gowkgo_writer_insert(w.handle, address(key), C.size_t(len(key))))
	runtime.KeepAlive(key)
	return n == int64(New), err
}

// InsertAt inserts a key into a forgetting filter, with the time at which it was seen.
func (w *Writer) InsertAt(key []byte, seen time.Time) (Result, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.handle == nil {
		return Known, w.isClosed()
	}
	n, err := outcome(C.gowkgo_writer_insert_at(w.handle, address(key), C.size_t(len(key)), C.int64_t(seen.UnixMilli())))
	runtime.KeepAlive(key)
	return Result(n), err
}

// InsertBatch inserts keys, several times as fast as one by one, and returns a result for each. Of equal keys only the
// first can be New.
//
// If keys were refused for want of room, the error is ErrNoRoom; all others were inserted, and the results say which.
// After any other error the results say New for keys that were inserted before it; they belong to the transaction.
func (w *Writer) InsertBatch(keys [][]byte) ([]Result, error) {
	results := make([]Result, len(keys))
	err := w.batch(keys, func(first int, keys *C.gowk_key, n C.size_t, failure *C.gowk_error) C.int64_t {
		return C.gowk_writer_insert_batch(w.handle, keys, n, places(results[first:]), failure)
	})
	return results, err
}

// InsertBatchAt is like InsertBatch, for a forgetting filter and keys that were seen at these times.
func (w *Writer) InsertBatchAt(keys [][]byte, seen []time.Time) ([]Result, error) {
	if len(keys) != len(seen) {
		return nil, &Error{ErrInvalid, fmt.Sprintf("%d keys come with %d times", len(keys), len(seen))}
	}
	results, times := make([]Result, len(keys)), make([]C.int64_t, len(keys))
	for i, time := range seen {
		times[i] = C.int64_t(time.UnixMilli())
	}
	err := w.batch(keys, func(first int, keys *C.gowk_key, n C.size_t, failure *C.gowk_error) C.int64_t {
		if n == 0 {
			return C.gowk_writer_insert_batch_at(w.handle, nil, nil, 0, nil, failure)
		}
		return C.gowk_writer_insert_batch_at(w.handle, keys, &times[first], n, places(results[first:]), failure)
	})
	return results, err
}

// InsertBatchFor is like InsertBatch, for a forgetting filter; it keeps each key for its own lifetime from now on. No
// lifetime may be longer than the filter keeps keys. A key that is there already keeps the later of its two expiry times.
func (w *Writer) InsertBatchFor(keys [][]byte, lifetimes []time.Duration) ([]Result, error) {
	if len(keys) != len(lifetimes) {
		return nil, &Error{ErrInvalid, fmt.Sprintf("%d keys come with %d lifetimes", len(keys), len(lifetimes))}
	}
	results, millis := make([]Result, len(keys)), make([]C.int64_t, len(keys))
	for i, lifetime := range lifetimes {
		millis[i] = C.int64_t(lifetime.Milliseconds())
	}
	err := w.batch(keys, func(first int, keys *C.gowk_key, n C.size_t, failure *C.gowk_error) C.int64_t {
		if n == 0 {
			return C.gowk_writer_insert_batch_for(w.handle, nil, nil, 0, nil, failure)
		}
		return C.gowk_writer_insert_batch_for(w.handle, keys, &millis[first], n, places(results[first:]), failure)
	})
	return results, err
}

func (w *Writer) batch(keys [][]byte, call func(int, *C.gowk_key, C.size_t, *C.gowk_error) C.int64_t) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.handle == nil {
		return w.isClosed()
	}
	return changeInParts(keys, call)
}

// Remove removes one copy of a key from a counting filter, and returns whether there was one. Remove only keys that were
// inserted: removing any other can take the entry of a stored key that it matches.
func (w *Writer) Remove(key []byte) (bool, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.handle == nil {
		return false, w.isClosed()
	}
	n, err := outcome(C.gowkgo_writer_remove(w.handle, address(key), C.size_t(len(key))))
	runtime.KeepAlive(key)
	return n == 1, err
}

// RemoveBatch removes one copy of each key, and returns for each whether there was one.
func (w *Writer) RemoveBatch(keys [][]byte) ([]bool, error) {
	removed := make([]bool, len(keys))
	err := w.batch(keys, func(first int, keys *C.gowk_key, n C.size_t, failure *C.gowk_error) C.int64_t {
		return C.gowk_writer_remove_batch(w.handle, keys, n, answers(removed[first:]), failure)
	})
	return removed, err
}

// Contains returns whether the transaction has the key.
func (w *Writer) Contains(key []byte) (bool, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.handle == nil {
		return false, w.isClosed()
	}
	n, err := outcome(C.gowkgo_writer_contains(w.handle, address(key), C.size_t(len(key))))
	runtime.KeepAlive(key)
	return n == 1, err
}

// Count returns how many copies of the key the transaction has.
func (w *Writer) Count(key []byte) (int64, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.handle == nil {
		return 0, w.isClosed()
	}
	n, err := outcome(C.gowkgo_writer_count(w.handle, address(key), C.size_t(len(key))))
	runtime.KeepAlive(key)
	return n, err
}

// Makes a call of the writer; for calls that take much longer than nanoseconds.
func (w *Writer) call(call func(*C.gowk_error) C.int64_t) (int64, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.handle == nil {
		return 0, w.isClosed()
	}
	var failure C.gowk_error
	return done(call(&failure), &failure)
}

// SetMetadata stores a value under a name, to be committed with the keys: a position in an input, say. All metadata
// together takes at most 48 KiB, which the commit checks.
func (w *Writer) SetMetadata(name string, value []byte) error {
	cname, err := cpath(name)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(cname))
	_, err = w.call(func(failure *C.gowk_error) C.int64_t {
		value, length := pointed(value)
		return C.gowk_writer_set_metadata(w.handle, cname, unsafe.Pointer(&value[0]), length, failure)
	})
	return err
}

// RemoveMetadata removes a name, and returns whether it was there.
func (w *Writer) RemoveMetadata(name string) (bool, error) {
	cname, err := cpath(name)
	if err != nil {
		return false, err
	}
	defer C.free(unsafe.Pointer(cname))
	n, err := w.call(func(failure *C.gowk_error) C.int64_t {
		return C.gowk_writer_remove_metadata(w.handle, cname, failure)
	})
	return n == 1, err
}

// Metadata returns the value that the transaction has under a name, or ErrNotFound.
func (w *Writer) Metadata(name string) ([]byte, error) {
	return metadata(name, func(name *C.char, buffer unsafe.Pointer, size C.size_t) (int64, error) {
		return w.call(func(failure *C.gowk_error) C.int64_t {
			return C.gowk_writer_metadata(w.handle, name, buffer, size, failure)
		})
	})
}

// Reads a value, whose length is not known before.
func metadata(name string, read func(*C.char, unsafe.Pointer, C.size_t) (int64, error)) ([]byte, error) {
	cname, err := cpath(name)
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(cname))
	value := make([]byte, 256)
	for {
		n, err := read(cname, unsafe.Pointer(&value[0]), C.size_t(len(value)))
		if err != nil {
			return nil, err
		}
		if n <= int64(len(value)) {
			return value[:n], nil
		}
		value = make([]byte, n)
	}
}

// Commit makes the transaction durable, and visible to all readers. After ErrUnknown it may be durable; after
// ErrAfterCommit it is durable; after any other error it is not.
func (w *Writer) Commit() error {
	_, err := w.call(func(failure *C.gowk_error) C.int64_t { return C.gowk_writer_commit(w.handle, failure) })
	return err
}

// Rollback undoes all changes since the last commit.
func (w *Writer) Rollback() error {
	_, err := w.call(func(failure *C.gowk_error) C.int64_t { return C.gowk_writer_rollback(w.handle, failure) })
	return err
}

// Checkpoint makes all commits part of the file itself, and empties the journal. Close does so too.
func (w *Writer) Checkpoint() error {
	_, err := w.call(func(failure *C.gowk_error) C.int64_t { return C.gowk_writer_checkpoint(w.handle, failure) })
	return err
}

// Sweep removes the expired entries of a forgetting filter, and returns how many it removed. Lookups never find them, and
// inserts reuse their room: call Sweep only for a filter that gets no keys for a long time.
func (w *Writer) Sweep() (int64, error) {
	return w.call(func(failure *C.gowk_error) C.int64_t { return C.gowk_writer_sweep(w.handle, failure) })
}

// Merge adds all keys of another filter with the same seed and shape, without the keys themselves.
func (w *Writer) Merge(other *Reader) error {
	other.mutex.RLock()
	defer other.mutex.RUnlock()
	if other.handle == nil {
		return other.isClosed()
	}
	_, err := w.call(func(failure *C.gowk_error) C.int64_t {
		return C.gowk_writer_merge(w.handle, other.handle, failure)
	})
	return err
}

// Info describes the filter with the open transaction.
func (w *Writer) Info() (Info, error) {
	var found C.gowk_info
	_, err := w.call(func(failure *C.gowk_error) C.int64_t { return C.gowk_writer_info(w.handle, &found, failure) })
	return infoOf(&found), err
}
