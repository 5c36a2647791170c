/* The names of the elections that a listing has found so far, for stores with the trait NAMES whose
 * server can give a name more than once.
 *
 * Invariants: count <= room <= 2 * BW_STORE_NAMES_MAX; once `full`, no name is added. */
#ifndef BW_STORE_KIT_NAMES_H
#define BW_STORE_KIT_NAMES_H

#include "store/kit/job.h"

struct bw_names {
    struct bw_election_name *rows;
    uint32_t count, room;
    bool full; /* BW_STORE_NAMES_MAX different names are known: the listing can end */
};

/* Adds a name. Ignores a text that cannot be the name of an election. Returns 0 or BW_ENOMEM. */
int bw_names_add(struct bw_names *names, const char *text, size_t length);
/* Answers the request ELECTIONS with each name once. The job must not be used afterwards. */
void bw_names_answer(struct bw_names *names, struct bw_job *job);
/* Frees the rows, not the struct. */
void bw_names_free(struct bw_names *names);

#endif
