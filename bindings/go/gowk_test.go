package gowk_test

// Invariants checked:
//
//  1. Every call answers as the library does, on filters of all kinds and on stores; errors work as in Go.
//  2. Goroutines share readers beside a writer; nothing is used after it was closed. (go test -race)
//  3. Keys may lie anywhere in memory of Go.
//  4. Packed keys have the same answers as batches of slices, with any lengths and numbers of keys.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"gowk"
)

var (
	_ io.Closer = (*gowk.Writer)(nil)
	_ io.Closer = (*gowk.Reader)(nil)
	_ io.Closer = (*gowk.Store)(nil)
	_ io.Closer = (*gowk.Update)(nil)
	_ io.Closer = (*gowk.StoreReader)(nil)
)

func keys(from, to int) [][]byte {
	var keys [][]byte
	for i := from; i < to; i++ {
		keys = append(keys, []byte(fmt.Sprintf("key-%d", i)))
	}
	return keys
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%v is not %v", err, target)
	}
}

// A value that must come with no error.
func value[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func equal[T comparable](t testing.TB, found, expected T) {
	t.Helper()
	if found != expected {
		t.Fatalf("%v, not %v", found, expected)
	}
}

func count[T comparable](all []T, one T) (n int) {
	for _, other := range all {
		if other == one {
			n++
		}
	}
	return n
}

func seed(n uint64) *uint64 { return &n }

func TestFiltersOfAllKinds(t *testing.T) {
	for _, options := range []gowk.Options{
		{Kind: gowk.Set},
		{Kind: gowk.Counting, Threads: 2},
		{ForgetAfter: time.Hour},
		{SlotsPerBucket: 2, Refresh: false},
	} {
		options.Seed = seed(1)
		options.Capacity = 30_000
		t.Run(fmt.Sprintf("%v-%v", options.Kind, options.SlotsPerBucket), func(t *testing.T) { filter(t, &options) })
	}
}

func filter(t *testing.T, options *gowk.Options) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "f"), filepath.Join(dir, "copy")
	counting, forgetting := options.Kind == gowk.Counting, options.ForgetAfter != 0
	if options.SlotsPerBucket == 0 {
		options.FalsePositiveRate = 1e-6
	}
	_, err := gowk.OpenReader(path, nil)
	is(t, err, gowk.ErrNotFound)
	is(t, err, fs.ErrNotExist)
	var failure *gowk.Error
	if !errors.As(err, &failure) || failure.Code != gowk.ErrNotFound || !strings.Contains(failure.Message, path) {
		t.Fatal(err)
	}
	_, err = gowk.OpenExisting(path, options)
	is(t, err, gowk.ErrNotFound)
	w := value[*gowk.Writer](t)(gowk.Create(path, options))
	equal(t, value[bool](t)(w.Insert([]byte("first"))), true)
	equal(t, value[bool](t)(w.Insert(nil)), true)
	equal(t, value[bool](t)(w.Insert([]byte{})), false)
	must(t, w.Commit())
	_, err = gowk.Create(path, options)
	is(t, err, gowk.ErrExists)
	is(t, err, fs.ErrExist)

	all, others := keys(0, 20_000), keys(20_000, 40_000)
	results := value[[]gowk.Result](t)(w.InsertBatch(all))
	equal(t, count(results, gowk.New), len(all))
	results = value[[]gowk.Result](t)(w.InsertBatch([][]byte{all[0], nil, []byte("new"), []byte("new")}))
	equal(t, fmt.Sprint(results), "[0 0 1 0]")
	equal(t, len(value[[]gowk.Result](t)(w.InsertBatch(nil))), 0)
	equal(t, value[bool](t)(w.Contains(all[7])), true)
	must(t, w.SetMetadata("position", []byte("line 7")))
	must(t, w.SetMetadata("empty", nil))
	must(t, w.SetMetadata("long", bytes.Repeat([]byte("x"), 5000)))
	equal(t, string(value[[]byte](t)(w.Metadata("position"))), "line 7")
	equal(t, len(value[[]byte](t)(w.Metadata("long"))), 5000)
	must(t, w.Commit())

	r := value[*gowk.Reader](t)(gowk.OpenReader(path, options))
	equal(t, count(value[[]bool](t)(r.ContainsBatch(all)), true), len(all))
	equal(t, count(value[[]bool](t)(r.ContainsBatch(others)), true), 0)
	equal(t, len(value[[]bool](t)(r.ContainsBatch(nil))), 0)
	equal(t, value[bool](t)(r.Contains(nil)), true)
	equal(t, value[bool](t)(r.Contains([]byte("never"))), false)
	copies := int64(1)
	if counting {
		copies = 2
	}
	equal(t, value[int64](t)(r.Count(all[0])), copies)
	equal(t, value[int64](t)(w.Count(all[0])), copies)
	equal(t, string(value[[]byte](t)(r.Metadata("position"))), "line 7")
	equal(t, len(value[[]byte](t)(r.Metadata("empty"))), 0)
	_, err = r.Metadata("none")
	is(t, err, gowk.ErrNotFound)
	info := value[gowk.Info](t)(r.Info())
	if info.Capacity != 30_000 || info.Load <= 0 || info.Commit != 2 || info.FileLength == 0 || info.UUID == [16]byte{} {
		t.Fatal(info)
	}
	if counting {
		equal(t, info.Kind, gowk.Counting)
		equal(t, value[bool](t)(w.Remove(all[0])), true)
		equal(t, count(value[[]bool](t)(w.RemoveBatch(all[1:10])), true), 9)
		equal(t, value[bool](t)(w.Remove(others[0])), false)
	} else {
		_, err = w.Remove(all[0])
		is(t, err, gowk.ErrKind)
		_, err = w.RemoveBatch(all)
		is(t, err, gowk.ErrKind)
	}
	now := time.Now()
	times := []time.Time{now, now.Add(-24 * time.Hour), now.Add(24 * time.Hour)}
	results, err = w.InsertBatchAt(others[:3], times)
	if forgetting {
		must(t, err)
		equal(t, fmt.Sprint(results), fmt.Sprint([]gowk.Result{gowk.New, gowk.Late, gowk.Early}))
		equal(t, value[gowk.Result](t)(w.InsertAt(others[0], now)), gowk.Known)
		lifetimes := []time.Duration{time.Minute, time.Hour}
		equal(t, fmt.Sprint(value[[]gowk.Result](t)(w.InsertBatchFor(others[10:12], lifetimes))), "[1 1]")
		_, err = w.InsertBatchFor(others[10:12], []time.Duration{time.Minute, 2 * time.Hour})
		is(t, err, gowk.ErrInvalid)
		_, err = w.InsertBatchFor(others[10:12], lifetimes[:1])
		is(t, err, gowk.ErrInvalid)
		equal(t, len(value[[]gowk.Result](t)(w.InsertBatchFor(nil, nil))), 0)
		equal(t, value[int64](t)(w.Sweep()), 0)
		_, err = w.InsertBatchAt(others[:3], times[:2])
		is(t, err, gowk.ErrInvalid)
		equal(t, len(value[[]gowk.Result](t)(w.InsertBatchAt(nil, nil))), 0)
	} else {
		is(t, err, gowk.ErrKind)
		_, err = w.Sweep()
		is(t, err, gowk.ErrKind)
	}
	must(t, w.Rollback())
	equal(t, value[bool](t)(w.Contains(others[0])), false)
	equal(t, value[bool](t)(w.RemoveMetadata("empty")), true)
	must(t, w.Commit())
	must(t, w.Checkpoint())
	must(t, r.Verify())

	data := value[[]byte](t)(r.Bytes())
	equal(t, uint64(len(data)), info.FileLength)
	embedded := value[*gowk.Reader](t)(gowk.FromBytes(data, options))
	equal(t, count(value[[]bool](t)(embedded.ContainsBatch(all)), true), len(all))
	for _, wrong := range [][]byte{nil, []byte("a\n"), data[:len(data)-1]} {
		if _, err = gowk.FromBytes(wrong, nil); err == nil {
			t.Fatal("bytes that are no filter were read")
		}
	}
	must(t, embedded.CopyTo(copied))
	is(t, r.CopyTo(copied), gowk.ErrExists)
	must(t, r.CopyOver(copied))
	memory := value[*gowk.Reader](t)(gowk.OpenInMemory(copied, nil))
	equal(t, count(value[[]bool](t)(memory.ContainsBatch(all)), true), len(all))
	equal(t, value[bool](t)(memory.Reload()), false)
	must(t, w.Merge(memory))
	is(t, w.Close(), gowk.ErrUncommitted)
	must(t, w.Close())
	for _, r := range []*gowk.Reader{r, embedded, memory} {
		must(t, r.Close())
		must(t, r.Close())
		_, err = r.Contains(all[0])
		is(t, err, gowk.ErrClosed)
		is(t, err, fs.ErrClosed)
		_, err = r.ContainsBatch(all)
		is(t, err, os.ErrClosed)
		_, err = r.Bytes()
		is(t, err, os.ErrClosed)
	}
	_, err = w.Insert(all[0])
	is(t, err, gowk.ErrClosed)
	_, err = w.InsertBatch(all)
	is(t, err, gowk.ErrClosed)
	is(t, w.Commit(), gowk.ErrClosed)
}

func TestKeysWithoutRoomAreReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	w := value[*gowk.Writer](t)(gowk.Open(path, &gowk.Options{Capacity: 1000, NoGrowth: true}))
	all := keys(0, 50_000)
	results, err := w.InsertBatch(all)
	is(t, err, gowk.ErrNoRoom)
	refused := count(results, gowk.Refused)
	if refused < 10_000 || !strings.Contains(err.Error(), "refused") {
		t.Fatal(refused, err)
	}
	for i, result := range results[:5000] {
		if result != gowk.Refused && !value[bool](t)(w.Contains(all[i])) {
			t.Fatal("a key that was not refused is not there")
		}
	}
	must(t, w.Commit())
	must(t, w.Close())
}

// Both ways on filters of one seed: the same results, and the same errors.
func TestPackedKeysAreAnsweredAsBatchesAre(t *testing.T) {
	long := append(keys(0, 10_000), nil, []byte{}, bytes.Repeat([]byte("long"), 50_000), []byte("\x00"))
	copy(long[4095:], [][]byte{{}, {}})
	for name, all := range map[string][][]byte{
		"none": nil, "empty": {nil}, "two empty": {nil, {}}, "one": keys(0, 1), "equal": {[]byte("a"), nil, []byte("a")},
		"a part": keys(0, 4096), "a part and one": keys(0, 4097), "all": long, "many": keys(0, 50_000),
	} {
		for _, options := range []gowk.Options{
			{Capacity: 30_000, Kind: gowk.Counting}, {Capacity: 1000, NoGrowth: true}, {Capacity: 1000, Threads: 2},
		} {
			options.Seed = seed(1)
			t.Run(fmt.Sprintf("%s-%v-%v", name, options.Kind, options.NoGrowth), func(t *testing.T) {
				packed(t, all, &options)
			})
		}
	}
}

