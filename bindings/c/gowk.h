/*
 * gowk: has this key been seen? A cuckoo filter in a file.
 *
 * "No" is always right; "yes" is wrong at a rate that is chosen when the filter is created. Any number of processes read
 * the file through mmap while one adds to it, and it survives kill -9 and power loss. The documentation of the Rust library
 * (cargo doc) explains what filters and stores do; this header says how C calls them.
 *
 *     gowk_error error;
 *     gowk_writer *seen;
 *     if (gowk_writer_open("seen.gowk", NULL, &seen, &error) < 0) {
 *         fprintf(stderr, "%s\n", error.message);
 *         return 1;
 *     }
 *     int64_t is_new = gowk_writer_insert(seen, url, strlen(url), &error);    // 1, 0, or a negative code
 *     if (is_new < 0 || gowk_writer_commit(seen, &error) < 0)                 // durable and visible from here on
 *         fprintf(stderr, "%s\n", error.message);
 *     gowk_writer_close(seen, NULL);                                          // frees it
 *
 * Link with -lgowk; `pkg-config --cflags --libs gowk` says how. examples/seen.c is a whole program.
 *
 * RULES FOR ALL CALLS
 *
 * Results. A call that can fail returns an int64_t: 0 or more is its answer, and a negative number is a gowk_code. The last
 * argument of such a call is a gowk_error, which gets the code and a message; NULL if you do not want them. "Codes" in a
 * comment lists the codes to expect; any call may also return GOWK_INVALID, GOWK_PANIC and GOWK_OTHER. After a failure
 * nothing has changed, unless the comment says otherwise.
 *
 * Memory. Every handle (a pointer to gowk_options, gowk_writer, gowk_reader, gowk_store, gowk_update or gowk_store_reader)
 * is yours. One call frees it, and accepts NULL; gowk_update_commit frees an update, too. Use no handle afterwards. The
 * library keeps no pointer that you pass: keys, arrays, options and strings may be freed or reused when a call returns.
 * Strings that it returns (gowk_version, gowk_code_name) are constants.
 *
 * Keys are bytes with a length, and may hold any bytes or none. Paths are strings in the encoding of the file system; other
 * strings are UTF-8.
 *
 * Threads. A gowk_reader, gowk_store, gowk_store_reader or gowk_options may be used by any number of threads at the same
 * time in calls that take it as const. In all other calls, and in every call of a gowk_writer or gowk_update, one thread
 * at a time may use the handle; it need not always be the same thread. Different handles never disturb each other. A call
 * may block for the disk.
 *
 * Processes. Open filters after fork(), not before it: parent and child would share the locks. If another program cuts a
 * file short while it is open, the kernel sends SIGBUS.
 *
 * Compatibility. Codes and constants keep their numbers. Structures keep their layout, and use what is reserved. A program
 * that was linked with libgowk.so.0 works with every later libgowk.so.0.
 */

#ifndef GOWK_H
#define GOWK_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header. */
#define GOWK_VERSION "0.1.0"


// The key was not there, and is now.
#define GOWK_NEW 1

// The key was there already (or, at the filter's false-positive rate, matched another key). A counting filter has
// stored one more copy.
#define GOWK_KNOWN 0

// Only with times: the time of the key is so long ago that the filter keeps no keys of that time any more. It was not
// stored.
#define GOWK_LATE 2

// Only with times: the time of the key is more than five minutes in the future. It was not stored.
#define GOWK_EARLY 3

// There was no room for the key; it was not stored.
#define GOWK_REFUSED 4

// A filter that keeps each key once, for good.
#define GOWK_SET 0

// A filter that counts copies of keys, and can remove them.
#define GOWK_COUNTING 1

// A filter that keeps each key for some time.
#define GOWK_FORGETTING 2

