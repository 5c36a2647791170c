/* Text of responses, see text.h. */
#include "run/status/text.h"

#include "core/base/assert.h"

#include <stdarg.h>
#include <stdio.h>

void bw_page_put(struct bw_page *page, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    size_t space = sizeof page->text - page->used;
    int length = vsnprintf(page->text + page->used, space, format, list);
    va_end(list);
    BW_ASSERT(length >= 0 && (size_t)length < space);
    page->used += (size_t)length;
}

/* Length in bytes of the UTF-8 character at `at`; 0: invalid. */
static size_t sequence(const unsigned char *at)
{
    size_t length = at[0] < 0x80                     ? 1
                    : at[0] >= 0xc2 && at[0] <= 0xdf ? 2
                    : (at[0] & 0xf0) == 0xe0         ? 3
                    : at[0] >= 0xf0 && at[0] <= 0xf4 ? 4
                                                     : 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if (length == 3 && ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f)))
        return 0; /* overlong, or a surrogate */
    if (length == 4 && ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f)))
        return 0;
    return length;
}

void bw_page_put_json(struct bw_page *page, const char *text)
{
    bw_page_put(page, "\"");
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        size_t length = sequence(at);
        if (*at == '"' || *at == '\\')
            bw_page_put(page, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            bw_page_put(page, "\\u%04x", *at);
        else if (length == 0)
            bw_page_put(page, "?");
        else
            bw_page_put(page, "%.*s", (int)length, (const char *)at);
        at += length ? length : 1;
    }
    bw_page_put(page, "\"");
}

void bw_page_put_label(struct bw_page *page, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        size_t length = sequence(at);
        if (*at == '"' || *at == '\\')
            bw_page_put(page, "\\%c", *at);
        else if (*at == '\n')
            bw_page_put(page, "\\n");
        else if (length == 0)
            bw_page_put(page, "?");
        else
            bw_page_put(page, "%.*s", (int)length, (const char *)at);
        at += length ? length : 1;
    }
}
