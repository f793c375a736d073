/*
 * Makes every call of gowk.h, with all kinds of filters, in the folder that is its argument. `ci` runs it under valgrind
 * and with the address sanitizer.
 *
 * Checked: the answers; the codes of failures; that nothing leaks and nothing is read or written that is not the call's;
 * that readers may be shared by threads beside a writer.
 */
#include <gowk.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static gowk_error error;
static int checks;

static void check(int right, const char *what, int line)
{
    checks++;
    if (!right) {
        fprintf(stderr, "FAILED at line %d: %s; last error: %s\n", line, what, error.message);
        exit(1);
    }
}

#define CHECK(what) check((what) != 0, #what, __LINE__)
#define IS(call, expected) check((call) == (int64_t)(expected), #call " == " #expected, __LINE__)

#define KEYS 20000

/* Keys 0 to count - 1, in memory of exactly their size. */
static gowk_key *made_keys(const char *prefix, size_t count)
{
    gowk_key *keys = malloc(count * sizeof *keys);
    CHECK(keys != NULL);
    for (size_t i = 0; i < count; i++) {
        char text[64];
        int length = snprintf(text, sizeof text, "%s-%zu", prefix, i);
        char *bytes = malloc((size_t)length);
        CHECK(bytes != NULL);
        memcpy(bytes, text, (size_t)length);
        keys[i] = (gowk_key){bytes, (size_t)length};
    }
    return keys;
}

static void free_keys(gowk_key *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free((void *)keys[i].data);
    free(keys);
}

/* Keys one after the other, in memory of exactly their size, and where each ends. */
static char *packed_keys(const gowk_key *keys, size_t count, uint64_t **ends)
{
    size_t length = 0;
    char *bytes;
    *ends = malloc(count * sizeof **ends);
    CHECK(*ends != NULL);
    for (size_t i = 0; i < count; i++)
        (*ends)[i] = length += keys[i].length;
    bytes = malloc(length);
    CHECK(bytes != NULL);
    length = 0;
    for (size_t i = 0; i < count; i++) {
        if (keys[i].length > 0)
            memcpy(bytes + length, keys[i].data, keys[i].length);
        length += keys[i].length;
    }
    return bytes;
}

static char *in_folder(const char *folder, const char *name)
{
    size_t length = strlen(folder) + strlen(name) + 2;
    char *path = malloc(length);
    CHECK(path != NULL);
    snprintf(path, length, "%s/%s", folder, name);
    return path;
}

static gowk_options *options_of(const char *kind)
{
    gowk_options *options = gowk_options_new();
    IS(gowk_options_set(options, "capacity", "30000", &error), 0);
    IS(gowk_options_set(options, "false_positive_rate", "1e-6", &error), 0);
    IS(gowk_options_set(options, "seed", "1", &error), 0);
    IS(gowk_options_set(options, "kind", kind, &error), 0);
    if (strcmp(kind, "forgetting") == 0)
        IS(gowk_options_set(options, "forget_after", "3600", &error), 0);
    return options;
}

