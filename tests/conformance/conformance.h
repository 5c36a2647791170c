/* The conformance suite: what every store must do, according to store.h and the store's declared
 * traits. A store's driver is one line: `return conformance_main(argc, argv, url)`.
 *
 * - Each test uses new election names, so that a server may be shared and needs no cleanup.
 * - Tests that kill or race real processes start this program again: conformance_main then plays
 *   the part of that process and does not return. A fork alone would share one connection between
 *   two processes. */
#ifndef BW_TESTS_CONFORMANCE_CONFORMANCE_H
#define BW_TESTS_CONFORMANCE_CONFORMANCE_H

#include "conformance/client.h"
#include "unit/unit.h"

#include <sys/types.h>

int conformance_main(int argc, char **argv, const char *url);
/* Runs only every `of`-th test, starting with test `share` (from 0), so that several processes
 * share the suite. */
void conformance_share(unsigned share, unsigned of);

/* For the files of the suite. */
extern const char *conformance_url;
/* Returns a new election name. It stays valid for the next 15 calls. */
const char *conformance_election(void);
/* True if a loop has done enough of its `most` rounds. `begun` is uv_hrtime() at its start. On a
 * slow store or machine a tenth is enough; with TEST_SIZE=large in the environment, all rounds are
 * needed. */
bool conformance_enough(unsigned done, unsigned most, uint64_t begun);
/* Skips the rest of a test unless the store has all these traits. */
#define needs_traits(client, wanted)                                                               \
    do {                                                                                           \
        if (((client)->ops->traits & (wanted)) != (wanted)) {                                      \
            client_close(client);                                                                  \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

#define HELPER_CYCLE_TTL                                                                           \
    (500 * BW_MS) /* TTL of the part "cycle"; the store's minimum if that is longer */

/* Another process with its own connection to the store. The test writes orders of one character to
 * `to`; the process answers with lines on `from`. */
struct helper {
    pid_t pid;
    int to, from;
};

void helper_start(struct helper *helper, const char *part, const char *election, const char *id);
void helper_order(struct helper *helper, char order);
/* Reads the next line, without its newline. Returns false if the process has exited. */
bool helper_line(struct helper *helper, char *line, size_t size);
/* Kills the process with SIGKILL and waits for it. Lines it wrote before can still be read. */
void helper_kill(struct helper *helper);
void helper_end(struct helper *helper);
int helper_play(const char *part, const char *url, const char *election, const char *id);

const struct CMUnitTest *conformance_records(size_t *count);
const struct CMUnitTest *conformance_watches(size_t *count);
const struct CMUnitTest *conformance_processes(size_t *count);

#endif