// What went wrong, and what to do. The numbers never change; later versions may add some.
typedef enum gowk_code {
    // There is no such filter, store, folder, version or metadata: create it, or check the path.
    GOWK_NOT_FOUND = -1,
    // Something of this name is there already: choose another name.
    GOWK_EXISTS = -2,
    // The file is not a filter, or the folder not a store: check the path.
    GOWK_FOREIGN = -3,
    // The file needs another version of gowk.
    GOWK_UNSUPPORTED = -4,
    // The bytes read are not the bytes written: verify, then restore a copy or repair (`gowk repair`).
    GOWK_DAMAGED = -5,
    // Another writer has the filter, in this process or another: wait and try again, or set the option "wait".
    GOWK_LOCKED = -6,
    // The file kept changing while it was read: try again.
    GOWK_BUSY = -7,
    // A filter has no room for a key, and must not grow: create a larger one, or one that grows.
    GOWK_NO_ROOM = -8,
    // The file system has too little room.
    GOWK_NO_SPACE = -9,
    // The filter is of another kind than the call needs, such as removing keys from a set.
    GOWK_KIND = -10,
    // The clock, or the time of a key, cannot be believed.
    GOWK_CLOCK = -11,
    // An argument or option is not allowed, or not in this place; also NULL where that is not allowed.
    GOWK_INVALID = -12,
    // Another file has taken the filter's name: open it again.
    GOWK_REPLACED = -13,
    // A writer was closed with changes that were never committed. They are lost.
    GOWK_UNCOMMITTED = -14,
    // Another commit to the store came first, and nothing was committed: make the update again.
    GOWK_CONFLICT = -15,
    // A commit failed, and it is unknown whether it is durable: open again, and look.
    GOWK_UNKNOWN = -16,
    // Something failed after a commit had become durable: open again to go on.
    GOWK_AFTER_COMMIT = -17,
    // An earlier failure has stopped this writer: close it and open again.
    GOWK_POISONED = -18,
    // The operating system refused: see the message.
    GOWK_IO = -19,
    // A defect of gowk itself, caught before it reached the caller: close the handle, and report the message.
    GOWK_PANIC = -20,
    // A failure that this version of the header has no code for: see the message.
    GOWK_OTHER = -21,
} gowk_code;

// How a filter or store is created and opened. One thread at a time may set an option; calls that open only read it.
typedef struct gowk_options gowk_options;

// A filter open for lookups, beside a writer in any process or without one. Sees each commit as soon as the call that
// commits returns.
//
// Any number of threads may call at the same time.
typedef struct gowk_reader gowk_reader;

// A store: a folder of filters with versions. Any number of processes may commit to it, and any number of threads may
// call at the same time.
typedef struct gowk_store gowk_store;

// One version of a store, open for lookups. Any number of threads may look up at the same time; while one reloads or
// closes it, no other may call.
typedef struct gowk_store_reader gowk_store_reader;

// Changes to a store, based on one version. Any thread may call, but only one at a time.
typedef struct gowk_update gowk_update;

// A filter open for writing. Over all processes there is one at a time for each filter.
//
// Its changes belong to a transaction: this writer sees them at once, and nobody else before `gowk_writer_commit`. Any
// thread may call, but only one at a time.
typedef struct gowk_writer gowk_writer;

// Why a call failed. Lies wherever the caller puts it, usually on the stack, and needs neither initialization nor
// freeing. A call that fails fills it in; a call that succeeds leaves it alone.
typedef struct gowk_error {
    // The `gowk_code` that the call returned.
    int32_t code;
    // One line of UTF-8 that names the file, the place and the remedy, cut at 1019 bytes; ends with a NUL.
    char message[1020];
} gowk_error;

// A key: `length` bytes from `data` on, any bytes. `data` may be NULL if `length` is 0; the empty key is a key. An
// array of keys may be NULL if its `count` is 0.
typedef struct gowk_key {
    // The first byte.
    const void *data;
    // How many bytes.
    size_t length;
} gowk_key;

// A filter as of its last commit; of a writer, with its open transaction.
typedef struct gowk_info {
    // GOWK_SET, GOWK_COUNTING or GOWK_FORGETTING.
    uint32_t kind;
    // How often it has doubled.
    uint32_t generation;
    // Keys that it was created for.
    uint64_t capacity;
    // Copies of all keys: inserted minus removed. In a set, the stored keys.
    uint64_t copies;
    // Slots that hold an entry: one for each distinct key, or more.
    uint64_t entries;
    // Slots of all buckets.
    uint64_t slots;
    // Buckets that a repair has filled with slots that match everything.
    uint64_t quarantined_buckets;
    // Bytes of the file.
    uint64_t file_length;
    // Bytes of commits in the journal.
    uint64_t journal_length;
    // The number of the last commit.
    uint64_t commit;
    // Slots in use, divided by all slots: 0 to 1.
    double load;
    // The chance that a key never inserted is found now.
    double false_positive_rate;
    // A random number given at creation, which identifies the filter.
    uint8_t uuid[16];
    // Zeros. Later versions may use them.
    uint64_t reserved[8];
} gowk_info;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library that is running, such as "0.1.0". `GOWK_VERSION` is the version of this header.
const char *gowk_version(void);