static void filter(const char *folder, const char *kind)
{
    char *path = in_folder(folder, kind), *copy = in_folder(folder, "copy");
    gowk_options *options = options_of(kind);
    gowk_key *keys = made_keys("key", KEYS), *others = made_keys("other", KEYS);
    uint8_t *results = malloc(KEYS);
    int counting = strcmp(kind, "counting") == 0, forgetting = strcmp(kind, "forgetting") == 0;
    gowk_writer *writer, *second;
    gowk_reader *reader;
    gowk_info info;
    char value[16];

    IS(gowk_reader_open(path, NULL, &reader, &error), GOWK_NOT_FOUND);
    CHECK(reader == NULL && error.code == GOWK_NOT_FOUND && strstr(error.message, path) != NULL);
    IS(gowk_writer_open_existing(path, options, &writer, &error), GOWK_NOT_FOUND);
    IS(gowk_writer_create(path, options, &writer, &error), 0);
    IS(gowk_writer_insert(writer, "first", 5, &error), 1);
    IS(gowk_writer_insert(writer, NULL, 0, &error), 1);
    IS(gowk_writer_insert(writer, "first", 5, &error), 0);
    IS(gowk_writer_commit(writer, &error), 0);
    IS(gowk_writer_open(path, NULL, &second, &error), GOWK_LOCKED);
    IS(gowk_writer_create(path, NULL, &second, &error), GOWK_EXISTS);

    IS(gowk_writer_insert_batch(writer, keys, KEYS, results, &error), KEYS);
    for (size_t i = 0; i < KEYS; i++)
        CHECK(results[i] == GOWK_NEW);
    IS(gowk_writer_insert_batch(writer, keys, 1000, results, &error), 0);
    for (size_t i = 0; i < 1000; i++)
        CHECK(results[i] == GOWK_KNOWN);
    IS(gowk_writer_insert_batch(writer, NULL, 0, NULL, &error), 0);
    IS(gowk_writer_contains(writer, keys[7].data, keys[7].length, &error), 1);
    IS(gowk_writer_count(writer, keys[7].data, keys[7].length, &error), counting ? 2 : 1);
    IS(gowk_writer_set_metadata(writer, "position", "line 7", 6, &error), 0);
    IS(gowk_writer_metadata(writer, "position", value, sizeof value, &error), 6);
    IS(gowk_writer_info(writer, &info, &error), 0);
    CHECK(info.kind == (counting ? GOWK_COUNTING : forgetting ? GOWK_FORGETTING : GOWK_SET));
    IS(gowk_writer_commit(writer, &error), 0);

    IS(gowk_reader_open(path, options, &reader, &error), 0);
    IS(gowk_reader_contains(reader, "first", 5, &error), 1);
    IS(gowk_reader_contains(reader, NULL, 0, &error), 1);
    IS(gowk_reader_contains(reader, "never", 5, NULL), 0);
    IS(gowk_reader_count(reader, keys[7].data, keys[7].length, &error), counting ? 2 : 1);
    IS(gowk_reader_contains_batch(reader, keys, KEYS, results, &error), KEYS);
    for (size_t i = 0; i < KEYS; i++)
        CHECK(results[i] == 1);
    CHECK(gowk_reader_contains_batch(reader, others, KEYS, results, &error) < 10);
    CHECK(gowk_reader_contains_batch(reader, others, KEYS, NULL, &error) < 10);
    memset(value, 'x', sizeof value);
    IS(gowk_reader_metadata(reader, "position", value, 4, &error), 6);
    CHECK(memcmp(value, "linexxxx", 8) == 0);
    IS(gowk_reader_metadata(reader, "position", NULL, 0, &error), 6);
    IS(gowk_reader_metadata(reader, "none", value, sizeof value, &error), GOWK_NOT_FOUND);
    IS(gowk_reader_info(reader, &info, &error), 0);
    CHECK(info.copies == (counting ? KEYS + 1000 + 3 : KEYS + 2) && info.load > 0 && info.capacity == 30000);
    IS(gowk_reader_verify(reader, &error), 0);

    IS(gowk_writer_insert_batch(writer, others, 100, NULL, &error), 100);
    IS(gowk_writer_rollback(writer, &error), 0);
    IS(gowk_writer_contains(writer, others[0].data, others[0].length, &error), 0);
    if (counting) {
        IS(gowk_writer_remove(writer, keys[7].data, keys[7].length, &error), 1);
        IS(gowk_writer_remove(writer, "never", 5, &error), 0);
        IS(gowk_writer_remove_batch(writer, keys, 10, results, &error), 10);
        CHECK(results[9] == 1);
        IS(gowk_writer_remove_batch(writer, others, 10, NULL, &error), 0);
    } else {
        IS(gowk_writer_remove(writer, keys[7].data, keys[7].length, &error), GOWK_KIND);
        IS(gowk_writer_remove_batch(writer, keys, 10, results, &error), GOWK_KIND);
    }
    int64_t now = (int64_t)time(NULL) * 1000, times[4] = {now, now - 86400000, now, now + 86400000};
    int64_t lifetimes[3] = {60000, 3600000, 0}, too_long[3] = {60000, 3600001, 0}, negative[3] = {60000, -1, 0};
    if (forgetting) {
        IS(gowk_writer_insert_at(writer, "now", 3, now, &error), GOWK_NEW);
        IS(gowk_writer_insert_at(writer, "now", 3, now, &error), GOWK_KNOWN);
        IS(gowk_writer_insert_at(writer, "old", 3, now - 86400000, &error), GOWK_LATE);
        IS(gowk_writer_insert_at(writer, "soon", 4, now + 86400000, &error), GOWK_EARLY);
        IS(gowk_writer_insert_batch_at(writer, others, times, 4, results, &error), 2);
        CHECK(results[0] == GOWK_NEW && results[1] == GOWK_LATE && results[3] == GOWK_EARLY);
        IS(gowk_writer_insert_batch_for(writer, others + 10, lifetimes, 3, results, &error), 3);
        IS(gowk_writer_insert_batch_for(writer, others + 10, lifetimes, 3, results, &error), 0);
        CHECK(results[0] == GOWK_KNOWN);
        IS(gowk_writer_insert_batch_for(writer, others + 10, too_long, 3, results, &error), GOWK_INVALID);
        IS(gowk_writer_insert_batch_for(writer, others + 10, negative, 3, NULL, &error), GOWK_INVALID);
        IS(gowk_writer_sweep(writer, &error), 0);
    } else {
        IS(gowk_writer_insert_at(writer, "now", 3, now, &error), GOWK_KIND);
        IS(gowk_writer_insert_batch_at(writer, others, times, 4, results, &error), GOWK_KIND);
        IS(gowk_writer_insert_batch_for(writer, others, lifetimes, 3, results, &error), GOWK_KIND);
        IS(gowk_writer_sweep(writer, &error), GOWK_KIND);
    }
    IS(gowk_writer_remove_metadata(writer, "position", &error), 1);
    IS(gowk_writer_remove_metadata(writer, "position", &error), 0);
    IS(gowk_writer_commit(writer, &error), 0);
    IS(gowk_writer_checkpoint(writer, &error), 0);

    /* Copies, as files and as bytes. */
    uint8_t *bytes;
    gowk_reader *of_bytes, *of_memory, *of_copy;
    int64_t length = gowk_reader_to_bytes(reader, &bytes, &error);
    CHECK(length > 0 && bytes != NULL);
    IS(gowk_reader_from_bytes(bytes, (size_t)length - 1, NULL, &of_bytes, &error), GOWK_DAMAGED);
    CHECK(of_bytes == NULL);
    IS(gowk_reader_from_bytes(bytes, (size_t)length, NULL, &of_bytes, &error), 0);
    gowk_bytes_free(bytes, (size_t)length);
    IS(gowk_reader_contains_batch(of_bytes, keys + 10, KEYS - 10, NULL, &error), KEYS - 10);
    IS(gowk_reader_open_in_memory(path, NULL, &of_memory, &error), 0);
    IS(gowk_reader_contains(of_memory, "first", 5, &error), 1);
    IS(gowk_reader_copy_to(of_bytes, copy, 0, &error), 0);
    IS(gowk_reader_copy_to(reader, copy, 0, &error), GOWK_EXISTS);
    IS(gowk_reader_copy_to(of_memory, copy, 1, &error), 0);
    IS(gowk_reader_open(copy, NULL, &of_copy, &error), 0);
    IS(gowk_reader_contains_batch(of_copy, keys + 10, KEYS - 10, NULL, &error), KEYS - 10);
    IS(gowk_reader_reload(of_copy, &error), 0);
    IS(gowk_writer_merge(writer, of_copy, &error), 0);
    gowk_reader_close(of_copy);
    gowk_reader_close(of_memory);
    gowk_reader_close(of_bytes);

    IS(gowk_writer_close(writer, &error), GOWK_UNCOMMITTED);
    gowk_reader_close(reader);
    IS(gowk_options_set(options, "kind", counting ? "set" : "counting", &error), 0);
    IS(gowk_reader_open(path, options, &reader, &error), GOWK_KIND);
    gowk_options_free(options);
    remove(copy);
    free_keys(keys, KEYS);
    free_keys(others, KEYS);
    free(results);
    free(copy);
    free(path);
}

