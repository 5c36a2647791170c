/* Wall-clock times as users write and read them: RFC 3339. Nanoseconds since 1970. */
#ifndef BW_CLI_OPTIONS_WALL_TIME_H
#define BW_CLI_OPTIONS_WALL_TIME_H

#include "core/base/types.h"

#include <stdbool.h>

#define BW_WALL_TEXT 40u

bw_time bw_wall_now(void);
/* Writes "2026-11-16T10:14:02.118Z" and returns `out`. */
const char *bw_wall_text(char out[BW_WALL_TEXT], bw_time at);
/* Parses "2026-11-16T10:14:02.118Z", with up to 9 digits of a second's fraction, and with an offset
 * such as +01:00 instead of Z. Returns false if the text has another form. */
bool bw_wall_read(const char *text, bw_time *out);
/* Parses --since: such a time, or a duration ("1h30m") before `now`. */
bool bw_wall_since(const char *text, bw_time now, bw_time *out);

#endif
