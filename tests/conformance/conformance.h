/* What every store must do, written against store.h and a store's declared traits. A store's driver
 * is one line: `return conformance_main(argc, argv, url)`.
 *
 * Each test uses elections nobody used before, so a server may be shared and needs no cleaning.
 * Tests that kill or race real processes start this very program again (conformance_main then does
 * that process' part and does not return): a fork alone would carry one process' connection into
 * another. */
#ifndef BW_TESTS_CONFORMANCE_H
#define BW_TESTS_CONFORMANCE_H

#include "conformance/client.h"
#include "unit/unit.h"

#include <sys/types.h>

int conformance_main(int argc, char **argv, const char *url);
/* Only every `of`-th test, from `share` (0 is the first): several processes share the suite. */
void conformance_share(unsigned share, unsigned of);

/* For the parts of the suite. */
extern const char *conformance_url;
/* A new election name; valid until the sixteenth next call. */
const char *conformance_election(void);
/* Has a loop that repeats up to `most` times, begun at uv_hrtime() `begun`, repeated often enough?
 * A slow store or machine repeats a tenth of it at least. TEST_SIZE=large in the environment: all.
 */
bool conformance_enough(unsigned done, unsigned most, uint64_t begun);
/* Skip the rest of a test unless the store has all these traits. */
#define needs_traits(client, wanted)                                                               \
    do {                                                                                           \
        if (((client)->ops->traits & (wanted)) != (wanted)) {                                      \
            client_close(client);                                                                  \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

#define HELPER_CYCLE_TTL                                                                           \
    (500 * BW_MS) /* of the part "cycle", unless the store's shortest is longer */

/* Another process with its own connection: reads orders from `to`, one character each, and answers
 * lines on `from`. */
struct helper {
    pid_t pid;
    int to, from;
};

void helper_start(struct helper *helper, const char *part, const char *election, const char *id);
void helper_order(struct helper *helper, char order);
/* The next line, without its newline; false when the process is gone. */
bool helper_line(struct helper *helper, char *line, size_t size);
/* SIGKILL it and wait until it is gone; what it said before can still be read. */
void helper_kill(struct helper *helper);
void helper_end(struct helper *helper);
int helper_play(const char *part, const char *url, const char *election, const char *id);

const struct CMUnitTest *conformance_records(size_t *count);
const struct CMUnitTest *conformance_watches(size_t *count);
const struct CMUnitTest *conformance_processes(size_t *count);

#endif
