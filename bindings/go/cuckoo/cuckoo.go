// Package cuckoo is a filter with the methods of the cuckoo filters in memory that Go programs use, such as
// github.com/seiflotfy/cuckoofilter: Insert, InsertUnique, Lookup, Delete, Count. To move to a filter that lies on disk,
// survives a crash and has no fixed capacity, change the import and the constructor, and call Commit.
//
// Those methods return no errors. Here the first error is kept, and returned by Err, Commit and Close. After it, Lookup
// answers true, since it must not deny a key, and all others change nothing and answer false.
package cuckoo

import (
	"errors"
	"os"
	"sync"

	"gowk"
)

// Filter is a counting filter open for writing. Goroutines may share it.
type Filter struct {
	writer *gowk.Writer
	mutex  sync.Mutex
	err    error
}

// Open opens or creates the filter at a path, for so many keys before it doubles for the first time. At a rate of 0 the
// false-positive rate is 0.001.
func Open(path string, capacity uint64, rate float64) (*Filter, error) {
	options := &gowk.Options{Capacity: capacity, FalsePositiveRate: rate, Kind: gowk.Counting}
	writer, err := gowk.Open(path, options)
	if err != nil {
		return nil, err
	}
	return &Filter{writer: writer}, nil
}

func (f *Filter) note(err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.err == nil {
		f.err = err
	}
}

// Err returns the first error of any call, or nil.
func (f *Filter) Err() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.err
}

// Lookup returns whether the key is there, or might be.
func (f *Filter) Lookup(data []byte) bool {
	if f.Err() != nil {
		return true
	}
	found, err := f.writer.Contains(data)
	if err != nil {
		f.note(err)
		return true
	}
	return found
}

// Insert stores one more copy of the key, and returns whether it did.
func (f *Filter) Insert(data []byte) bool {
	if f.Err() != nil {
		return false
	}
	if _, err := f.writer.Insert(data); err != nil {
		f.note(err)
		return false
	}
	return true
}

// InsertUnique stores the key unless it is there, and returns whether it stored it.
func (f *Filter) InsertUnique(data []byte) bool {
	return f.Err() == nil && !f.Lookup(data) && f.Insert(data)
}

// Delete removes one copy of the key, and returns whether there was one. Delete only keys that were inserted.
func (f *Filter) Delete(data []byte) bool {
	if f.Err() != nil {
		return false
	}
	removed, err := f.writer.Remove(data)
	if err != nil {
		f.note(err)
	}
	return removed
}

// Count returns how many copies of all keys are stored.
func (f *Filter) Count() uint {
	info, err := f.writer.Info()
	if err != nil {
		f.note(err)
	}
	return uint(info.Copies)
}

// Commit makes all changes since the last commit durable and visible to readers.
func (f *Filter) Commit() error {
	if err := f.Err(); err != nil {
		return err
	}
	err := f.writer.Commit()
	if err != nil {
		f.note(err)
	}
	return err
}

// Close commits, and closes the filter. After an error it closes the filter without committing, and returns the error.
func (f *Filter) Close() error {
	if err := f.Commit(); err != nil {
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		_ = f.writer.Close()
		return err
	}
	err := f.writer.Close()
	f.note(&gowk.Error{Code: gowk.ErrClosed, Message: "the filter is closed"})
	return err
}
