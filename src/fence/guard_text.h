/* Guards as texts for people to use: what makes a database, a store or a program of their own
 * refuse older tokens. One file each in src/fence/guards, embedded when the program is built. */
#ifndef BW_FENCE_GUARD_TEXT_H
#define BW_FENCE_GUARD_TEXT_H

#include <stdio.h>

#define BW_GUARD_NAME_MAX 120u /* bytes of a table's or column's name */

struct bw_guard_text {
    const char *name;
    const char *always;
    const char
        *table; /* printed behind it for one table; NULL: it cannot guard a table by itself */
};

/* By name; ended by an entry without one. */
extern const struct bw_guard_text bw_guard_texts[];

/* Prints the text and, if `table` is not NULL, its part for that table. BW_EINVAL when a name is
 * empty, too long or not printable. */
int bw_guard_text_print(FILE *out, const struct bw_guard_text *text, const char *table,
                        const char *column);

/* ---- for guards ---- */

struct bw_guard_mark {
    const char *name, *value;
};

/* 0, or BW_EINVAL if it cannot be the name of a table or column. */
int bw_guard_name_check(const char *text);
/* A name as SQL text, quoted by `mark`; `out` has room for twice the name and three. */
void bw_guard_quote(const char *name, char mark, char *out);
/* Prints a text with "%{NAME}" replaced; `marks` end with one without a name. */
void bw_guard_expand(FILE *out, const char *text, const struct bw_guard_mark *marks);

#endif
