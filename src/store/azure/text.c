/* Text formats of Azure's REST API; see text.h. */
#include "store/azure/text.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

size_t bw_azure_unbase64(const char *text, unsigned char *out, size_t size)
{
    unsigned char bytes[256];
    size_t length = strlen(text);
    if (length == 0 || length % 4 || length / 4 * 3 > sizeof bytes)
        return 0;
    int got = EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)length);
    if (got <= 0)
        return 0;
    size_t count = (size_t)got - (text[length - 1] == '=') - (text[length - 2] == '=');
    if (count > size)
        return 0;
    memcpy(out, bytes, count);
    return count;
}

void bw_azure_blob_name(const char *election, char *out)
{
    size_t used = 0;
    for (; *election; election++) {
        bool last = !election[1];
        const char *instead = *election == '%'           ? "%25"
                              : *election == '\\'        ? "%5C"
                              : *election == '.' && last ? "%2E"
                                                         : NULL;
        if (instead)
            used += (size_t)snprintf(out + used, 4, "%s", instead);
        else
            out[used++] = *election;
    }
    out[used] = '\0';
}

bool bw_azure_election_of(const char *name, char out[BW_ELECTION_NAME_MAX + 1])
{
    static const struct {
        const char *code;
        char character;
    } codes[] = {{"%25", '%'}, {"%5C", '\\'}, {"%2E", '.'}};
    char again[AZURE_NAME_MAX + 1];
    size_t used = 0;
    for (const char *at = name; *at; at++) {
        if (used == BW_ELECTION_NAME_MAX)
            return false;
        out[used] = *at;
        for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
            if (strncmp(at, codes[i].code, 3) == 0) {
                out[used] = codes[i].character;
                at += 2;
                break;
            }
        used++;
    }
    out[used] = '\0';
    bw_azure_blob_name(out, again);
    return used > 0 && strcmp(again, name) == 0;
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~", c));
}

bool bw_azure_path(const char *name, char *out, size_t size)
{
    size_t used = 0;
    for (; *name; name++) {
        if (used + 4 > size)
            return false;
        if (is_plain(*name) || *name == '/')
            out[used++] = *name;
        else
            used += (size_t)snprintf(out + used, 4, "%%%02X", (unsigned char)*name);
    }
    out[used] = '\0';
    return true;
}

size_t bw_azure_pack(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (; *text; text++) {
        if (used + 4 > size)
            return 0;
        if (*text > 0x20 && *text < 0x7f && *text != '%')
            out[used++] = *text;
        else
            used += (size_t)snprintf(out + used, 4, "%%%02X", (unsigned char)*text);
    }
    out[used] = '\0';
    return used;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

size_t bw_azure_unpack(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (; *text; text++) {
        char c = *text;
        if (used + 1 >= size)
            return 0;
        if (c == '%') {
            int high = digit(text[1]), low = high < 0 ? -1 : digit(text[2]);
            if (low < 0 || (high == 0 && low == 0))
                return 0;
            c = (char)(high << 4 | low);
            text += 2;
        }
        out[used++] = c;
    }
    out[used] = '\0';
    return used;
}

/* In English, whatever the locale. */
void bw_azure_date(time_t now, char *out)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm tm = {.tm_mday = 1};
    gmtime_r(&now, &tm);
    snprintf(out, AZURE_DATE_MAX, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
             days + (ptrdiff_t)3 * tm.tm_wday, tm.tm_mday % 100, months + (ptrdiff_t)3 * tm.tm_mon,
             (tm.tm_year + 1900) % 10000, tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100);
}

void bw_azure_lease_id(const unsigned char nonce[16], uint64_t request, char *out)
{
    unsigned char input[24], h[SHA256_DIGEST_LENGTH];
    memcpy(input, nonce, 16);
    memcpy(input + 16, &request, sizeof request);
    SHA256(input, sizeof input, h);
    h[6] = (unsigned char)((h[6] & 0x0f) | 0x40); /* the form of a random UUID */
    h[8] = (unsigned char)((h[8] & 0x3f) | 0x80);
    snprintf(out, AZURE_LEASE_ID_MAX + 1,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", h[0], h[1],
             h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10], h[11], h[12], h[13], h[14],
             h[15]);
}
