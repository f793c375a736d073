package gowk

// #include "gowkgo.h"
import "C"

import (
	"runtime"
	"sync"
	"unsafe"
)

// Store is a folder of filters with versions. Any number of processes may commit to it, and goroutines may share it.
type Store struct {
	mutex  sync.RWMutex
	handle *C.gowk_store
}

// Token makes a commit happen once, however often it is tried: an application's name, and a number that it raises with
// each commit. The zero value is no token.
type Token struct {
	Application string
	Number      uint64
}

// The application as a string of C, which the caller frees; NULL for no token.
func (t Token) made() (*C.char, error) {
	if t.Application == "" {
		return nil, nil
	}
	return cpath(t.Application)
}

func openStore(path string, options *Options, open func(*C.char, *C.gowk_options, **C.gowk_store, *C.gowk_error) C.int64_t) (*Store, error) {
	s := &Store{}
	err := opening(path, options, func(path *C.char, options *C.gowk_options, failure *C.gowk_error) C.int64_t {
		return open(path, options, &s.handle, failure)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// CreateStore creates a store of shards filters, 1 to 65536, in a folder that does not exist or is empty. The options
// describe one filter that would hold all keys.
func CreateStore(path string, shards int, options *Options) (*Store, error) {
	if shards < 1 || shards > 65536 {
		return nil, &Error{ErrInvalid, "a store has 1 to 65536 shards"}
	}
	return openStore(path, options, func(p *C.char, o *C.gowk_options, s **C.gowk_store, e *C.gowk_error) C.int64_t {
		return C.gowk_store_create(p, C.uint32_t(shards), o, s, e)
	})
}

// OpenStore opens a store.
func OpenStore(path string, options *Options) (*Store, error) {
	return openStore(path, options, func(p *C.char, o *C.gowk_options, s **C.gowk_store, e *C.gowk_error) C.int64_t {
		return C.gowk_store_open(p, o, s, e)
	})
}

// Close frees the store, after all calls that are under way. Updates and readers of it stay open. It never fails.
func (s *Store) Close() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	C.gowk_store_close(s.handle)
	s.handle = nil
	return nil
}

func (s *Store) call(call func(*C.gowk_error) C.int64_t) (int64, error) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	if s.handle == nil {
		return 0, closed("the store")
	}
	var failure C.gowk_error
	return done(call(&failure), &failure)
}

// InsertBatch inserts keys and commits them, once for each token: if the token was committed before, nothing changes, and
// the results are the results of that commit. If other processes have committed some of the same keys first, all keys are
// judged again. The operation is a word for the store's log.
//
// After ErrNoRoom nothing was committed. After ErrUnknown the commit may have been made: call again with the same token.
func (s *Store) InsertBatch(keys [][]byte, operation string, token Token) ([]Result, error) {
	results := make([]Result, len(keys))
	application, err := token.made()
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(application))
	name, err := cpath(operation)
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(name))
	withKeys(keys, func(keys *C.gowk_key, n C.size_t) {
		_, err = s.call(func(failure *C.gowk_error) C.int64_t {
			return C.gowk_store_insert_batch(s.handle, keys, n, places(results), name, application, C.uint64_t(token.Number), failure)
		})
	})
	return results, err
}

// LastToken gives the last token that an application has committed; false if there is none. An application that starts
// again goes on with a higher number.
func (s *Store) LastToken(application string) (Token, bool, error) {
	name, err := cpath(application)
	if err != nil {
		return Token{}, false, err
	}
	defer C.free(unsafe.Pointer(name))
	var number C.uint64_t
	found, err := s.call(func(failure *C.gowk_error) C.int64_t {
		return C.gowk_store_last_token(s.handle, name, &number, failure)
	})
	return Token{application, uint64(number)}, found == 1, err
}

// Update is a number of changes to a store, based on one version. Goroutines may share it; calls wait for each other.
type Update struct {
	mutex  sync.Mutex
	handle *C.gowk_update
}

// Update begins an update, for more keys than one call should take, or to remove keys. End it with Commit or Close.
func (s *Store) Update(token Token) (*Update, error) {
	application, err := token.made()
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(application))
	u := &Update{}
	_, err = s.call(func(failure *C.gowk_error) C.int64_t {
		return C.gowk_store_update(s.handle, application, C.uint64_t(token.Number), &u.handle, failure)
	})
	if err != nil {
		return nil, err
	}
	return u, nil
}