func packed(t *testing.T, all [][]byte, options *gowk.Options) {
	dir := t.TempDir()
	var some gowk.Keys
	some.AppendString("to be forgotten")
	some.Reset()
	for i, key := range all {
		if i%2 == 0 {
			some.Append(key)
		} else {
			some.AppendString(string(key))
		}
	}
	equal(t, some.Len(), len(all))
	for i, key := range all {
		if !bytes.Equal(some.Key(i), key) {
			t.Fatalf("key %d is %q, not %q", i, some.Key(i), key)
		}
	}
	first := value[*gowk.Writer](t)(gowk.Open(filepath.Join(dir, "first"), options))
	second := value[*gowk.Writer](t)(gowk.Open(filepath.Join(dir, "second"), options))
	for round := 0; round < 2; round++ {
		expected, expected_err := first.InsertBatch(all)
		found, err := second.InsertKeys(&some)
		equal(t, string(resultBytes(found)), string(resultBytes(expected)))
		if expected_err != nil {
			is(t, expected_err, gowk.ErrNoRoom)
			is(t, err, gowk.ErrNoRoom)
			equal(t, options.NoGrowth, true)
			number := fmt.Sprintf("; %d keys of the batch were refused", count(found, gowk.Refused))
			if !strings.Contains(err.Error(), number) {
				t.Fatal(number, err)
			}
		} else {
			must(t, err)
			equal(t, options.NoGrowth && len(all) == 50_000, false)
		}
	}
	must(t, first.Commit())
	must(t, second.Commit())
	r := value[*gowk.Reader](t)(gowk.OpenReader(filepath.Join(dir, "second"), options))
	expected := value[[]bool](t)(r.ContainsBatch(all))
	equal(t, fmt.Sprint(value[[]bool](t)(r.ContainsKeys(&some))), fmt.Sprint(expected))
	if !options.NoGrowth {
		equal(t, count(expected, true), len(all))
	}
	var others gowk.Keys
	absent := keys(1_000_000, 1_010_000)
	for _, key := range absent {
		others.Append(key)
	}
	expected = value[[]bool](t)(r.ContainsBatch(absent))
	equal(t, fmt.Sprint(value[[]bool](t)(r.ContainsKeys(&others))), fmt.Sprint(expected))
	must(t, r.Close())
	_, err := r.ContainsKeys(&some)
	is(t, err, gowk.ErrClosed)
	must(t, first.Close())
	must(t, second.Close())
	_, err = second.InsertKeys(&some)
	is(t, err, gowk.ErrClosed)
}

