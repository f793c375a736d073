package cuckoo_test

// Invariants checked: the methods answer as those of a cuckoo filter in memory do, and what was committed is there when
// the filter is opened again; after an error nothing is denied.

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"gowk"
	"gowk/cuckoo"
)

// What programs ask of such filters.
type filter interface {
	Lookup([]byte) bool
	Insert([]byte) bool
	InsertUnique([]byte) bool
	Delete([]byte) bool
	Count() uint
}

var _ filter = (*cuckoo.Filter)(nil)

func check(t *testing.T, right bool, what string) {
	t.Helper()
	if !right {
		t.Fatal(what)
	}
}

func TestTheMethodsAnswerAsThoseOfAFilterInMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := cuckoo.Open(path, 1000, 1e-7)
	if err != nil {
		t.Fatal(err)
	}
	a, b := []byte("a"), []byte("b")
	check(t, !f.Lookup(a) && f.Insert(a) && f.Lookup(a), "a key that was inserted is there")
	check(t, !f.InsertUnique(a) && f.InsertUnique(b) && f.Count() == 2, "a unique key is stored once")
	check(t, f.Insert(a) && f.Count() == 3 && f.Delete(a) && f.Lookup(a), "copies are counted")
	check(t, f.Delete(a) && !f.Lookup(a) && !f.Delete(a) && f.Count() == 1, "the last copy is gone")
	for i := 0; i < 20_000; i++ { // It has no fixed capacity.
		check(t, f.InsertUnique([]byte(fmt.Sprint(i))), "there is room")
	}
	check(t, f.Err() == nil && f.Close() == nil, "no call failed")
	f, err = cuckoo.Open(path, 1000, 0)
	check(t, err == nil && f.Count() == 20_001 && f.Lookup(b) && f.Lookup([]byte("7")), "it is there again")
	check(t, f.Close() == nil, "it closes")
	check(t, f.Lookup([]byte("nobody")) && !f.Insert(a) && !f.Delete(b), "a closed filter denies nothing")
	check(t, errors.Is(f.Err(), gowk.ErrClosed), "and says that it is closed")
	check(t, f.Close() == nil, "it may be closed twice")
}

func TestItsRateIsThatOfReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := cuckoo.Open(path, 1000, 1e-4)
	check(t, err == nil && f.Insert([]byte("a")) && f.Commit() == nil, "it opens")
	r, err := gowk.OpenReader(path, &gowk.Options{Kind: gowk.Counting})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	found, err := r.Contains([]byte("a"))
	check(t, found && err == nil, "readers see what was committed")
	check(t, f.Close() == nil, "it closes")
}