func (u *Update) batch(keys [][]byte, call func(int, *C.gowk_key, C.size_t, *C.gowk_error) C.int64_t) error {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.handle == nil {
		return closed("the update")
	}
	return changeInParts(keys, call)
}

// InsertBatch inserts keys, as Writer.InsertBatch does.
func (u *Update) InsertBatch(keys [][]byte) ([]Result, error) {
	results := make([]Result, len(keys))
	err := u.batch(keys, func(first int, keys *C.gowk_key, n C.size_t, failure *C.gowk_error) C.int64_t {
		return C.gowk_update_insert_batch(u.handle, keys, n, places(results[first:]), failure)
	})
	return results, err
}

// RemoveBatch removes one copy of each key, as Writer.RemoveBatch does.
func (u *Update) RemoveBatch(keys [][]byte) ([]bool, error) {
	removed := make([]bool, len(keys))
	err := u.batch(keys, func(first int, keys *C.gowk_key, n C.size_t, failure *C.gowk_error) C.int64_t {
		return C.gowk_update_remove_batch(u.handle, keys, n, answers(removed[first:]), failure)
	})
	return removed, err
}

// Commit publishes the update, and closes it whatever the outcome. It returns the number of the version that holds the
// changes: a new one, the version of the first commit with the token, or the base if there was nothing to change. With
// ErrConflict nothing was committed: begin again.
func (u *Update) Commit(operation string) (uint64, error) {
	name, err := cpath(operation)
	if err != nil {
		return 0, err
	}
	defer C.free(unsafe.Pointer(name))
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.handle == nil {
		return 0, closed("the update")
	}
	handle := u.handle
	u.handle = nil
	var failure C.gowk_error
	n, err := done(C.gowk_update_commit(handle, name, &failure), &failure)
	return uint64(n), err
}

// Close gives up an update that was not committed. It never fails.
func (u *Update) Close() error {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	C.gowk_update_abandon(u.handle)
	u.handle = nil
	return nil
}

// StoreReader is one version of a store, open for lookups. Goroutines may share it, and look up at the same time.
type StoreReader struct {
	mutex  sync.RWMutex
	handle *C.gowk_store_reader
}

// Read opens the newest version for lookups.
func (s *Store) Read() (*StoreReader, error) {
	r := &StoreReader{}
	_, err := s.call(func(failure *C.gowk_error) C.int64_t { return C.gowk_store_read(s.handle, &r.handle, failure) })
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Close frees the reader, after all calls that are under way. It never fails.
func (r *StoreReader) Close() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	C.gowk_store_reader_close(r.handle)
	r.handle = nil
	return nil
}

func (r *StoreReader) isClosed() error { return closed("the reader") }

// Contains returns whether the version has the key, as Reader.Contains does.
func (r *StoreReader) Contains(key []byte) (bool, error) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if r.handle == nil {
		return false, r.isClosed()
	}
	n, err := outcome(C.gowkgo_store_reader_contains(r.handle, address(key), C.size_t(len(key))))
	runtime.KeepAlive(key)
	return n == 1, err
}

// Count returns how many copies of the key the version has, as Reader.Count does.
func (r *StoreReader) Count(key []byte) (int64, error) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if r.handle == nil {
		return 0, r.isClosed()
	}
	n, err := outcome(C.gowkgo_store_reader_count(r.handle, address(key), C.size_t(len(key))))
	runtime.KeepAlive(key)
	return n, err
}

// ContainsBatch looks up keys, and returns an answer for each.
func (r *StoreReader) ContainsBatch(keys [][]byte) ([]bool, error) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if r.handle == nil {
		return nil, r.isClosed()
	}
	found := make([]bool, len(keys))
	err := inParts(keys, func(first int, keys *C.gowk_key, n C.size_t) error {
		var failure C.gowk_error
		_, err := done(C.gowk_store_reader_contains_batch(r.handle, keys, n, answers(found[first:]), &failure), &failure)
		return err
	})
	return found, err
}

// Version returns the number of the version that the reader looks into.
func (r *StoreReader) Version() (uint64, error) {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if r.handle == nil {
		return 0, r.isClosed()
	}
	var failure C.gowk_error
	n, err := done(C.gowk_store_reader_version(r.handle, &failure), &failure)
	return uint64(n), err
}

// Reload moves the reader to the newest version, and returns whether that is another one.
func (r *StoreReader) Reload() (bool, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.handle == nil {
		return false, r.isClosed()
	}
	var failure C.gowk_error
	n, err := done(C.gowk_store_reader_reload(r.handle, &failure), &failure)
	return n == 1, err
}
