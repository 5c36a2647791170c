/* libFuzzer: any bytes are refused with a reason or parsed line by line. The parsed parts are
 * inside the input, end there, and come in the order of the lines. */
#include "cli/options/config_text.h"
#include "core/base/assert.h"
#include "core/base/limits.h"

#include <string.h>

struct text {
    const char *begin, *end;
    unsigned last;
};

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

static void check_inside(const struct text *text, const char *part)
{
    BW_ASSERT(part >= text->begin && part <= text->end);
    BW_ASSERT(part + strlen(part) <= text->end && strlen(part) <= BW_CONFIG_LINE_MAX);
}

static int take(void *context, const struct bw_config_line *line, char *why)
{
    struct text *text = context;
    (void)why;
    BW_ASSERT(line->number > text->last);
    text->last = line->number;
    if (line->section[0])
        check_inside(text, line->section);
    if (line->name)
        check_inside(text, line->name);
    if (line->value)
        check_inside(text, line->value);
    BW_ASSERT(line->name ? line->name[0] != '\0' : line->value == NULL);
    return 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static char copy[BW_CONFIG_FILE_MAX + 1];
    char why[BW_CONFIG_WHY] = "";
    struct text text = {copy, copy + length, 0};
    if (length > BW_CONFIG_FILE_MAX)
        return 0;
    memcpy(copy, bytes, length);
    copy[length] = '\0';
    unsigned wrong = bw_config_parse(copy, length, take, &text, why);
    BW_ASSERT((wrong != 0) == (why[0] != '\0') && wrong <= length + 1);
    return 0;
}
