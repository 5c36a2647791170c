/* Paths and node names in ZooKeeper; see names.h. */
#include "store/zookeeper/names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE     ".bellwether"
#define RESERVED "zookeeper" /* reserved by the server, at the root */
#define DIGITS   10u         /* digits of the sequence number that the server appends */

/* Returns the length of the UTF-8 sequence at `at` if ZooKeeper accepts its character, otherwise 0.
 * ZooKeeper rejects control characters, surrogates, private characters (up to U+F8FF) and U+FFF0 to
 * U+FFFF. It also rejects everything beyond U+FFFF, because Java encodes it in surrogates. */
static size_t allowed_length(const unsigned char *at)
{
    unsigned long code;
    size_t length;
    if (at[0] < 0x80)
        return at[0] >= 0x20 && at[0] != 0x7f;
    if (at[0] >= 0xc2 && at[0] <= 0xdf && (at[1] & 0xc0) == 0x80) {
        code = (at[0] & 0x1fu) << 6 | (at[1] & 0x3fu);
        length = 2;
    } else if ((at[0] & 0xf0) == 0xe0 && (at[1] & 0xc0) == 0x80 && (at[2] & 0xc0) == 0x80) {
        code = (at[0] & 0x0fu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
        length = 3;
        if (code < 0x800)
            return 0;
    } else {
        return 0;
    }
    bool refused = code <= 0x9f || (code >= 0xd800 && code <= 0xf8ff) || code >= 0xfff0;
    return refused ? 0 : length;
}

/* Writes `text` with '%', '/' and rejected characters as %XX; with `first` also its first
 * character. */
static void escape(char *out, size_t size, const char *text, bool first)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t used = 0;
    while (*at && used + 4 < size) {
        size_t length = first || *at == '%' || *at == '/' ? 0 : allowed_length(at);
        first = false;
        if (length > 0 && used + length < size) {
            memcpy(out + used, at, length);
            used += length;
            at += length;
        } else {
            used += (size_t)snprintf(out + used, size - used, "%%%02X", *at++);
        }
    }
    out[used] = '\0';
}

void bw_zk_paths_make(struct bw_zk_paths *paths, const char *base, const char *election)
{
    char name[3 * BW_ELECTION_NAME_MAX + 8];
    bool taken = strcmp(election, ".") == 0 || strcmp(election, "..") == 0 ||
                 strcmp(election, SIDE) == 0 || (!*base && strcmp(election, RESERVED) == 0);
    escape(name, sizeof name, election, taken);
    int size = (int)BW_ZK_BASE_MAX;
    snprintf(paths->latch, sizeof paths->latch, "%.*s/%s", size, base, name);
    snprintf(paths->side, sizeof paths->side, "%.*s/" SIDE "/%s", size, base, name);
    snprintf(paths->record, sizeof paths->record, "%.*s/" SIDE "/%s/record", size, base, name);
    snprintf(paths->note, sizeof paths->note, "%.*s/" SIDE "/%s/note", size, base, name);
}

void bw_zk_side_path(char out[BW_ZK_PATH_MAX + 1], const struct bw_zk_paths *paths,
                     const char *prefix, const char *rest)
{
    char name[3 * BW_CANDIDATE_ID_MAX + 8];
    escape(name, sizeof name, rest, false);
    int side = (int)(BW_ZK_BASE_MAX + 3 * BW_ELECTION_NAME_MAX + 16);
    snprintf(out, BW_ZK_PATH_MAX + 1, "%.*s/%s%s", side, paths->side, prefix, name);
}

void bw_zk_side_root(char out[BW_ZK_PATH_MAX + 1], const char *base)
{
    snprintf(out, BW_ZK_PATH_MAX + 1, "%.*s/" SIDE, (int)BW_ZK_BASE_MAX, base);
}

/* The value of two upper-case hexadecimal digits, as escape() writes them; -1: other characters. */
static int escaped_byte(const char *at)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *high = *at ? strchr(digits, *at) : NULL;
    const char *low = high && at[1] ? strchr(digits, at[1]) : NULL;
    return low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