// The name of a code, such as "not_found"; "ok" for 0 and above, "other" for an unknown number.
const char *gowk_code_name(int64_t code);

// Options with their defaults. Never NULL. The caller frees them with `gowk_options_free`.
struct gowk_options *gowk_options_new(void);

// Sets one option, both name and value as text. Returns 0, or GOWK_INVALID for an unknown name or a value that the
// option does not take. Whether the values fit together is checked when a filter is created or opened.
//
//     name                     value                              default
//     for creation; an existing filter keeps its own (see below):
//     capacity                 keys, 1 or more                    1000000
//     false_positive_rate      above 0, below 1                   0.001
//     kind                     set, counting or forgetting        set
//     slots_per_bucket         2 to 7, instead of a rate
//     seed                     a number below 2^64                random
//     growth                   auto or never                      auto
//     max_file_size            bytes                              no limit
//     max_false_positive_rate  above 0, below 1                   no limit
//     forget_after             seconds, for a forgetting filter
//     forget_within            seconds                            half of forget_after
//     refresh                  true or false                      false
//     keep_newest              keys, for a forgetting filter
//     auto_vacuum              versions and seconds, as "10,86400"  never
//     force                    true: replace an existing filter   false
//     for opening as well:
//     threads                  for batches, 1 or more             1
//     wait                     seconds, for other writers         0
//     verify                   first_touch, eager or never        first_touch
//     on_damage                error or present                   error
//     sealed                   true or false                      false
//     clock_is_right           true or false                      false
//     void_growth              true or false                      false
//
// Seconds may have decimals. The documentation of the Rust type `Options` has a paragraph on each.
//
// Options for creation do not change an existing filter. Opening it to write fails if one that was set does not fit:
// with GOWK_KIND for another "kind"; with GOWK_INVALID for a "false_positive_rate" below the filter's, or other times
// or numbers of a forgetting filter. The others are ignored. Opening a store checks the same but the rate; opening a
// reader checks "kind" alone.
//
// "forget_after" and "keep_newest" make the kind forgetting; with "refresh" the time counts from when a key was last
// inserted. "on_damage" says what readers answer at a damaged page: an error, or 1. "sealed" is for reading a file
// that nobody writes to any more: nothing is locked or written. "clock_is_right" accepts a clock that would fail with
// GOWK_CLOCK. "auto_vacuum" is for creating a store: its commits vacuum, and leave so many of the newest versions, and
// each version for so long after the next one was made. "void_growth" lets a filter double although more than half of
// its entries would be copied to both sides.
int64_t gowk_options_set(struct gowk_options *options, const char *name, const char *value, struct gowk_error *error);

// Frees options; does nothing for NULL. What was opened with them stays open.
void gowk_options_free(struct gowk_options *options);

// Opens or creates the filter at a path for writing; recovers it first if its last writer died. `options` may be NULL.
// On success returns 0 and stores a handle, which `gowk_writer_close` frees; on failure stores NULL. A new filter
// appears under its name with its first commit, even if that adds no key. Before that, a reader gets GOWK_NOT_FOUND.
//
// Codes: GOWK_LOCKED while there is another writer; GOWK_INVALID and GOWK_KIND if the options are wrong or do not fit
// the filter (see `gowk_options_set`); GOWK_FOREIGN, GOWK_UNSUPPORTED and GOWK_DAMAGED for a file that cannot be used;
// GOWK_NO_SPACE; GOWK_IO.
int64_t gowk_writer_open(const char *path,
                         const struct gowk_options *options,
                         struct gowk_writer **writer,
                         struct gowk_error *error);

// Like `gowk_writer_open`, but fails with GOWK_NOT_FOUND instead of creating a filter.
int64_t gowk_writer_open_existing(const char *path,
                                  const struct gowk_options *options,
                                  struct gowk_writer **writer,
                                  struct gowk_error *error);

// Like `gowk_writer_open`, but fails with GOWK_EXISTS if the filter exists, unless the option "force" says to replace
// it. Then an empty filter has taken its place when this returns, before any commit.
int64_t gowk_writer_create(const char *path,
                           const struct gowk_options *options,
                           struct gowk_writer **writer,
                           struct gowk_error *error);

// Closes a writer, and frees it whatever the outcome; does nothing for NULL. Changes that were not committed are lost,
// and the call then returns GOWK_UNCOMMITTED. So it does for a new filter that was neither committed nor rolled back.
// Returns 0 for a poisoned writer. Codes: also GOWK_AFTER_COMMIT.
int64_t gowk_writer_close(struct gowk_writer *writer, struct gowk_error *error);