func resultBytes(results []gowk.Result) []byte {
	var bytes []byte
	for _, result := range results {
		bytes = append(bytes, '0'+byte(result))
	}
	return bytes
}

func TestOptionsAndPathsThatAreNotAllowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, options := range []gowk.Options{
		{FalsePositiveRate: 2}, {SlotsPerBucket: 9}, {SlotsPerBucket: 4, FalsePositiveRate: 0.01}, {Threads: -1},
	} {
		_, err := gowk.Open(path, &options)
		is(t, err, gowk.ErrInvalid)
	}
	_, err := gowk.Open("a\x00b", nil)
	is(t, err, gowk.ErrInvalid)
	_, err = gowk.CreateStore(path, 0, nil)
	is(t, err, gowk.ErrInvalid)
	if gowk.Version() == "" || gowk.ErrNoRoom.Error() != "no_room" || gowk.Counting.String() != "counting" {
		t.Fatal(gowk.Version(), gowk.ErrNoRoom)
	}
}

func TestOpenContextWaitsForOtherWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	first := value[*gowk.Writer](t)(gowk.Open(path, nil))
	must(t, first.Commit())
	_, err := gowk.Open(path, nil)
	is(t, err, gowk.ErrLocked)
	ctx, cancel := context.WithCancel(context.Background())
	opened := make(chan error)
	go func() {
		_, err := gowk.OpenContext(ctx, path, nil)
		opened <- err
	}()
	cancel()
	err = <-opened
	is(t, err, context.Canceled)
	is(t, err, gowk.ErrLocked)
	go func() {
		w, err := gowk.OpenContext(context.Background(), path, nil)
		if err == nil {
			err = w.Close()
		}
		opened <- err
	}()
	must(t, first.Close())
	must(t, <-opened)
}

// A key within a larger object that holds pointers, which C must not get.
func TestKeysMayLieAnywhere(t *testing.T) {
	type record struct {
		id   [16]byte
		name *string
	}
	w := value[*gowk.Writer](t)(gowk.Open(filepath.Join(t.TempDir(), "f"), nil))
	defer w.Close()
	name := "name"
	for i := 0; i < 1000; i++ {
		r := &record{name: &name}
		r.id[3], r.id[4] = byte(i), byte(i>>8)
		if _, err := w.Insert(r.id[:]); err != nil {
			t.Fatal(err)
		}
		must(t, w.SetMetadata("last", r.id[:]))
		equal(t, value[bool](t)(w.Contains(r.id[:])), true)
		value[[]gowk.Result](t)(w.InsertBatch([][]byte{r.id[:], r.id[3:3]}))
	}
}

