// Package gowk answers whether a key has been seen before, for sets too large to keep, in about two bytes a key.
//
// A filter is a file. The answer "no" is always right; "yes" is wrong at a rate that is chosen when the filter is
// created. A filter grows without its keys. Any number of processes read it through mmap while one [Writer] adds to it,
// and it survives kill -9 and power loss: [Writer.Commit] makes keys and metadata durable together.
//
//	seen, err := gowk.Open("seen.gowk", &gowk.Options{Capacity: 10_000_000, FalsePositiveRate: 1e-5})
//	if err != nil {
//		return err
//	}
//	defer seen.Close()
//	results, err := seen.InsertBatch(urls)
//	if err != nil {
//		return err
//	}
//	if err := seen.SetMetadata("position", position); err != nil {
//		return err
//	}
//	if err := seen.Commit(); err != nil { // durable and visible
//		return err
//	}
//	for i, result := range results {
//		if result == gowk.New {
//			fmt.Printf("%s\n", urls[i])
//		}
//	}
//
// The package calls libgowk through cgo. A call of one key costs some 60 ns for crossing into C; batches cross
// once. A key is only read during the call. The package is safe for use by several goroutines, as each type says, and
// after Close every call returns [ErrClosed].
//
// To link libgowk statically, build with -tags gowk_static.
package gowk

// #include "gowkgo.h"
import "C"

import (
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unsafe"
)

// Code says what went wrong. It is an error itself: errors.Is(err, gowk.ErrLocked) works on every error of this package.
type Code int32

// The codes, and what to do.
const (
	ErrNotFound    Code = -1  // There is no such filter, store, version or metadata. Also fs.ErrNotExist.
	ErrExists      Code = -2  // Something of this name is there already. Also fs.ErrExist.
	ErrForeign     Code = -3  // The file is not a filter, or the folder not a store.
	ErrUnsupported Code = -4  // The file needs another version of gowk.
	ErrDamaged     Code = -5  // The bytes read are not the bytes written: verify, then restore or repair.
	ErrLocked      Code = -6  // Another process has the filter: wait, as OpenContext does.
	ErrBusy        Code = -7  // The file kept changing while it was read: try again.
	ErrNoRoom      Code = -8  // A filter has no room for a key, and must not grow.
	ErrNoSpace     Code = -9  // The file system has too little room.
	ErrKind        Code = -10 // The filter is of another kind than the call needs.
	ErrClock       Code = -11 // The clock, or the time of a key, cannot be believed.
	ErrInvalid     Code = -12 // An argument or option is not allowed.
	ErrReplaced    Code = -13 // Another file has taken the filter's name: open it again.
	ErrUncommitted Code = -14 // Closed with changes that were never committed; they are lost.
	ErrConflict    Code = -15 // Another commit to the store came first: make the update again.
	ErrUnknown     Code = -16 // It is unknown whether a commit is durable: open again, and look.
	ErrAfterCommit Code = -17 // Something failed after a commit had become durable: open again.
	ErrPoisoned    Code = -18 // An earlier failure has stopped this writer: open again.
	ErrIO          Code = -19 // The operating system refused.
	ErrPanic       Code = -20 // A defect of gowk.
	ErrOther       Code = -21 // See the message.

	ErrClosed Code = -100 // The handle is closed. Also fs.ErrClosed.
)

// Error returns the code's name, such as "locked".
func (c Code) Error() string {
	if c == ErrClosed {
		return "closed"
	}
	return C.GoString(C.gowk_code_name(C.int64_t(c)))
}

// Is makes the codes errors of package io/fs, where that has one.
func (c Code) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return c == ErrNotFound
	case fs.ErrExist:
		return c == ErrExists
	case fs.ErrClosed:
		return c == ErrClosed
	}
	return false
}

// Error is why a call failed. Unless the call says otherwise, nothing has changed.
type Error struct {
	Code Code
	// Message names the file, the place and the remedy, in one line.
	Message string
}

func (e *Error) Error() string { return "gowk: " + e.Message }

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Code }

func closed(what string) error { return &Error{ErrClosed, what + " is closed"} }

// The number of a call's outcome, or its error.
func outcome(o C.gowkgo_outcome) (int64, error) {
	if o.number >= 0 {
		return int64(o.number), nil
	}
	err := &Error{Code(o.number), Code(o.number).Error()}
	if o.error != nil {
		err.Message = C.GoString(&o.error.message[0])
		C.free(unsafe.Pointer(o.error))
	}
	return 0, err
}

