/*
 * Prints the lines of its input that it has not seen before, in this run or an earlier one:
 *
 *     cc seen.c $(pkg-config --cflags --libs gowk) -o seen
 *     ./seen seen.gowk < urls.txt
 *
 * Lines go into the filter in batches, which is several times as fast as one by one. Each batch is committed with the
 * number of lines read so far before its new lines are printed. If the program is killed, the next run goes on after the
 * lines that were committed, so give it the same input again.
 */
#include <gowk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define BATCH 10000

static int failed(const gowk_error *error)
{
    fprintf(stderr, "seen: %s\n", error->message);
    return 1;
}

int main(int argc, char **argv)
{
    gowk_error error;
    gowk_writer *seen = NULL;
    gowk_options *options = gowk_options_new();
    static char *lines[BATCH];
    static gowk_key keys[BATCH];
    static uint8_t results[BATCH];
    size_t capacity = 0;
    char *line = NULL;
    ssize_t length = 0;
    uint64_t position = 0, done = 0;
    int status = 1;

    if (argc != 2) {
        fprintf(stderr, "usage: seen FILTER < LINES\n");
        return 2;
    }
    if (gowk_options_set(options, "capacity", "10000000", &error) < 0 ||
        gowk_options_set(options, "false_positive_rate", "0.00001", &error) < 0 ||
        gowk_writer_open(argv[1], options, &seen, &error) < 0) {
        gowk_options_free(options);
        return failed(&error);
    }
    gowk_options_free(options);

    int64_t found = gowk_writer_metadata(seen, "position", &done, sizeof done, &error);
    if (found < 0 && found != GOWK_NOT_FOUND) {
        failed(&error);
        goto out;
    }
    while (length >= 0) {
        size_t count = 0;
        while (count < BATCH && (length = getline(&line, &capacity, stdin)) >= 0) {
            if (++position <= done)
                continue;
            if ((lines[count] = malloc((size_t)length + 1)) == NULL) {
                perror("seen");
                abort();
            }
            memcpy(lines[count], line, (size_t)length + 1);
            keys[count].data = lines[count];
            keys[count].length = (size_t)length;
            count++;
        }
        int right = gowk_writer_insert_batch(seen, keys, count, results, &error) >= 0 &&
                    gowk_writer_set_metadata(seen, "position", &position, sizeof position, &error) >= 0 &&
                    gowk_writer_commit(seen, &error) >= 0;
        for (size_t i = 0; i < count; i++) {
            if (right && results[i] == GOWK_NEW)
                fputs(lines[i], stdout);
            free(lines[i]);
        }
        if (!right) {
            failed(&error);
            goto out;
        }
    }
    status = 0;
out:
    free(line);
    if (gowk_writer_close(seen, &error) < 0 && status == 0)
        status = failed(&error);
    return status;
}