// Inserts a key. Returns 1 (GOWK_NEW) if it was not there before, 0 (GOWK_KNOWN) if it was. A set stores the key
// unless it is there; a counting filter always stores one more copy. Doubles a full filter.
//
// Codes: GOWK_NO_ROOM if it must not double: this key is not stored, and all others stay; GOWK_DAMAGED; GOWK_CLOCK in
// a forgetting filter; GOWK_POISONED; GOWK_NO_SPACE and GOWK_IO while doubling.
int64_t gowk_writer_insert(struct gowk_writer *writer, const void *key, size_t length, struct gowk_error *error);

// Inserts a key into a forgetting filter, with the time at which it was seen, in milliseconds since 1970. Returns
// GOWK_NEW, GOWK_KNOWN, GOWK_LATE or GOWK_EARLY. Codes as for `gowk_writer_insert`; GOWK_KIND in another filter.
int64_t gowk_writer_insert_at(struct gowk_writer *writer,
                              const void *key,
                              size_t length,
                              int64_t unix_ms,
                              struct gowk_error *error);

// Inserts `count` keys, several times as fast as one by one. Writes a result for each to `results`, an array of
// `count` bytes: GOWK_NEW, GOWK_KNOWN or GOWK_REFUSED; NULL if they are not wanted. Of equal keys only the first can
// be new. Returns how many keys were new.
//
// Returns GOWK_NO_ROOM if any key was refused. All others were inserted, and the results say which. How many were new,
// only the results say then.
//
// After any other failure, some of the keys may have been inserted. They belong to the transaction, and the results
// say GOWK_NEW for those that were new. In a counting filter, the results do not say which known keys got one more
// copy: roll back before you insert them again. Codes as for `gowk_writer_insert`.
int64_t gowk_writer_insert_batch(struct gowk_writer *writer,
                                 const struct gowk_key *keys,
                                 size_t count,
                                 uint8_t *results,
                                 struct gowk_error *error);

// Like `gowk_writer_insert_batch`, for keys that lie one after the other from `bytes` on. `ends` is an array of
// `count` offsets from `bytes`: the first key begins at 0, and each other key where the one before it ends. The last
// end is the number of all bytes; `bytes` may be NULL if that is 0. Inserts 4096 keys at a time, on one thread
// whatever the option "threads" says. Codes: also GOWK_INVALID if an end is less than the one before it, and no key
// was inserted.
int64_t gowk_writer_insert_packed(struct gowk_writer *writer,
                                  const void *bytes,
                                  const uint64_t *ends,
                                  size_t count,
                                  uint8_t *results,
                                  struct gowk_error *error);

// Like `gowk_writer_insert_batch`, for keys that were seen at times: an array of `count` milliseconds since 1970. The
// results may also be GOWK_LATE and GOWK_EARLY. Only for a forgetting filter, else GOWK_KIND.
int64_t gowk_writer_insert_batch_at(struct gowk_writer *writer,
                                    const struct gowk_key *keys,
                                    const int64_t *unix_ms,
                                    size_t count,
                                    uint8_t *results,
                                    struct gowk_error *error);

// Like `gowk_writer_insert_batch`, but keeps each key for its own lifetime from now on: an array of `count`
// milliseconds, none longer than the filter keeps keys. A key that is there already keeps the later of its two expiry
// times. Only for a forgetting filter, else GOWK_KIND. After a failure other than GOWK_NO_ROOM all results are
// GOWK_KNOWN, and do not say what was inserted.
int64_t gowk_writer_insert_batch_for(struct gowk_writer *writer,
                                     const struct gowk_key *keys,
                                     const int64_t *lifetimes_ms,
                                     size_t count,
                                     uint8_t *results,
                                     struct gowk_error *error);

// Removes one copy of a key from a counting filter. Returns 1 if there was one, else 0. Remove only keys that were
// inserted: removing any other can take the entry of a stored key that it matches. Codes: GOWK_KIND in another filter,
// and as for `gowk_writer_insert`.
int64_t gowk_writer_remove(struct gowk_writer *writer, const void *key, size_t length, struct gowk_error *error);

// Removes one copy of each of `count` keys. Writes a result for each to `results` unless that is NULL: 1 if a copy was
// removed, else 0. Returns how many were removed. After a failure, the results say 1 for copies that were removed
// before it; these removals belong to the transaction. Codes as for `gowk_writer_remove`.
int64_t gowk_writer_remove_batch(struct gowk_writer *writer,
                                 const struct gowk_key *keys,
                                 size_t count,
                                 uint8_t *results,
                                 struct gowk_error *error);