// The same for calls that take much longer than nanoseconds, with their error in memory of Go.
func done(number C.int64_t, failure *C.gowk_error) (int64, error) {
	if number >= 0 {
		return int64(number), nil
	}
	return 0, &Error{Code(number), C.GoString(&failure.message[0])}
}

// Where a key lies, as a number. The caller keeps the key alive until C has returned.
//
// A pointer to bytes may be given to C, but cgo would check it in each call, which takes longer than a lookup. A number
// is not checked. So that it stays right, the key must not lie on a stack, which may move: it escapes to the heap.
func address(key []byte) C.uintptr_t {
	if escaped.never {
		escaped.key = key
	}
	if len(key) == 0 {
		return 0
	}
	return C.uintptr_t(uintptr(unsafe.Pointer(&key[0])))
}

var escaped struct {
	never bool
	key   []byte
}

// A slice whose first byte may be pointed to, and its length: empty bytes have no first one.
//
// Calls write &bytes[0] themselves: cgo then checks these bytes alone, and not what lies around them in memory of Go.
func pointed(bytes []byte) ([]byte, C.size_t) {
	if len(bytes) == 0 {
		return make([]byte, 1), 0
	}
	return bytes, C.size_t(len(bytes))
}

// Version is the version of libgowk that is linked.
func Version() string { return C.GoString(C.gowk_version()) }

// Kind is what a filter does with keys that come again; fixed when it is created.
type Kind uint32

// The kinds.
const (
	Set        Kind = 0 // Keeps each key once, for good.
	Counting   Kind = 1 // Counts copies of keys, and lets them be removed.
	Forgetting Kind = 2 // Keeps each key for some time.
)