// The memory for keys of C must hold nothing that the garbage collector looks at, whatever it held before.
func TestBatchesBesideTheGarbageCollector(t *testing.T) {
	w := value[*gowk.Writer](t)(gowk.Open(filepath.Join(t.TempDir(), "f"), nil))
	defer w.Close()
	done := make(chan struct{})
	var collecting sync.WaitGroup
	collecting.Add(1)
	go func() {
		defer collecting.Done()
		for {
			select {
			case <-done:
				return
			default:
				runtime.GC()
			}
		}
	}()
	// A key whose bytes look like pointers to memory that was freed: the next batch's array of keys comes to lie over them.
	freed := make([]byte, 16<<20)
	address := uint64(uintptr(unsafe.Pointer(&freed[8<<20])))
	freed = nil
	runtime.GC()
	trap := binary.LittleEndian.AppendUint64(nil, address)
	trap = bytes.Repeat(trap, 20_000)
	for i := 0; i < 200; i++ {
		value[[]gowk.Result](t)(w.InsertBatch([][]byte{trap}))
		value[[]gowk.Result](t)(w.InsertBatch(keys(i, i+5000)))
		var some gowk.Keys
		some.Append(trap)
		for _, key := range keys(i, i+100) {
			some.Append(key)
		}
		value[[]gowk.Result](t)(w.InsertKeys(&some))
	}
	close(done)
	collecting.Wait()
	must(t, w.Commit())
}

func TestGoroutinesShareAReaderBesideAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	w := value[*gowk.Writer](t)(gowk.Open(path, &gowk.Options{Seed: seed(1)}))
	all := keys(0, 30_000)
	value[[]gowk.Result](t)(w.InsertBatch(all[:1000]))
	must(t, w.Commit())
	r := value[*gowk.Reader](t)(gowk.OpenReader(path, nil))
	var shared gowk.Keys
	for _, key := range all[:1000] {
		shared.Append(key)
	}
	var looking sync.WaitGroup
	done := make(chan struct{})
	for i := 0; i < 4; i++ {
		looking.Add(1)
		go func(random *rand.Rand) {
			defer looking.Done()
			for {
				found, err := r.Contains(all[random.Intn(1000)])
				if err == nil && !found {
					t.Error("a committed key is missing")
				}
				batch, err2 := r.ContainsBatch(all[:random.Intn(1000)])
				packed, err3 := r.ContainsKeys(&shared)
				if err3 == nil && count(packed, true) != shared.Len() {
					t.Error("a committed key is missing from packed keys")
				}
				if err2 == nil && count(batch, true) != len(batch) {
					t.Error("a committed key is missing from a batch")
				}
				if errors.Is(err, gowk.ErrClosed) || errors.Is(err2, gowk.ErrClosed) || errors.Is(err3, gowk.ErrClosed) {
					return
				}
				if err != nil || err2 != nil || err3 != nil {
					t.Error(err, err2, err3)
				}
				select {
				case <-done:
					// From here on, until another goroutine closes the reader.
					_, _ = r.Info()
				default:
				}
			}
		}(rand.New(rand.NewSource(int64(i))))
	}
	for i := 1000; i < len(all); i += 1000 {
		value[[]gowk.Result](t)(w.InsertBatch(all[i : i+1000]))
		must(t, w.Commit())
	}
	close(done)
	must(t, r.Close())
	looking.Wait()
	must(t, w.Close())
}