// Whether the transaction has the key: 1 or 0, as `gowk_reader_contains` says. Codes: GOWK_DAMAGED at a damaged page,
// whatever the option "on_damage" says; GOWK_POISONED.
int64_t gowk_writer_contains(const struct gowk_writer *writer,
                             const void *key,
                             size_t length,
                             struct gowk_error *error);

// How many copies of the key the transaction has, as `gowk_reader_count` says. Codes as for `gowk_writer_contains`.
int64_t gowk_writer_count(const struct gowk_writer *writer, const void *key, size_t length, struct gowk_error *error);

// Stores a value under a name (UTF-8) in the filter's metadata, to be committed with the keys: a position in an input,
// say. All metadata together takes at most 48 KiB, which the commit checks. Returns 0. Codes: GOWK_POISONED.
int64_t gowk_writer_set_metadata(struct gowk_writer *writer,
                                 const char *name,
                                 const void *value,
                                 size_t length,
                                 struct gowk_error *error);

// Removes a name from the metadata. Returns 1 if it was there, else 0. Codes: GOWK_POISONED.
int64_t gowk_writer_remove_metadata(struct gowk_writer *writer, const char *name, struct gowk_error *error);

// The value that the transaction has under a name, as `gowk_reader_metadata` gives it. Codes: GOWK_NOT_FOUND for an
// unknown name; GOWK_POISONED.
int64_t gowk_writer_metadata(const struct gowk_writer *writer,
                             const char *name,
                             void *buffer,
                             size_t capacity,
                             struct gowk_error *error);

// Commits the transaction: its keys and metadata are durable, and visible to all readers, when this returns 0.
//
// Codes: GOWK_UNKNOWN if it is unknown whether the commit is durable; GOWK_AFTER_COMMIT if it is durable and something
// failed afterwards. The writer is poisoned after either: close it, and open again.
//
// After any other code nothing was committed: GOWK_IO or GOWK_NO_SPACE; GOWK_REPLACED if another file has the filter's
// name, GOWK_NOT_FOUND if none has; GOWK_INVALID if there is too much metadata. The changes are still there: remove
// the cause and commit again, or roll back. If the failure has poisoned the writer, that call returns GOWK_POISONED,
// and the changes are lost.
int64_t gowk_writer_commit(struct gowk_writer *writer, struct gowk_error *error);

// Undoes all changes since the last commit. Returns 0. Codes: GOWK_POISONED; GOWK_NO_SPACE and GOWK_IO if a new filter
// cannot be made again. The writer is poisoned after any of them.
int64_t gowk_writer_rollback(struct gowk_writer *writer, struct gowk_error *error);

// Makes all commits part of the file itself, and empties the journal; closing does so too. Returns 0. Codes:
// GOWK_POISONED; GOWK_AFTER_COMMIT, which poisons the writer.
int64_t gowk_writer_checkpoint(struct gowk_writer *writer, struct gowk_error *error);

// Removes the expired entries of a forgetting filter. Lookups never find them, and inserts reuse their room: call this
// only for a filter that gets no keys for a long time. Returns how many entries it removed. Codes: GOWK_KIND,
// GOWK_CLOCK, GOWK_DAMAGED.
int64_t gowk_writer_sweep(struct gowk_writer *writer, struct gowk_error *error);

// Adds all keys of another filter, as its entries hold them: the keys themselves are not needed. Both filters must
// have the same kind, seed and shape. Returns 0. Codes: GOWK_INVALID if they differ, GOWK_NO_ROOM, GOWK_DAMAGED,
// GOWK_BUSY, GOWK_NO_SPACE, GOWK_IO, GOWK_POISONED.
int64_t gowk_writer_merge(struct gowk_writer *writer, const struct gowk_reader *other, struct gowk_error *error);

// Describes the filter with the open transaction. Returns 0. Codes: GOWK_POISONED.
int64_t gowk_writer_info(const struct gowk_writer *writer, struct gowk_info *info, struct gowk_error *error);

