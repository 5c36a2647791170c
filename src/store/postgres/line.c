/* What PostgreSQL and libpq say, as one line for people. */
#include "store/postgres/state.h"

#include <string.h>

#define LINE_MAX_BYTES 190u /* leaves room for who said it */

/* Length of the UTF-8 sequence at `at` that a terminal may see, 0 if there is none. */
static size_t printable(const unsigned char *at)
{
    size_t length = at[0] < 0x80 ? 1 : at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] > 0xf4 || (at[0] >= 0x80 && at[0] < 0xc2) || at[0] == 0x7f)
        return 0;
    if (at[0] == 0xc2 && at[1] < 0xa0) /* more control signs */
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

/* The server may say anything, or be none: what is shown is one line of text. */
void bw_pg_line(char *out, const char *message)
{
    size_t used = 0;
    bool space = false;
    const char *hint = strstr(message, "\n\t"); /* "Is the server running ...?" */
    const char *end = hint ? hint : message + strlen(message);
    while (message < end && used < LINE_MAX_BYTES) {
        size_t length = printable((const unsigned char *)message);
        bool blank = length == 1 && (unsigned char)*message <= ' ';
        if (!blank && space && used)
            out[used++] = ' ';
        if (length == 0)
            out[used++] = '?';
        else if (!blank) {
            memcpy(out + used, message, length);
            used += length;
        }
        space = blank;
        message += length ? length : 1;
    }
    out[used] = '\0';
}

void bw_pg_error_line(char *out, const PGresult *result)
{
    const char *message = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    if (!message)
        message = result ? PQresultErrorMessage(result) : "no answer";
    bw_pg_line(out, message);
}