bool bw_zk_election_of(char out[BW_ELECTION_NAME_MAX + 1], const char *base, const char *child)
{
    struct bw_zk_paths paths;
    size_t used = 0;
    for (const char *at = child; *at; used++) {
        int byte = *at == '%' ? escaped_byte(at + 1) : (unsigned char)*at;
        if (byte <= 0 || used == BW_ELECTION_NAME_MAX)
            return false;
        out[used] = (char)byte;
        at += *at == '%' ? 3 : 1;
    }
    out[used] = '\0';
    if (!bw_store_is_election(out))
        return false;
    bw_zk_paths_make(&paths, base, out);
    return strcmp(strrchr(paths.latch, '/') + 1, child) == 0;
}

bool bw_zk_base_check(const char *base, char *why)
{
    for (const unsigned char *at = (const unsigned char *)base; *at;) {
        size_t length = allowed_length(at);
        if (length == 0) {
            bw_store_explain(why, BW_EINVAL,
                             "invalid path: it contains a character that ZooKeeper rejects");
            return false;
        }
        at += length;
    }
    bool dots = strstr(base, "/./") || strstr(base, "/../") || strstr(base, "//");
    size_t end = strlen(base);
    dots = dots || (end >= 2 && strcmp(base + end - 2, "/.") == 0) ||
           (end >= 3 && strcmp(base + end - 3, "/..") == 0);
    if (dots)
        bw_store_explain(why, BW_EINVAL, "invalid path: it contains an empty part, '.' or '..'");
    return !dots;
}

void bw_zk_guid_make(char out[BW_ZK_GUID_MAX + 1], const unsigned char random[16])
{
    unsigned char bytes[16];
    memcpy(bytes, random, sizeof bytes);
    bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x80); /* version 8 */
    bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80); /* variant of RFC 9562 */
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

void bw_zk_node_prefix(char out[BW_ZK_NODE_MAX + 1], enum bw_zk_recipe recipe, const char *guid)
{
    if (recipe == BW_ZK_KAZOO)
        snprintf(out, BW_ZK_NODE_MAX + 1, "%.32s__lock__", guid);
    else
        snprintf(out, BW_ZK_NODE_MAX + 1, "_c_%.8s-%.4s-%.4s-%.4s-%.12s-latch-", guid, guid + 8,
                 guid + 12, guid + 16, guid + 20);
}

/* Reads the GUID at `text`, with or without hyphens; "" if there is none. */
static void read_guid(char out[BW_ZK_GUID_MAX + 1], const char *text, bool hyphens)
{
    size_t used = 0;
    for (; used < BW_ZK_GUID_MAX && isxdigit((unsigned char)*text); text++) {
        out[used++] = *text;
        bool pause = used == 8 || used == 12 || used == 16 || used == 20;
        if (hyphens && pause && text[1] == '-')
            text++;
    }
    out[used == BW_ZK_GUID_MAX ? used : 0] = '\0';
}

/* Start of the ten-digit number at the end of a name ("0000000012", "-2147483648"); NULL: no
 * number. */
static const char *number_at(const char *name)
{
    size_t length = strlen(name), digits = 0;
    while (digits < length && isdigit((unsigned char)name[length - 1 - digits]))
        digits++;
    if (digits < DIGITS)
        return NULL;
    return name + length - DIGITS;
}

static bool has_mark(const char *name, size_t length, const char *mark)
{
    size_t marked = strlen(mark);
    return length >= marked && strncmp(name + length - marked, mark, marked) == 0;
}

bool bw_zk_node_parse(struct bw_zk_node *node, enum bw_zk_recipe recipe, const char *name)
{
    const char *mark = recipe == BW_ZK_KAZOO ? "__lock__" : "latch-";
    const char *number = strlen(name) <= BW_ZK_NODE_MAX ? number_at(name) : NULL;
    size_t before = number ? (size_t)(number - name) : 0;
    bool plain = number && has_mark(name, before, mark);
    bool minus =
        number && !plain && before && number[-1] == '-' && has_mark(name, before - 1, mark);
    if (!plain && !minus)
        return false;
    *node = (struct bw_zk_node){.sequence = strtoll(number, NULL, 10)};
    if (minus)
        node->sequence = -node->sequence;
    memcpy(node->name, name, strlen(name) + 1);
    if (recipe == BW_ZK_KAZOO)
        read_guid(node->guid, name, false);
    else if (strncmp(name, "_c_", 3) == 0)
        read_guid(node->guid, name + 3, true);
    node->ours = node->guid[0] && node->guid[12] == '8';
    return true;
}

int bw_zk_node_compare(const struct bw_zk_node *a, const struct bw_zk_node *b)
{
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}