// Opens the filter at a path for lookups; recovers it first if its last writer died. `options` may be NULL. On success
// returns 0 and stores a handle, which `gowk_reader_close` frees; on failure stores NULL.
//
// Codes: GOWK_NOT_FOUND; GOWK_FOREIGN, GOWK_UNSUPPORTED and GOWK_DAMAGED for a file that cannot be used; GOWK_KIND if the
// options ask for another kind; GOWK_LOCKED and GOWK_BUSY if another process has been opening it for a minute; GOWK_IO.
int64_t gowk_reader_open(const char *path,
                         const struct gowk_options *options,
                         struct gowk_reader **reader,
                         struct gowk_error *error);

// Like `gowk_reader_open`, with a copy of the filter in memory, as of its last commit. It sees no later commits, and does
// not use the file afterwards.
int64_t gowk_reader_open_in_memory(const char *path,
                                   const struct gowk_options *options,
                                   struct gowk_reader **reader,
                                   struct gowk_error *error);

// Like `gowk_reader_open`, but reads the filter from bytes: from `gowk_reader_to_bytes`, or from a file whose last
// writer has closed it. Checks them like a file, and copies them: the caller may free them when this returns. Code:
// also GOWK_INVALID for a copy of a file that was open for writing.
int64_t gowk_reader_from_bytes(const void *bytes,
                               size_t length,
                               const struct gowk_options *options,
                               struct gowk_reader **reader,
                               struct gowk_error *error);

// Closes a reader, and frees it; does nothing for NULL. No other call may use it then or later.
void gowk_reader_close(struct gowk_reader *reader);

// Whether the key is there: 1 or 0. "No" is always right; "yes" is wrong at the filter's false-positive rate. Codes:
// GOWK_DAMAGED at a damaged page, unless the option "on_damage" says to answer 1 there; GOWK_BUSY if a writer stopped in
// the middle of a commit; the codes of `gowk_reader_open` if another file has taken the filter's name.
int64_t gowk_reader_contains(const struct gowk_reader *reader,
                             const void *key,
                             size_t length,
                             struct gowk_error *error);

// How many copies of the key are stored: in a counting filter inserted minus removed, never too low; in other filters
// 0 or 1. The highest count that a filter can tell stands for that many copies or more. Codes as for
// `gowk_reader_contains`.
int64_t gowk_reader_count(const struct gowk_reader *reader, const void *key, size_t length, struct gowk_error *error);

// Looks up `count` keys, several times as fast as one by one. Writes 1 or 0 for each to `found`, an array of `count`
// bytes; NULL if they are not wanted. Returns how many are there. After a failure, `found` means nothing. Codes as for
// `gowk_reader_contains`.
int64_t gowk_reader_contains_batch(const struct gowk_reader *reader,
                                   const struct gowk_key *keys,
                                   size_t count,
                                   uint8_t *found,
                                   struct gowk_error *error);

// Like `gowk_reader_contains_batch`, for keys that lie one after the other from `bytes` on. `ends` is an array of
// `count` offsets from `bytes`: the first key begins at 0, and each other key where the one before it ends. The last
// end is the number of all bytes; `bytes` may be NULL if that is 0. Looks up 4096 keys at a time, on one thread
// whatever the option "threads" says. Codes: also GOWK_INVALID if an end is less than the one before it.
int64_t gowk_reader_contains_packed(const struct gowk_reader *reader,
                                    const void *bytes,
                                    const uint64_t *ends,
                                    size_t count,
                                    uint8_t *found,
                                    struct gowk_error *error);

// The value under a name (UTF-8) in the metadata, as of the last commit. Copies at most `capacity` bytes to `buffer`,
// without a NUL at the end. Returns the length of the whole value; more than `capacity` means that it was cut.
// `buffer` may be NULL. Codes: GOWK_NOT_FOUND for an unknown name, GOWK_BUSY.
int64_t gowk_reader_metadata(const struct gowk_reader *reader,
                             const char *name,
                             void *buffer,
                             size_t capacity,
                             struct gowk_error *error);

// Describes the filter as of its last commit. Returns 0. Codes: GOWK_BUSY, GOWK_DAMAGED.
int64_t gowk_reader_info(const struct gowk_reader *reader, struct gowk_info *info, struct gowk_error *error);

// Reopens the filter if another file has taken its name, as after `mv new live`. Returns 1 if so, else 0. Batches do
// this first; commits and doublings are seen without it. Codes as for `gowk_reader_open`.
int64_t gowk_reader_reload(const struct gowk_reader *reader, struct gowk_error *error);

// Reads the whole filter, and compares each page with its checksum. Returns 0 if all is well; else GOWK_DAMAGED, and the
// message says how many pages are damaged. Codes: also GOWK_BUSY.
int64_t gowk_reader_verify(const struct gowk_reader *reader,
                           struct gowk_error *error);