/* Two writers insert the same keys, one of them packed; a reader looks them up in both ways. */
static void packed(const char *folder, int grows)
{
    size_t counts[] = {0, 1, 4095, 4096, 4097, 8192, 20000};
    gowk_options *options = options_of("counting");
    gowk_key *keys = made_keys("key", KEYS);
    uint8_t *results = malloc(KEYS), *expected = malloc(KEYS);
    keys[KEYS - 2].length = keys[1].length = keys[0].length = keys[4096].length = 0;
    if (!grows) {
        IS(gowk_options_set(options, "capacity", "1000", &error), 0);
        IS(gowk_options_set(options, "growth", "never", &error), 0);
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t count = counts[i];
        char *path = in_folder(folder, "packed"), *other_path = in_folder(folder, "batch");
        uint64_t *ends;
        char *bytes = packed_keys(keys, count, &ends);
        gowk_writer *writer, *other;
        gowk_reader *reader;
        int64_t new, present;
        IS(gowk_writer_create(path, options, &writer, &error), 0);
        IS(gowk_writer_create(other_path, options, &other, &error), 0);
        memset(results, 9, KEYS);
        /* In parts, as the results depend on where a batch begins once keys are refused. */
        new = 0;
        for (size_t first = 0; first < count; first += 4096) {
            size_t part = count - first < 4096 ? count - first : 4096;
            int64_t here = gowk_writer_insert_batch(other, keys + first, part, expected + first, &error);
            if (here < 0)
                new = here;
            else if (new >= 0)
                new += here;
        }
        IS(gowk_writer_insert_packed(writer, bytes, ends, count, results, &error), new);
        CHECK(memcmp(results, expected, count) == 0);
        CHECK(count == KEYS || results[count] == 9);
        /* More than the last part has: the message counts those of all parts. */
        if (!grows && count == KEYS) {
            size_t refused = 0;
            char text[64];
            for (size_t k = 0; k < count; k++)
                refused += results[k] == GOWK_REFUSED;
            snprintf(text, sizeof text, "; %zu keys of the batch were refused", refused);
            CHECK(new == GOWK_NO_ROOM && refused > KEYS % 4096 && strstr(error.message, text) != NULL);
        }
        if (grows)
            CHECK(gowk_writer_insert_packed(writer, bytes, ends, count, NULL, &error) == 0);
        IS(gowk_writer_commit(writer, &error), 0);
        IS(gowk_writer_close(writer, &error), 0);
        IS(gowk_reader_open(path, options, &reader, &error), 0);
        memset(results, 9, KEYS);
        present = gowk_reader_contains_batch(reader, keys, count, expected, &error);
        CHECK(present >= 0 && (!grows || present == (int64_t)count));
        IS(gowk_reader_contains_packed(reader, bytes, ends, count, results, &error), present);
        CHECK(memcmp(results, expected, count) == 0);
        CHECK(count == KEYS || results[count] == 9);
        IS(gowk_reader_contains_packed(reader, bytes, ends, count, NULL, &error), present);
        IS(gowk_reader_contains_packed(reader, NULL, NULL, 0, NULL, &error), 0);
        if (count > 2) {
            ends[count - 1] = ends[count - 2] - 1;
            IS(gowk_reader_contains_packed(reader, bytes, ends, count, results, &error), GOWK_INVALID);
        }
        gowk_reader_close(reader);
        gowk_writer_close(other, NULL);
        remove(path);
        remove(other_path);
        free(bytes);
        free(ends);
        free(path);
        free(other_path);
    }
    gowk_options_free(options);
    free_keys(keys, KEYS);
    free(results);
    free(expected);
}