func TestStores(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	_, err := gowk.OpenStore(path, nil)
	is(t, err, fs.ErrNotExist)
	options := &gowk.Options{Capacity: 30_000, FalsePositiveRate: 1e-6, Kind: gowk.Counting, Seed: seed(1)}
	s := value[*gowk.Store](t)(gowk.CreateStore(path, 4, options))
	_, err = gowk.CreateStore(path, 4, options)
	is(t, err, fs.ErrExist)
	all := keys(0, 20_000)
	before := value[*gowk.StoreReader](t)(s.Read())
	for i := 0; i < 3; i++ {
		results := value[[]gowk.Result](t)(s.InsertBatch(all[:5000], "insert", gowk.Token{Application: "test", Number: 1}))
		equal(t, count(results, gowk.New), 5000)
	}
	equal(t, count(value[[]gowk.Result](t)(s.InsertBatch(all[:100], "insert", gowk.Token{})), gowk.New), 0)
	u := value[*gowk.Update](t)(s.Update(gowk.Token{Application: "test", Number: 2}))
	equal(t, count(value[[]gowk.Result](t)(u.InsertBatch(all[5000:])), gowk.New), 15_000)
	equal(t, count(value[[]bool](t)(u.RemoveBatch(all[:10])), true), 10)
	version := value[uint64](t)(u.Commit("change"))
	for application, expected := range map[string]uint64{"test": 2, "another": 0} {
		token, found, err := s.LastToken(application)
		must(t, err)
		equal(t, token, gowk.Token{Application: application, Number: expected})
		equal(t, found, expected > 0)
	}
	_, err = u.Commit("change")
	is(t, err, gowk.ErrClosed)
	given := value[*gowk.Update](t)(s.Update(gowk.Token{}))
	value[[]gowk.Result](t)(given.InsertBatch(all[:10]))
	must(t, given.Close())
	equal(t, value[bool](t)(before.Contains(all[0])), false)
	equal(t, value[bool](t)(before.Reload()), true)
	equal(t, value[uint64](t)(before.Version()), version)
	equal(t, count(value[[]bool](t)(before.ContainsBatch(all)), true), len(all))
	equal(t, value[int64](t)(before.Count(all[0])), 1)
	equal(t, value[int64](t)(before.Count(all[50])), 2)
	must(t, s.Close())
	equal(t, value[bool](t)(before.Contains(all[0])), true)
	must(t, before.Close())
	_, err = before.Contains(all[0])
	is(t, err, gowk.ErrClosed)
	_, err = s.InsertBatch(all, "insert", gowk.Token{})
	is(t, err, gowk.ErrClosed)
}

// Processes that commit at the same time: each key is new for exactly one of them.
func TestCommitsVacuumAStoreThatAsksForIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := value[*gowk.Store](t)(gowk.CreateStore(path, 1, &gowk.Options{VacuumKeep: 2, VacuumGrace: time.Second}))
	for i := 0; i < 20; i++ {
		value[[]gowk.Result](t)(s.InsertBatch(keys(i, i+1), "insert", gowk.Token{}))
	}
	// A commit vacuums once 16 versions can go. On a slow disk, one of the twenty has vacuumed already.
	next := 20
	for left := math.MaxInt; left > 5; next++ {
		if next == 60 {
			t.Fatalf("%d versions are left", left)
		}
		time.Sleep(1500 * time.Millisecond)
		value[[]gowk.Result](t)(s.InsertBatch(keys(next, next+1), "insert", gowk.Token{}))
		left = len(value[[]fs.DirEntry](t)(os.ReadDir(filepath.Join(path, "versions"))))
	}
	r := value[*gowk.StoreReader](t)(s.Read())
	equal(t, count(value[[]bool](t)(r.ContainsBatch(keys(0, next))), true), next)
}

func TestStoresJudgeAgainWhatOthersHaveCommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	options := &gowk.Options{Capacity: 30_000, FalsePositiveRate: 1e-6, Seed: seed(1)}
	s := value[*gowk.Store](t)(gowk.CreateStore(path, 2, options))
	defer s.Close()
	var committing sync.WaitGroup
	found := make([]int, 3)
	for i := range found {
		committing.Add(1)
		go func(i int) {
			defer committing.Done()
			other, err := gowk.OpenStore(path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer other.Close()
			for part := 0; part < 10; part++ {
				results, err := other.InsertBatch(keys(part*100, part*100+100), "insert", gowk.Token{})
				if err != nil {
					t.Error(err)
				}
				found[i] += count(results, gowk.New)
			}
		}(i)
	}
	committing.Wait()
	equal(t, found[0]+found[1]+found[2], 1000)
}
