/* What the sides of a split brain hold: one line per side, as a compare hook prints it,
 *
 *     NAME TOKEN DIGEST        "db1 41 9f86d081"
 *
 * and whether they agree. Pure. */
#ifndef BW_CLI_SIDES_H
#define BW_CLI_SIDES_H

#include "core/base/error.h"
#include "core/base/types.h"

#define BW_SIDES_MAX      64u
#define BW_SIDE_NAME_MAX  63u
#define BW_SIDE_TEXT_MAX  127u
#define BW_SIDES_TEXT_MAX 16383u /* of all lines: what a hook may say */

struct bw_side {
    char name[BW_SIDE_NAME_MAX + 1];
    bw_token token; /* of the last leadership that wrote there; 0: unknown */
    char digest[BW_SIDE_TEXT_MAX + 1];
};

struct bw_sides {
    struct bw_side at[BW_SIDES_MAX];
    uint32_t count;
};

/* 0; BW_EMALFORMED: line `*wrong` (from 1) has not that form; BW_ELIMIT: more than BW_SIDES_MAX.
 * Empty lines and lines that begin with # are left out. */
int bw_sides_parse(const char *text, struct bw_sides *out, uint32_t *wrong);

/* All digests are the same; so it is with no side or one. */
bool bw_sides_agree(const struct bw_sides *sides);

/* The highest token that any side has seen. */
bw_token bw_sides_highest(const struct bw_sides *sides);

#endif
