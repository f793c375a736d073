//go:build gowk_benches

// Package benches compares the Go module with the filters in memory that Go programs use. `run` says how; it prints the
// table of docs/languages.md.
package benches

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bits-and-blooms/bloom"
	cuckoofilter "github.com/seiflotfy/cuckoofilter"

	"gowk"
)

// Keys in the filter; as many others are looked up.
const (
	count = 1_000_000
	batch = 100_000
)

// URLs of some 40 bytes, whose numbers are spread.
func keys(from, to uint64) [][]byte {
	var all [][]byte
	var number [8]byte
	for i := from; i < to; i++ {
		binary.LittleEndian.PutUint64(number[:], i*0x9e37_79b9_7f4a_7c15)
		all = append(all, []byte(fmt.Sprintf("https://example.org/item/%x", number)))
	}
	return all
}

var present, absent = keys(0, count), keys(count, 2*count)

// Processor time of this process so far: on a machine that does other work, too, it says more than the clock.
func used() time.Duration {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// Reports the processor time of one key, and how often a key that is absent was found.
func lookups(b *testing.B, contains func([]byte) bool) {
	false_positives := 0
	for _, key := range present {
		if !contains(key) {
			b.Fatal("a key is missing")
		}
	}
	b.ResetTimer()
	start := used()
	for i := 0; i < b.N; i++ {
		if contains(absent[i%count]) {
			false_positives++
		}
	}
	b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/key")
	b.ReportMetric(float64(false_positives)/float64(b.N)*100, "%false")
}

func inserts(b *testing.B, fill func()) {
	start := used()
	for i := 0; i < b.N; i++ {
		fill()
	}
	b.ReportMetric(float64(used()-start)/float64(b.N)/count, "cpu-ns/key")
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func options() *gowk.Options {
	return &gowk.Options{Capacity: count, FalsePositiveRate: 1e-3, Kind: gowk.Counting, Replace: true}
}

func filled(b *testing.B, one_by_one bool) string {
	dir, err := os.MkdirTemp("", "gowk-bench-")
	must(err)
	b.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "f")
	w, err := gowk.Create(path, options())
	must(err)
	if one_by_one {
		for _, key := range present {
			_, err := w.Insert(key)
			must(err)
		}
	} else {
		for i := 0; i < count; i += batch {
			_, err := w.InsertBatch(present[i : i+batch])
			must(err)
		}
	}
	must(w.Commit())
	must(w.Close())
	return path
}

// The keys in batches that C reads where they lie.
func packed(keys [][]byte) []gowk.Keys {
	all := make([]gowk.Keys, len(keys)/batch)
	for i, key := range keys {
		all[i/batch].Append(key)
	}
	return all
}

// Creates a filter of batches of packed keys, and commits it.
func fill_packed(b *testing.B, insert func(*gowk.Writer)) {
	path := filepath.Join(b.TempDir(), "f")
	w, err := gowk.Create(path, options())
	must(err)
	insert(w)
	must(w.Commit())
	must(w.Close())
}

func reader(b *testing.B) *gowk.Reader {
	r, err := gowk.OpenReader(filled(b, false), nil)
	must(err)
	b.Cleanup(func() { r.Close() })
	return r
}

func BenchmarkInsert(b *testing.B) {
	b.Run("gowk-batches", func(b *testing.B) { inserts(b, func() { filled(b, false) }) })
	b.Run("gowk-packed", func(b *testing.B) {
		all := packed(present)
		inserts(b, func() {
			fill_packed(b, func(w *gowk.Writer) {
				for i := range all {
					_, err := w.InsertKeys(&all[i])
					must(err)
				}
			})
		})
	})
	b.Run("gowk-packed-with-append", func(b *testing.B) {
		var keys gowk.Keys
		inserts(b, func() {
			fill_packed(b, func(w *gowk.Writer) {
				for i := 0; i < count; i += batch {
					keys.Reset()
					for _, key := range present[i : i+batch] {
						keys.Append(key)
					}
					_, err := w.InsertKeys(&keys)
					must(err)
				}
			})
		})
	})
	b.Run("gowk-one-by-one", func(b *testing.B) { inserts(b, func() { filled(b, true) }) })
	b.Run("seiflotfy-cuckoofilter", func(b *testing.B) {
		inserts(b, func() {
			f := cuckoofilter.NewFilter(count * 5 / 4)
			for _, key := range present {
				if !f.Insert(key) {
					panic("no room")
				}
			}
		})
	})
	b.Run("bits-and-blooms-bloom", func(b *testing.B) {
		inserts(b, func() {
			f := bloom.NewWithEstimates(count, 1e-3)
			for _, key := range present {
				f.Add(key)
			}
		})
	})
}

func BenchmarkLookup(b *testing.B) {
	b.Run("gowk-one-by-one", func(b *testing.B) {
		r := reader(b)
		lookups(b, func(key []byte) bool {
			found, err := r.Contains(key)
			must(err)
			return found
		})
	})
	b.Run("gowk-batches", func(b *testing.B) {
		r := reader(b)
		_, err := r.ContainsBatch(present)
		must(err)
		b.ResetTimer()
		start := used()
		for i := 0; i < b.N; i += batch {
			_, err := r.ContainsBatch(absent[i%count : i%count+batch])
			must(err)
		}
		b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/key")
	})
	// `of` is called with the number of each batch, within the time.
	packed_lookups := func(b *testing.B, of func(int) *gowk.Keys) {
		r := reader(b)
		_, err := r.ContainsBatch(present)
		must(err)
		b.ResetTimer()
		start := used()
		for i := 0; i < b.N; i += batch {
			_, err := r.ContainsKeys(of(i % count / batch))
			must(err)
		}
		b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/key")
	}
	b.Run("gowk-packed", func(b *testing.B) {
		all := packed(absent)
		packed_lookups(b, func(i int) *gowk.Keys { return &all[i] })
	})
	b.Run("gowk-packed-with-append", func(b *testing.B) {
		var keys gowk.Keys
		packed_lookups(b, func(i int) *gowk.Keys {
			keys.Reset()
			for _, key := range absent[i*batch : (i+1)*batch] {
				keys.Append(key)
			}
			return &keys
		})
	})
	b.Run("seiflotfy-cuckoofilter", func(b *testing.B) {
		f := cuckoofilter.NewFilter(count * 5 / 4)
		for _, key := range present {
			f.Insert(key)
		}
		lookups(b, f.Lookup)
	})
	b.Run("bits-and-blooms-bloom", func(b *testing.B) {
		f := bloom.NewWithEstimates(count, 1e-3)
		for _, key := range present {
			f.Add(key)
		}
		lookups(b, f.Test)
	})
}

// The cost of a call into C, of which a lookup of one key makes one.
func BenchmarkCall(b *testing.B) {
	start := used()
	for i := 0; i < b.N; i++ {
		_ = gowk.Version()
	}
	b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/call")
}
