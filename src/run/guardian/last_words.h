/* Last words: datagrams that tell others of a leader's death, said by the guardian when the
 * supervisor is gone and the work is dead.
 *
 * The supervisor asks its store for them with every lease (store.h: last_words) and hands them over
 * as a file in memory, beside the socket they go out by. The guardian understands nothing of them
 * and knows no key: they were made and sealed by who could. Both ends are the same program, so
 * native layout is enough. Nothing is promised: datagrams get lost, and whoever hears none waits
 * the lease out. What is promised stands in core/guardian/guardian.h: they are never said of a work
 * that may run. */
#ifndef BW_RUN_LAST_WORDS_H
#define BW_RUN_LAST_WORDS_H

#include "store/store.h"

/* A file in memory with these rows. Returns its descriptor or -1 with errno. */
int bw_last_words_write(const struct bw_last_word *rows, uint32_t count);

/* Sends each once. Never waits: what does not fit the socket's queue is lost. Returns how many went
 * out. A file that was not written by bw_last_words_write sends nothing. */
uint32_t bw_last_words_say(int words, int socket);

#endif