// Copies the filter, as of one commit, to a file that must not exist. If `replace` is not 0, the file may be a filter:
// the copy replaces it, and its readers go on with the copy. Returns 0. Codes: GOWK_EXISTS, GOWK_LOCKED, GOWK_DAMAGED,
// GOWK_BUSY, GOWK_NO_SPACE, GOWK_IO.
int64_t gowk_reader_copy_to(const struct gowk_reader *reader,
                            const char *path,
                            int32_t replace,
                            struct gowk_error *error);

// Copies the filter, as of one commit, to memory: the same bytes that `gowk_reader_copy_to` writes to a file. Stores
// them at `*bytes`, and returns their number, which `gowk_bytes_free` needs. On failure stores NULL. Codes:
// GOWK_DAMAGED, GOWK_BUSY; GOWK_IO when out of memory.
int64_t gowk_reader_to_bytes(const struct gowk_reader *reader, uint8_t **bytes, struct gowk_error *error);

// Frees bytes of `gowk_reader_to_bytes`, with the length that it returned; does nothing for NULL.
void gowk_bytes_free(uint8_t *bytes, size_t length);

// Creates a store of `shards` filters, 1 to 65536, in a folder that does not exist or is empty. The options describe
// one filter that would hold all keys, but "max_file_size" limits the file of each shard, and "force" does nothing.
// NULL for the defaults. On success returns 0 and stores a handle, which `gowk_store_close` frees; on failure stores
// NULL. Codes: GOWK_EXISTS if the folder is not empty, GOWK_INVALID, GOWK_NO_SPACE, GOWK_IO.
int64_t gowk_store_create(const char *path,
                          uint32_t shards,
                          const struct gowk_options *options,
                          struct gowk_store **store,
                          struct gowk_error *error);

// Opens a store that exists, and gives a handle as `gowk_store_create` does. To create a store unless it exists, call
// that first, and this after GOWK_EXISTS. `options` may be NULL. Codes: GOWK_NOT_FOUND, GOWK_FOREIGN, GOWK_DAMAGED,
// GOWK_UNSUPPORTED; GOWK_KIND and GOWK_INVALID if the options do not fit the store; GOWK_IO.
int64_t gowk_store_open(const char *path,
                        const struct gowk_options *options,
                        struct gowk_store **store,
                        struct gowk_error *error);

// Frees a store; does nothing for NULL. Updates and readers of it stay open.
void gowk_store_close(struct gowk_store *store);

// Inserts `count` keys and commits them, at most once for each token. A token is the name of an application (UTF-8, at
// most 1024 bytes) and a number, which the application raises with each new batch. To try again, call with the same
// token and the same keys: if they were committed before, nothing changes, and the results are those of that commit.
// Never use a token again with other keys: they would not be stored, and nothing would say so. A number below the last
// one of its application returns GOWK_INVALID: `gowk_store_last_token` gives that number.
// `application` may be NULL: then there is no token, and `number` means nothing.
//
// Writes GOWK_NEW, GOWK_KNOWN or GOWK_REFUSED for each key to `results`, an array of `count` bytes; NULL if they are
// not wanted. Returns how many keys were new. If other processes have committed some of the same keys first, judges
// all keys again. `operation` is a word for the store's log, such as "insert", of at most 256 bytes; not NULL.
//
// After a failure other than GOWK_UNKNOWN nothing was committed. After GOWK_NO_ROOM the results say which keys were
// refused; after any other failure they mean nothing.
//
// Codes: GOWK_NO_ROOM if any key was refused; GOWK_UNKNOWN if the commit's outcome is unknown (call again with the
// same token); GOWK_CONFLICT if others came first 32 times; GOWK_NOT_FOUND if a vacuum (`gowk store vacuum`) has
// removed the version that the token's commit was based on; GOWK_INVALID; GOWK_DAMAGED, GOWK_NO_SPACE, GOWK_IO.
int64_t gowk_store_insert_batch(const struct gowk_store *store,
                                const struct gowk_key *keys,
                                size_t count,
                                uint8_t *results,
                                const char *operation,
                                const char *application,
                                uint64_t number,
                                struct gowk_error *error);

// Stores the number of the last token that an application has committed, and returns 1; returns 0, and stores 0, if it has
// committed none. An application that starts again goes on with a higher number. Neither pointer may be NULL. Codes:
// GOWK_INVALID, GOWK_DAMAGED, GOWK_IO.
int64_t gowk_store_last_token(const struct gowk_store *store,
                              const char *application,
                              uint64_t *number,
                              struct gowk_error *error);

