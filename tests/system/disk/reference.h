/* The leader that the test plays, as a trivial reference: the entries it has ever had, and a
 * registry to which the committed ones are applied one by one. Nothing here is stored in a file. */
#ifndef BW_TESTS_SYSTEM_DISK_REFERENCE_H
#define BW_TESTS_SYSTEM_DISK_REFERENCE_H

#include "serve/replica/state.h"

#define REFERENCE_INDEX_MAX 2048u

extern const struct bw_registry_config reference_config;

void reference_init(void);
/* The leader's current term and log. */
bw_term reference_term(void);
bw_index reference_last(void), reference_commit(void);
bw_term reference_term_at(bw_index index); /* 0: no entry */

/* Adds an entry that follows from `draw`. Returns false if the log is full. */
bool reference_append(uint64_t draw);
/* Commits the entries up to `until`: a majority without the node under test has them. */
void reference_commit_to(bw_index until);
/* A new leader with a higher term, whose log has the entries up to `last`; all committed ones. */
void reference_lead(bw_term above, bw_index last);
/* The bytes of an entry of the current log, valid until the next call. */
const unsigned char *reference_bytes(bw_index index, size_t *length);

/* Whether the leader of any term had an entry with this index, term and content. */
bool reference_wrote(bw_index index, bw_term term, const void *bytes, size_t length);
/* A hash of the registry's content, and the one after the committed entries up to `index`. */
uint64_t reference_hash_of(struct bw_registry *registry);
uint64_t reference_hash_at(bw_index index);
/* The registry after all committed entries. */
struct bw_registry *reference_registry(void);

#endif
