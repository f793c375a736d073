package gowk_test

// Invariant checked: a program that is killed at any time goes on from its metadata. Every key that it has committed is
// there, and every key of its input is inserted exactly once.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"gowk"
)

const input = 100_000

// The program: inserts the numbers below input, from the position in its metadata on. It writes a byte for each commit.
func crawl(path string, random *rand.Rand) error {
	w, err := gowk.Open(path, &gowk.Options{Capacity: input / 10, FalsePositiveRate: 1e-6, Kind: gowk.Counting})
	if err != nil {
		return err
	}
	position := uint64(0)
	kept, err := w.Metadata("position")
	if err == nil {
		position = binary.LittleEndian.Uint64(kept)
	} else if !errors.Is(err, gowk.ErrNotFound) {
		return err
	}
	for position < input {
		count := uint64(random.Intn(2000))
		if count > input-position {
			count = input - position
		}
		batch := keys(int(position), int(position+count))
		if random.Intn(2) == 0 {
			_, err = w.InsertBatch(batch)
		} else {
			for _, key := range batch {
				if _, err = w.Insert(key); err != nil {
					break
				}
			}
		}
		if err != nil {
			return err
		}
		position += count
		var value [8]byte
		binary.LittleEndian.PutUint64(value[:], position)
		if err := w.SetMetadata("position", value[:]); err != nil {
			return err
		}
		if err := w.Commit(); err != nil {
			return err
		}
		if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
			return err
		}
	}
	return w.Close()
}

func TestMain(m *testing.M) {
	if path := os.Getenv("GOWK_TEST_CRAWL"); path != "" {
		seed, _ := strconv.ParseInt(os.Getenv("GOWK_TEST_SEED"), 10, 64)
		if err := crawl(path, rand.New(rand.NewSource(seed))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestAProgramThatIsKilledGoesOnFromItsMetadata(t *testing.T) {
	start := time.Now().UnixNano()
	if given := os.Getenv("GOWK_SEED"); given != "" {
		start, _ = strconv.ParseInt(given, 10, 64)
	}
	t.Logf("GOWK_SEED=%d", start)
	random := rand.New(rand.NewSource(start))
	kills := 0
	// Where commits are fast, a program may end before it is killed.
	for kills < 5 {
		kills += crawlAndKill(t, random)
	}
	t.Logf("killed %d times", kills)
}

// Starts the program again and again until it has read its whole input, and returns how often it was killed.
func crawlAndKill(t *testing.T, random *rand.Rand) int {
	path := filepath.Join(t.TempDir(), "f")
	last, kills := uint64(0), 0
	for done := false; !done; {
		program := exec.Command(os.Args[0])
		program.Env = append(os.Environ(), "GOWK_TEST_CRAWL="+path, fmt.Sprintf("GOWK_TEST_SEED=%d", random.Int63()))
		program.Stderr = os.Stderr
		commits := value[io.ReadCloser](t)(program.StdoutPipe())
		must(t, program.Start())
		// Killed at any moment of a commit or between two, after some progress. Without more commits, it has ended.
		_, err := io.ReadFull(commits, make([]byte, random.Intn(10)))
		done = err != nil
		if !done {
			time.Sleep(time.Duration(random.Intn(5_000)) * time.Microsecond)
			must(t, program.Process.Kill())
			kills++
		}
		_, _ = io.Copy(io.Discard, commits)
		if err = program.Wait(); done {
			must(t, err)
		}
		r, err := gowk.OpenReader(path, nil)
		if errors.Is(err, gowk.ErrNotFound) {
			equal(t, last, 0)
			continue
		}
		must(t, err)
		position := uint64(0)
		if kept, err := r.Metadata("position"); err == nil {
			position = binary.LittleEndian.Uint64(kept)
		}
		if position < last {
			t.Fatalf("position %d after %d", position, last)
		}
		last = position
		found := value[[]bool](t)(r.ContainsBatch(keys(0, int(position))))
		equal(t, count(found, true), int(position))
		equal(t, value[gowk.Info](t)(r.Info()).Copies, position)
		must(t, r.Close())
	}
	equal(t, last, input)
	return kills
}
