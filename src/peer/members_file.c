/* Reads the list of members; see members_file.h. */
#include "peer/members_file.h"

#include "core/base/error.h"
#include "core/base/parse_values.h"
#include "peer/address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 512

static bool read_word(const char *word, struct bw_peer_row *row)
{
    uint64_t number;
    if (strcmp(word, "ordinary") == 0) {
        row->ordinary = true;
        return true;
    }
    if (strncmp(word, "priority=", 9) != 0 ||
        bw_text_number(word + 9, strlen(word + 9), UINT32_MAX, &number) != 0)
        return false;
    row->priority = (uint32_t)number;
    return true;
}

/* Returns 1 for an empty line. */
static int read_line(char *line, struct bw_peer_row *row)
{
    struct sockaddr_storage address;
    uint64_t id;
    char *rest = NULL;
    char *word = strtok_r(line, " \t\r\n", &rest);
    memset(row, 0, sizeof *row);
    if (!word || word[0] == '#')
        return 1;
    if (bw_text_number(word, strlen(word), UINT32_MAX, &id) != 0 || id == 0)
        return BW_EINVAL;
    row->id = (bw_node)id;
    word = strtok_r(NULL, " \t\r\n", &rest);
    if (!word || bw_peer_address_find(word, &address) != 0)
        return BW_EINVAL;
    bw_peer_address_from(&row->address, (struct sockaddr *)&address);
    snprintf(row->name, sizeof row->name, "%u", row->id);
    while ((word = strtok_r(NULL, " \t\r\n", &rest)))
        if (!read_word(word, row))
            return BW_EINVAL;
    return 0;
}

static int take_line(char *line, unsigned number, const char *file, struct bw_peer_roster *roster,
                     char why[BW_PEER_MEMBERS_FILE_WHY + 1])
{
    struct bw_peer_row row;
    int error = read_line(line, &row);
    if (error == 1)
        return 0;
    const char *what = "expected \"ID HOST:PORT [priority=N] [ordinary]\"";
    if (!error && bw_peer_roster_take(roster, &row, true) != BW_PEER_ROSTER_CAME) {
        bool known = bw_peer_roster_find(roster, row.id) != NULL;
        what = known ? "duplicate member id" : "too many members";
        error = known ? BW_EINVAL : BW_ELIMIT;
    }
    if (error)
        snprintf(why, BW_PEER_MEMBERS_FILE_WHY + 1, "members file %.120s, line %u: %s", file,
                 number, what);
    return error;
}

int bw_peer_members_read(const char *file, struct bw_peer_roster *roster,
                         char why[BW_PEER_MEMBERS_FILE_WHY + 1])
{
    char line[LINE_MAX_BYTES];
    int error = 0;
    unsigned number = 0;
    FILE *in = fopen(file, "re");
    if (!in) {
        snprintf(why, BW_PEER_MEMBERS_FILE_WHY + 1, "cannot read members file %.120s: %s", file,
                 strerror(errno));
        return BW_EIO;
    }
    while (!error && fgets(line, sizeof line, in))
        error = take_line(line, ++number, file, roster, why);
    fclose(in);
    return error;
}
