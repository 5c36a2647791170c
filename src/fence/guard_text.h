/* Guards as printable texts. They make the user's database, store or program reject older tokens.
 * Each guard is one file in src/fence/guards, embedded at build time. */
#ifndef BW_FENCE_GUARD_TEXT_H
#define BW_FENCE_GUARD_TEXT_H

#include <stdio.h>

#define BW_GUARD_NAME_MAX 120u /* bytes of a table's or column's name */

struct bw_guard_text {
    const char *name;
    const char *always;
    const char *table; /* printed after it for one table; NULL: cannot guard a table */
};

/* Sorted by name; ends with an entry without name. */
extern const struct bw_guard_text bw_guard_texts[];

/* Prints the text and, if `table` is not NULL, its part for that table. Returns BW_EINVAL if a name
 * is empty, too long or not printable. */
int bw_guard_text_print(FILE *out, const struct bw_guard_text *text, const char *table,
                        const char *column);

/* ---- used by guards ---- */

struct bw_guard_mark {
    const char *name, *value;
};

/* Returns 0, or BW_EINVAL if the text cannot be the name of a table or column. */
int bw_guard_name_check(const char *text);
/* Writes a name as SQL text, quoted with `mark`. `out` has space for twice the name's length plus
 * three. */
void bw_guard_quote(const char *name, char mark, char *out);
/* Prints a text and replaces each "%{NAME}"; the list `marks` ends with an entry without name. */
void bw_guard_expand(FILE *out, const char *text, const struct bw_guard_mark *marks);

#endif
