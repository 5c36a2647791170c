/* The prefix of an election's own keys; see election_keys.h. */
#include "net/election_keys.h"

#include <stdio.h>
#include <string.h>

size_t bw_election_keys(char *out, const char *path, size_t length)
{
    char *at = out + sprintf(out, BW_ELECTION_KEYS);
    for (size_t i = 0; i < length; i++)
        if (path[i] == '/' || path[i] == '%')
            at += sprintf(at, "%%%02X", (unsigned char)path[i]);
        else
            *at++ = path[i];
    memcpy(at, "/", 2);
    return (size_t)(at + 1 - out);
}
