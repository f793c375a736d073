/* What the files of this package call C with. */
#ifndef GOWKGO_H
#define GOWKGO_H

#include <stdlib.h>
#include <gowk.h>

// A call's result, and its error, in memory of malloc, if it failed. The error lies on the stack of C until then, so that
// calls of Go allocate nothing.
typedef struct {
	int64_t number;
	gowk_error *error;
} gowkgo_outcome;

static inline gowkgo_outcome gowkgo_done(int64_t number, const gowk_error *error)
{
	gowkgo_outcome outcome = {number, NULL};
	if (number < 0 && (outcome.error = malloc(sizeof *error)) != NULL)
		*outcome.error = *error;
	return outcome;
}

#define GOWKGO(call) gowk_error error; int64_t number = call; return gowkgo_done(number, &error)

/* A key comes as a number: see `address`. */
static inline gowkgo_outcome gowkgo_writer_insert(gowk_writer *w, uintptr_t k, size_t n)
{ GOWKGO(gowk_writer_insert(w, (const void *)k, n, &error)); }
static inline gowkgo_outcome gowkgo_writer_insert_at(gowk_writer *w, uintptr_t k, size_t n, int64_t at)
{ GOWKGO(gowk_writer_insert_at(w, (const void *)k, n, at, &error)); }
static inline gowkgo_outcome gowkgo_writer_remove(gowk_writer *w, uintptr_t k, size_t n)
{ GOWKGO(gowk_writer_remove(w, (const void *)k, n, &error)); }
static inline gowkgo_outcome gowkgo_writer_contains(gowk_writer *w, uintptr_t k, size_t n)
{ GOWKGO(gowk_writer_contains(w, (const void *)k, n, &error)); }
static inline gowkgo_outcome gowkgo_writer_count(gowk_writer *w, uintptr_t k, size_t n)
{ GOWKGO(gowk_writer_count(w, (const void *)k, n, &error)); }
static inline gowkgo_outcome gowkgo_reader_contains(gowk_reader *r, uintptr_t k, size_t n)
{ GOWKGO(gowk_reader_contains(r, (const void *)k, n, &error)); }
static inline gowkgo_outcome gowkgo_reader_count(gowk_reader *r, uintptr_t k, size_t n)
{ GOWKGO(gowk_reader_count(r, (const void *)k, n, &error)); }
static inline gowkgo_outcome gowkgo_store_reader_contains(gowk_store_reader *r, uintptr_t k, size_t n)
{ GOWKGO(gowk_store_reader_contains(r, (const void *)k, n, &error)); }
static inline gowkgo_outcome gowkgo_store_reader_count(gowk_store_reader *r, uintptr_t k, size_t n)
{ GOWKGO(gowk_store_reader_count(r, (const void *)k, n, &error)); }

#undef GOWKGO

#endif
