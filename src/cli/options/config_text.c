/* Parses config files; see config_text.h. */
#include "cli/options/config_text.h"

#include "core/base/limits.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Removes the blanks at both ends, in place. */
static char *trim(char *text)
{
    while (is_blank(*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && is_blank(text[length - 1]))
        length--;
    text[length] = '\0';
    return text;
}

/* Accepts bytes above 127, which are UTF-8 in values. */
static bool is_text(const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (((unsigned char)bytes[i] < 0x20 && bytes[i] != '\t') || bytes[i] == 0x7f)
            return false;
    return true;
}

static int refuse(char *why, const char *sentence)
{
    snprintf(why, BW_CONFIG_WHY, "%s", sentence);
    return -1;
}

static int take_section(char *text, struct bw_config_line *line, bw_config_take *take,
                        void *context, char *why)
{
    size_t length = strlen(text);
    if (text[length - 1] != ']')
        return refuse(why, "invalid section: expected [NAME], for example [run]");
    text[length - 1] = '\0';
    line->section = trim(text + 1);
    line->name = line->value = NULL;
    return take(context, line, why);
}

static int take_line(char *text, struct bw_config_line *line, bw_config_take *take, void *context,
                     char *why)
{
    text = trim(text);
    if (*text == '\0' || *text == '#')
        return 0;
    if (*text == '[')
        return take_section(text, line, take, context, why);
    char *equals = strchr(text, '=');
    if (equals)
        *equals = '\0';
    line->name = trim(text);
    line->value = equals ? trim(equals + 1) : NULL;
    if (*line->name == '\0')
        return refuse(why, "missing name before '='");
    return take(context, line, why);
}

unsigned bw_config_parse(char *text, size_t length, bw_config_take *take, void *context, char *why)
{
    struct bw_config_line line = {.section = ""};
    size_t at = 0;
    while (at < length) {
        char *begin = text + at, *end = memchr(begin, '\n', length - at);
        size_t size = end ? (size_t)(end - begin) : length - at;
        at += size + 1;
        line.number++;
        if (size > 0 && begin[size - 1] == '\r')
            size--;
        begin[size] = '\0';
        int wrong = 0;
        if (size > BW_CONFIG_LINE_MAX) {
            snprintf(why, BW_CONFIG_WHY, "line longer than %u bytes", BW_CONFIG_LINE_MAX);
            wrong = -1;
        } else if (!is_text(begin, size)) {
            wrong = refuse(why, "invalid byte: expected printable text");
        } else {
            wrong = take_line(begin, &line, take, context, why);
        }
        if (wrong)
            return line.number;
    }
    return 0;
}