static void full(const char *folder)
{
    char *path = in_folder(folder, "full");
    gowk_options *options = gowk_options_new();
    gowk_key *keys = made_keys("key", 50000);
    uint8_t *results = malloc(50000);
    gowk_writer *writer;
    size_t refused = 0;
    IS(gowk_options_set(options, "capacity", "1000", &error), 0);
    IS(gowk_options_set(options, "growth", "never", &error), 0);
    IS(gowk_options_set(options, "growth", "perhaps", &error), GOWK_INVALID);
    IS(gowk_options_set(options, "size", "1", &error), GOWK_INVALID);
    IS(gowk_writer_open(path, options, &writer, &error), 0);
    IS(gowk_writer_insert_batch(writer, keys, 50000, results, &error), GOWK_NO_ROOM);
    CHECK(strstr(error.message, "refused") != NULL);
    for (size_t i = 0; i < 50000; i++) {
        refused += results[i] == GOWK_REFUSED;
        if (results[i] != GOWK_REFUSED)
            IS(gowk_writer_contains(writer, keys[i].data, keys[i].length, &error), 1);
    }
    CHECK(refused > 10000 && refused < 49000);
    IS(gowk_writer_commit(writer, &error), 0);
    IS(gowk_writer_close(writer, &error), 0);
    gowk_options_free(options);
    free_keys(keys, 50000);
    free(results);
    free(path);
}

struct shared {
    const gowk_reader *reader;
    const gowk_key *keys;
};

static void *look_up(void *argument)
{
    struct shared *shared = argument;
    gowk_error own;
    uintptr_t missed = 0;
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < 1000; i++)
            missed += gowk_reader_contains(shared->reader, shared->keys[i].data, shared->keys[i].length, &own) != 1;
        missed += gowk_reader_contains_batch(shared->reader, shared->keys, 1000, NULL, &own) != 1000;
    }
    return (void *)missed;
}