// String returns "set", "counting" or "forgetting".
func (k Kind) String() string {
	switch k {
	case Set:
		return "set"
	case Counting:
		return "counting"
	case Forgetting:
		return "forgetting"
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// Result is the outcome for one key.
type Result uint8

// The results.
const (
	Known   Result = 0 // It was there already, or matched another key.
	New     Result = 1 // It was not there, and is now.
	Late    Result = 2 // Seen so long ago that the filter has forgotten that time; not stored.
	Early   Result = 3 // Seen more than five minutes in the future; not stored.
	Refused Result = 4 // There was no room for it; not stored.
)

// Options say how a filter or store is created and opened. The zero value, and nil, mean the defaults.
type Options struct {
	// For creation. An existing filter keeps its own, and is refused if its kind or rate does not fit.

	Capacity             uint64        // Keys; 1,000,000 by default.
	FalsePositiveRate    float64       // 0.001 by default.
	Kind                 Kind          // Set by default, or Forgetting with ForgetAfter or KeepNewest.
	SlotsPerBucket       int           // 2 to 7, instead of a rate.
	Seed                 *uint64       // Random by default.
	NoGrowth             bool          // Never double the file: keys without room are refused.
	MaxFileSize          uint64        // Bytes.
	MaxFalsePositiveRate float64       // Of a filter that has doubled.
	ForgetAfter          time.Duration // Keep each key at least this long.
	ForgetWithin         time.Duration // And at most this much longer.
	Refresh              bool          // Count from when a key was last seen.
	KeepNewest           uint64        // Keep this many of the newest keys.
	VacuumKeep           uint64        // Commits to a store vacuum, and leave this many versions, or 1 with VacuumGrace alone.
	VacuumGrace          time.Duration // And each for this long after the next one; a day with VacuumKeep alone.
	Replace              bool          // Create replaces an existing filter.

	// For opening as well.

	Threads      int           // That share the work of a batch; 1 by default.
	Wait         time.Duration // For other writers; see also OpenContext.
	VerifyFirst  bool          // Verify all pages when opening, not each when it is first used.
	DamageIsYes  bool          // Answer "present" at a damaged page, instead of an error.
	Sealed       bool          // Nobody writes to the file: read it without locks.
	ClockIsRight bool          // Believe a clock that would make a filter forget everything.
}

// The options as the library has them. The caller frees them.
func (o *Options) made() (*C.gowk_options, error) {
	made := C.gowk_options_new()
	if o == nil {
		return made, nil
	}
	var err error
	set := func(given bool, name string, value any) {
		if !given || err != nil {
			return
		}
		cname, cvalue := C.CString(name), C.CString(fmt.Sprint(value))
		defer C.free(unsafe.Pointer(cname))
		defer C.free(unsafe.Pointer(cvalue))
		var failure C.gowk_error
		_, err = done(C.gowk_options_set(made, cname, cvalue, &failure), &failure)
	}
	set(o.Capacity != 0, "capacity", o.Capacity)
	set(o.FalsePositiveRate != 0, "false_positive_rate", o.FalsePositiveRate)
	set(o.Kind != Set, "kind", o.Kind)
	set(o.SlotsPerBucket != 0, "slots_per_bucket", o.SlotsPerBucket)
	if o.Seed != nil {
		set(true, "seed", *o.Seed)
	}
	set(o.NoGrowth, "growth", "never")
	set(o.MaxFileSize != 0, "max_file_size", o.MaxFileSize)
	set(o.MaxFalsePositiveRate != 0, "max_false_positive_rate", o.MaxFalsePositiveRate)
	set(o.ForgetAfter != 0, "forget_after", o.ForgetAfter.Seconds())
	set(o.ForgetWithin != 0, "forget_within", o.ForgetWithin.Seconds())
	set(o.Refresh, "refresh", true)
	set(o.KeepNewest != 0, "keep_newest", o.KeepNewest)
	if o.VacuumKeep != 0 || o.VacuumGrace != 0 {
		keep, grace := o.VacuumKeep, o.VacuumGrace
		if keep == 0 {
			keep = 1
		}
		if grace == 0 {
			grace = 24 * time.Hour
		}
		set(true, "auto_vacuum", fmt.Sprintf("%d,%v", keep, grace.Seconds()))
	}
	set(o.Replace, "force", true)
	set(o.Threads != 0, "threads", o.Threads)
	set(o.Wait != 0, "wait", o.Wait.Seconds())
	set(o.VerifyFirst, "verify", "eager")
	set(o.DamageIsYes, "on_damage", "present")
	set(o.Sealed, "sealed", true)
	set(o.ClockIsRight, "clock_is_right", true)
	if err != nil {
		C.gowk_options_free(made)
		return nil, err
	}
	return made, nil
}

// A path as a string of C. The caller frees it.
func cpath(path string) (*C.char, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return nil, &Error{ErrInvalid, fmt.Sprintf("%q: a path has no byte 0", path)}
	}
	return C.CString(path), nil
}

// Calls open with a path and options, and frees both.
func opening(path string, options *Options, open func(*C.char, *C.gowk_options, *C.gowk_error) C.int64_t) error {
	made, err := options.made()
	if err != nil {
		return err
	}
	defer C.gowk_options_free(made)
	name, err := cpath(path)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(name))
	var failure C.gowk_error
	_, err = done(open(name, made, &failure), &failure)
	return err
}

// Info describes a filter as of its last commit; a Writer's with its open transaction.
type Info struct {
	Kind               Kind
	Generation         int     // How often it has doubled.
	Capacity           uint64  // Keys that it was created for.
	Copies             uint64  // Copies of all keys: inserted minus removed.
	Entries            uint64  // Slots that hold an entry: one for each distinct key, or more.
	Slots              uint64  // Slots of all buckets.
	QuarantinedBuckets uint64  // Buckets that a repair has filled with slots that match everything.
	FileLength         uint64  // Bytes.
	JournalLength      uint64  // Bytes of commits in the journal.
	Commit             uint64  // The number of the last commit.
	Load               float64 // Slots in use, divided by all slots.
	FalsePositiveRate  float64 // The chance that a key never inserted is found now.
	UUID               [16]byte
}

func infoOf(found *C.gowk_info) Info {
	info := Info{
		Kind:               Kind(found.kind),
		Generation:         int(found.generation),
		Capacity:           uint64(found.capacity),
		Copies:             uint64(found.copies),
		Entries:            uint64(found.entries),
		Slots:              uint64(found.slots),
		QuarantinedBuckets: uint64(found.quarantined_buckets),
		FileLength:         uint64(found.file_length),
		JournalLength:      uint64(found.journal_length),
		Commit:             uint64(found.commit),
		Load:               float64(found.load),
		FalsePositiveRate:  float64(found.false_positive_rate),
	}
	for i := range info.UUID {
		info.UUID[i] = byte(found.uuid[i])
	}
	return info
}
