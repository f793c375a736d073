// The rows of `table` for the C++ implementation that came with the paper, https://github.com/efficient/cuckoofilter:
//
//   ./cuckoofilter 10000000 3      # fetches and compiles it
//
// As in `table`, one thread takes keys of eight bytes one by one: all are inserted, four million of them and four
// million others are looked up, a million are removed.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cuckoofilter.h"

// SplitMix64: the filter's own hash is linear, so that keys in a row would lie in a row.
static uint64_t key(uint64_t number) {
  uint64_t mixed = number * 0x9E3779B97F4A7C15ull;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
  return mixed ^ (mixed >> 31);
}

template <typename Work>
static double rate(size_t keys, Work work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return keys / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 1e6;
}

static double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

template <size_t Bits>
static void run(size_t count, int rounds) {
  const size_t lookups = 4 << 20, removals = std::min<size_t>(count, 1 << 20);
  std::vector<uint64_t> all(count), present(lookups), absent(lookups);
  for (size_t i = 0; i < count; i++) all[i] = key(i);
  uint64_t state = 1;
  for (size_t i = 0; i < lookups; i++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    present[i] = all[(size_t)((state >> 32) * count >> 32)];
    absent[i] = key(count + (1ull << 60) + i);
  }
  std::vector<double> inserted, found, missed, removed;
  double bytes = 0, positives = 0, load = 0;
  for (int round = 0; round < rounds; round++) {
    cuckoofilter::CuckooFilter<uint64_t, Bits> filter(count);
    inserted.push_back(rate(count, [&] {
      for (uint64_t k : all)
        if (filter.Add(k) != cuckoofilter::Ok) { fprintf(stderr, "full\n"); exit(1); }
    }));
    size_t hits = 0;
    found.push_back(rate(lookups, [&] { for (uint64_t k : present) hits += filter.Contain(k) == cuckoofilter::Ok; }));
    if (hits != lookups) { fprintf(stderr, "a key was lost\n"); exit(1); }
    hits = 0;
    missed.push_back(rate(lookups, [&] { for (uint64_t k : absent) hits += filter.Contain(k) == cuckoofilter::Ok; }));
    positives = (double)hits / lookups;
    bytes = (double)filter.SizeInBytes() / count;
    load = bytes ? count * Bits / 8.0 / filter.SizeInBytes() : 0;
    removed.push_back(rate(removals, [&] { for (size_t i = 0; i < removals; i++) filter.Delete(all[i]); }));
  }
  printf("| C++, %zu bits, load %.2f | %.1f | %.1f | %.1f | %.1f | %.2f | %.1e |\n", Bits, load, median(inserted),
         median(found), median(missed), median(removed), bytes, positives);
}

int main(int argc, char **argv) {
  size_t count = argc > 1 ? strtoull(argv[1], nullptr, 10) : 10000000;
  int rounds = argc > 2 ? atoi(argv[2]) : 3;
  puts("| | insert | present | absent | remove | bytes a key | false positives |");
  puts("|---|---|---|---|---|---|---|");
  run<12>(count, rounds);
  run<16>(count, rounds);
  // Its buckets are a power of two. This is the load that gowk's filters of a capacity have, and its bytes a key.
  size_t slots = 4;
  while (slots < count) slots *= 2;
  run<16>(slots / 100 * 92, rounds);
}
