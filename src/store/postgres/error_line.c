/* Messages of PostgreSQL and libpq, as one line. */
#include "store/postgres/state.h"

#include <string.h>

#define LINE_MAX_BYTES 190u /* leaves space for the server's name */

/* Length of the printable UTF-8 sequence at `at`; 0 if it is not printable. */
static size_t printable(const unsigned char *at)
{
    size_t length = at[0] < 0x80 ? 1 : at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] > 0xf4 || (at[0] >= 0x80 && at[0] < 0xc2) || at[0] == 0x7f)
        return 0;
    if (at[0] == 0xc2 && at[1] < 0xa0) /* C1 control characters */
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

/* Makes one printable line of any bytes: the peer may send anything. */
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
        message = result ? PQresultErrorMessage(result) : "no reply";
    bw_pg_line(out, message);
}
