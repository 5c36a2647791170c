/* Parses and compares the sides of a split brain; see sides.h. */
#include "cli/election/sides.h"

#include "core/base/parse_values.h"

#include <string.h>

/* Copies the next word of a line that ends at `end`. Returns NULL if there is none or it is too
 * long. */
static const char *take_word(const char *at, const char *end, char *out, size_t max)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    size_t length = 0;
    while (at + length < end && at[length] != ' ' && at[length] != '\t')
        length++;
    if (length == 0 || length > max)
        return NULL;
    memcpy(out, at, length);
    out[length] = '\0';
    return at + length;
}

static bool parse_line(const char *at, const char *end, struct bw_side *side)
{
    char number[24], more[BW_SIDE_TEXT_MAX + 1];
    at = take_word(at, end, side->name, BW_SIDE_NAME_MAX);
    if (at)
        at = take_word(at, end, number, sizeof number - 1);
    if (!at || bw_text_number(number, strlen(number), UINT64_MAX, &side->token) != 0)
        return false;
    at = take_word(at, end, side->digest, BW_SIDE_TEXT_MAX);
    return at && !take_word(at, end, more, BW_SIDE_TEXT_MAX);
}

static bool says_nothing(const char *at, const char *end)
{
    return at == end || *at == '#' || strspn(at, " \t") >= (size_t)(end - at);
}

int bw_sides_parse(const char *text, struct bw_sides *out, uint32_t *wrong)
{
    out->count = 0;
    *wrong = 0;
    while (*text) {
        const char *end = text + strcspn(text, "\n");
        ++*wrong;
        if (!says_nothing(text, end)) {
            if (out->count == BW_SIDES_MAX)
                return BW_ELIMIT;
            if (!parse_line(text, end, &out->at[out->count]))
                return BW_EMALFORMED;
            out->count++;
        }
        text = end + (*end == '\n');
    }
    *wrong = 0;
    return 0;
}

bool bw_sides_agree(const struct bw_sides *sides)
{
    for (uint32_t i = 1; i < sides->count; i++)
        if (strcmp(sides->at[i].digest, sides->at[0].digest) != 0)
            return false;
    return true;
}

bw_token bw_sides_highest(const struct bw_sides *sides)
{
    bw_token highest = BW_TOKEN_NONE;
    for (uint32_t i = 0; i < sides->count; i++)
        if (sides->at[i].token > highest)
            highest = sides->at[i].token;
    return highest;
}