static void threads(const char *folder)
{
    char *path = in_folder(folder, "threads");
    gowk_key *keys = made_keys("key", 30000);
    pthread_t all[4];
    gowk_writer *writer;
    gowk_reader *reader;
    gowk_options *options = gowk_options_new();
    IS(gowk_options_set(options, "seed", "1", &error), 0);
    IS(gowk_writer_open(path, options, &writer, &error), 0);
    gowk_options_free(options);
    IS(gowk_writer_insert_batch(writer, keys, 1000, NULL, &error), 1000);
    IS(gowk_writer_commit(writer, &error), 0);
    IS(gowk_reader_open(path, NULL, &reader, &error), 0);
    struct shared shared = {reader, keys};
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&all[i], NULL, look_up, &shared) == 0);
    for (size_t i = 1000; i < 30000; i += 1000) {
        CHECK(gowk_writer_insert_batch(writer, keys + i, 1000, NULL, &error) >= 990);
        IS(gowk_writer_commit(writer, &error), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *missed;
        CHECK(pthread_join(all[i], &missed) == 0 && missed == NULL);
    }
    IS(gowk_writer_close(writer, &error), 0);
    gowk_reader_close(reader);
    free_keys(keys, 30000);
    free(path);
}

static void store(const char *folder)
{
    char *path = in_folder(folder, "store");
    gowk_options *options = options_of("counting");
    gowk_key *keys = made_keys("key", KEYS);
    uint8_t *results = malloc(KEYS);
    gowk_store *store, *again;
    gowk_update *update;
    gowk_store_reader *reader, *old;
    IS(gowk_store_open(path, NULL, &store, &error), GOWK_NOT_FOUND);
    IS(gowk_store_create(path, 4, options, &store, &error), 0);
    IS(gowk_store_create(path, 4, options, &again, &error), GOWK_EXISTS);
    IS(gowk_store_read(store, &old, &error), 0);
    for (int attempt = 0; attempt < 3; attempt++) {
        memset(results, 9, KEYS);
        IS(gowk_store_insert_batch(store, keys, 5000, results, "insert", "test", 1, &error), 5000);
        CHECK(results[0] == GOWK_NEW && results[4999] == GOWK_NEW && results[5000] == 9);
    }
    IS(gowk_store_insert_batch(store, keys, 100, results, "insert", NULL, 0, &error), 0);
    IS(gowk_store_update(store, "test", 2, &update, &error), 0);
    IS(gowk_update_insert_batch(update, keys + 5000, KEYS - 5000, results, &error), KEYS - 5000);
    IS(gowk_update_remove_batch(update, keys, 10, results, &error), 10);
    CHECK(gowk_update_commit(update, "change", &error) > 2);
    uint64_t number = 9;
    IS(gowk_store_last_token(store, "test", &number, &error), 1);
    CHECK(number == 2);
    IS(gowk_store_last_token(store, "another", &number, &error), 0);
    CHECK(number == 0);
    IS(gowk_store_last_token(store, "test", NULL, &error), GOWK_INVALID);
    IS(gowk_store_update(store, NULL, 0, &update, &error), 0);
    IS(gowk_update_insert_batch(update, keys, 1, NULL, &error), 0);
    gowk_update_abandon(update);
    IS(gowk_store_open(path, NULL, &again, &error), 0);
    IS(gowk_store_read(again, &reader, &error), 0);
    IS(gowk_store_reader_contains_batch(reader, keys, KEYS, results, &error), KEYS);
    IS(gowk_store_reader_contains(reader, keys[0].data, keys[0].length, &error), 1);
    IS(gowk_store_reader_count(reader, keys[0].data, keys[0].length, &error), 1);
    IS(gowk_store_reader_count(reader, keys[50].data, keys[50].length, &error), 2);
    IS(gowk_store_reader_contains(old, keys[0].data, keys[0].length, &error), 0);
    IS(gowk_store_reader_reload(old, &error), 1);
    IS(gowk_store_reader_reload(old, &error), 0);
    CHECK(gowk_store_reader_version(old, &error) == gowk_store_reader_version(reader, &error));
    IS(gowk_store_reader_contains(old, keys[0].data, keys[0].length, &error), 1);
    gowk_store_reader_close(old);
    gowk_store_close(again);
    IS(gowk_store_reader_contains(reader, keys[1].data, keys[1].length, &error), 1);
    gowk_store_reader_close(reader);
    gowk_store_close(store);
    gowk_options_free(options);
    free_keys(keys, KEYS);
    free(results);
    free(path);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    CHECK(strcmp(gowk_version(), GOWK_VERSION) == 0);
    CHECK(strcmp(gowk_code_name(GOWK_NO_ROOM), "no_room") == 0);
    filter(argv[1], "set");
    filter(argv[1], "counting");
    filter(argv[1], "forgetting");
    packed(argv[1], 1);
    packed(argv[1], 0);
    full(argv[1]);
    threads(argv[1]);
    store(argv[1]);
    printf("%d passed, 0 failed\n", checks);
    return 0;
}