// Begins an update: for more keys than one call of `gowk_store_insert_batch` should take, or to remove keys. The token
// works as in that call, but a number that is too low fails only at the commit. The update is based on the newest
// version or, if this token was committed before, on the version that its commit was based on. On success returns 0
// and stores a handle, which `gowk_update_commit` and `gowk_update_abandon` free; on failure stores NULL. Codes:
// GOWK_NOT_FOUND if a vacuum has removed that version, GOWK_DAMAGED, GOWK_IO.
int64_t gowk_store_update(const struct gowk_store *store,
                          const char *application,
                          uint64_t number,
                          struct gowk_update **update,
                          struct gowk_error *error);

// Inserts keys into an update, as `gowk_writer_insert_batch` does into a filter. After GOWK_NO_ROOM the update may be
// committed without the refused keys. After GOWK_DAMAGED, GOWK_NO_SPACE or GOWK_IO it may have some of the keys:
// abandon it, and begin again. Codes: those four.
int64_t gowk_update_insert_batch(struct gowk_update *update,
                                 const struct gowk_key *keys,
                                 size_t count,
                                 uint8_t *results,
                                 struct gowk_error *error);

// Removes one copy of each key, as `gowk_writer_remove_batch` does. After GOWK_DAMAGED, GOWK_NO_SPACE or GOWK_IO
// abandon the update, and begin again. Codes: those three; GOWK_KIND unless it is a store of counting filters.
int64_t gowk_update_remove_batch(struct gowk_update *update,
                                 const struct gowk_key *keys,
                                 size_t count,
                                 uint8_t *results,
                                 struct gowk_error *error);

// Commits an update, and frees it whatever the outcome; NULL is GOWK_INVALID. `operation` is as in
// `gowk_store_insert_batch`. Returns the number of the version that holds its changes: a new one, the version of the
// first commit with this token, or its base if there was nothing to change.
//
// Codes: GOWK_CONFLICT if others have changed the same keys since it began, and nothing was committed: begin again;
// GOWK_UNKNOWN: make the update again with the same token; GOWK_INVALID if the token's number is below the last one of
// its application; GOWK_NO_SPACE, GOWK_IO.
int64_t gowk_update_commit(struct gowk_update *update, const char *operation, struct gowk_error *error);

// Frees an update without committing it; does nothing for NULL.
void gowk_update_abandon(struct gowk_update *update);

// Opens the newest version for lookups. On success returns 0 and stores a handle, which `gowk_store_reader_close` frees;
// on failure stores NULL. Codes: GOWK_DAMAGED, GOWK_IO.
int64_t gowk_store_read(const struct gowk_store *store,
                        struct gowk_store_reader **reader,
                        struct gowk_error *error);

// Closes a reader of a store, and frees it; does nothing for NULL.
void gowk_store_reader_close(struct gowk_store_reader *reader);

// Whether the version has the key, as `gowk_reader_contains` says. Codes: GOWK_DAMAGED, GOWK_NOT_FOUND if a vacuum has
// removed the version's files, GOWK_IO.
int64_t gowk_store_reader_contains(const struct gowk_store_reader *reader,
                                   const void *key,
                                   size_t length,
                                   struct gowk_error *error);

// How many copies of the key the version has, as `gowk_reader_count` says. Codes as for `gowk_store_reader_contains`.
int64_t gowk_store_reader_count(const struct gowk_store_reader *reader,
                                const void *key,
                                size_t length,
                                struct gowk_error *error);

// Looks up `count` keys, as `gowk_reader_contains_batch` does. Codes as for `gowk_store_reader_contains`.
int64_t gowk_store_reader_contains_batch(const struct gowk_store_reader *reader,
                                         const struct gowk_key *keys,
                                         size_t count,
                                         uint8_t *found,
                                         struct gowk_error *error);

// The number of the version that a reader looks into. Codes: none but GOWK_INVALID.
int64_t gowk_store_reader_version(const struct gowk_store_reader *reader, struct gowk_error *error);

// Moves a reader to the newest version. Returns 1 if that is another one, else 0; if it fails, the version stays. No
// other thread may use the reader during the call. Codes: GOWK_DAMAGED, GOWK_IO.
int64_t gowk_store_reader_reload(struct gowk_store_reader *reader, struct gowk_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GOWK_H */

/* Made by cbindgen from bindings/c/src: change it there. */
