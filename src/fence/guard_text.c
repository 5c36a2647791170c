/* Guards as texts; see guard_text.h. Placeholders in the part for one table:
 *
 *   %{table}        its name, quoted as an identifier
 *   %{resource}     its name as a string
 *   %{column}       the token's column, quoted as an identifier
 *   %{column-text}  the token's column as a string */
#include "fence/guard_text.h"

#include "core/base/error.h"

#include <string.h>

#define QUOTED (2 * BW_GUARD_NAME_MAX + 3)

int bw_guard_name_check(const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return BW_EINVAL;
    return length > 0 && length <= BW_GUARD_NAME_MAX ? 0 : BW_EINVAL;
}

void bw_guard_quote(const char *name, char mark, char *out)
{
    size_t used = 0;
    out[used++] = mark;
    for (; *name; name++) {
        if (*name == mark)
            out[used++] = mark;
        out[used++] = *name;
    }
    out[used++] = mark;
    out[used] = '\0';
}

/* Finds the placeholder that starts here, with its braces; NULL: plain text. */
static const struct bw_guard_mark *find_mark(const char *text, const struct bw_guard_mark *marks)
{
    for (; marks->name; marks++) {
        size_t length = strlen(marks->name);
        if (strncmp(text, "%{", 2) == 0 && strncmp(text + 2, marks->name, length) == 0 &&
            text[2 + length] == '}')
            return marks;
    }
    return NULL;
}

void bw_guard_expand(FILE *out, const char *text, const struct bw_guard_mark *marks)
{
    while (*text) {
        const struct bw_guard_mark *mark = find_mark(text, marks);
        if (mark)
            fputs(mark->value, out);
        else
            fputc(*text, out);
        text += mark ? strlen(mark->name) + 3 : 1;
    }
}

int bw_guard_text_print(FILE *out, const struct bw_guard_text *text, const char *table,
                        const char *column)
{
    char name[QUOTED], resource[QUOTED], place[QUOTED], place_text[QUOTED];
    if (table && (!text->table || bw_guard_name_check(table) || bw_guard_name_check(column)))
        return BW_EINVAL;
    fputs(text->always, out);
    if (!table)
        return 0;
    bw_guard_quote(table, '"', name);
    bw_guard_quote(table, '\'', resource);
    bw_guard_quote(column, '"', place);
    bw_guard_quote(column, '\'', place_text);
    const struct bw_guard_mark marks[] = {{"table", name},
                                          {"resource", resource},
                                          {"column", place},
                                          {"column-text", place_text},
                                          {NULL, NULL}};
    bw_guard_expand(out, text->table, marks);
    return 0;
}
