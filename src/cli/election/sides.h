/* The data of the sides of a split brain, one line per side as a compare hook prints it, and
 * whether the sides agree. Pure.
 *
 *     NAME TOKEN DIGEST        "db1 41 9f86d081" */
#ifndef BW_CLI_ELECTION_SIDES_H
#define BW_CLI_ELECTION_SIDES_H

#include "core/base/error.h"
#include "core/base/types.h"

#define BW_SIDES_MAX      64u
#define BW_SIDE_NAME_MAX  63u
#define BW_SIDE_TEXT_MAX  127u
#define BW_SIDES_TEXT_MAX 16383u /* maximum output of a hook */

struct bw_side {
    char name[BW_SIDE_NAME_MAX + 1];
    bw_token token; /* token of the last leadership that wrote there; 0: unknown */
    char digest[BW_SIDE_TEXT_MAX + 1];
};

struct bw_sides {
    struct bw_side at[BW_SIDES_MAX];
    uint32_t count;
};

/* Returns 0; BW_EMALFORMED if line `*wrong` (from 1) does not have this form; BW_ELIMIT if there
 * are more than BW_SIDES_MAX sides. Skips empty lines and lines that begin with #. */
int bw_sides_parse(const char *text, struct bw_sides *out, uint32_t *wrong);

/* Returns whether all digests are equal. No side or one side always agrees. */
bool bw_sides_agree(const struct bw_sides *sides);

/* Returns the highest token that any side has seen. */
bw_token bw_sides_highest(const struct bw_sides *sides);

#endif
