/* See wall_time.h. */
#include "cli/options/wall_time.h"

#include "core/base/parse_values.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

bw_time bw_wall_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (bw_time)now.tv_sec * BW_SEC + now.tv_nsec;
}

const char *bw_wall_text(char out[BW_WALL_TEXT], bw_time at)
{
    time_t seconds = (time_t)(at / BW_SEC);
    struct tm utc;
    size_t used = strftime(out, BW_WALL_TEXT, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &utc));
    snprintf(out + used, BW_WALL_TEXT - used, ".%03dZ", (int)(at % BW_SEC / BW_MS));
    return out;
}

/* Parses exactly `digits` digits. Returns false if there are others. */
static bool number(const char **at, int digits, int *out)
{
    *out = 0;
    for (int i = 0; i < digits; i++, (*at)++) {
        if (!isdigit((unsigned char)**at))
            return false;
        *out = 10 * *out + (**at - '0');
    }
    return true;
}

/* Parses "Z" or an offset such as "+01:00" at the end of a time. */
static bool read_offset(const char *text, bw_time *out)
{
    int hours, minutes, sign = *text == '-' ? -1 : 1;
    *out = 0;
    if (strcmp(text, "Z") == 0 || strcmp(text, "z") == 0)
        return true;
    if (*text != '+' && *text != '-')
        return false;
    text++;
    if (!number(&text, 2, &hours) || *text++ != ':' || !number(&text, 2, &minutes) || *text ||
        hours > 23 || minutes > 59)
        return false;
    *out = sign * (60 * (bw_time)hours + minutes) * 60 * BW_SEC;
    return true;
}

bool bw_wall_read(const char *text, bw_time *out)
{
    static const char separators[] = "--T::";
    static const int digits[] = {4, 2, 2, 2, 2, 2}, low[] = {1970, 1, 1, 0, 0, 0},
                     high[] = {2200, 12, 31, 23, 59, 60};
    int part[6];
    bw_time fraction = 0, unit = BW_SEC, offset;
    for (int i = 0; i < 6; i++)
        if (!number(&text, digits[i], &part[i]) || part[i] < low[i] || part[i] > high[i] ||
            (i < 5 && *text++ != separators[i]))
            return false;
    if (*text == '.')
        for (text++; isdigit((unsigned char)*text) && unit > 1; text++)
            fraction += (*text - '0') * (unit /= 10);
    if (!read_offset(text, &offset))
        return false;
    struct tm utc = {.tm_year = part[0] - 1900,
                     .tm_mon = part[1] - 1,
                     .tm_mday = part[2],
                     .tm_hour = part[3],
                     .tm_min = part[4],
                     .tm_sec = part[5]};
    *out = (bw_time)timegm(&utc) * BW_SEC + fraction - offset;
    return true;
}

bool bw_wall_since(const char *text, bw_time now, bw_time *out)
{
    bw_time span;
    if (bw_text_duration(text, strlen(text), &span) == 0) {
        *out = span < now ? now - span : 0;
        return true;
    }
    return bw_wall_read(text, out);
}
