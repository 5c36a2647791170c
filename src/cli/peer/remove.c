/* `bellwether peer remove`: a member that is gone for good is taken out of the cluster; with Raft
 * its vote goes, so that those who stay need not count on it. The leader is asked, and does it by a
 * membership change, which a majority must agree to. */
#include "cli/commands.h"
#include "cli/look/record_print.h"
#include "cli/peer/client.h"
#include "core/base/error.h"
#include "peer/node.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_NS (50 * BW_MS)

struct removal {
    struct bw_peer_look look; /* first */
    bw_time wait_ns;
    bool force;
};

static const struct bw_option options[] = {
    BW_PEER_LOOK_ROWS,
    {.name = "wait",
     .form = "D",
     .help = "how long it may take until nobody counts on it (default 30s)",
     .set = bw_set_duration,
     .offset = offsetof(struct removal, wait_ns)},
    {.name = "force",
     .help = "although the leader hears it",
     .set = bw_set_switch,
     .offset = offsetof(struct removal, force)},
    {.name = NULL}};

static int refused(const struct bw_cli_command *command, int error)
{
    switch (error) {
    case BW_EBUSY:
        return bw_peer_client_say(command, BW_EXIT_FAILED,
                                  "it is alive: end it with --leave, or insist with --force");
    case BW_EINVAL:
        return bw_peer_client_say(command, BW_EXIT_FAILED,
                                  "it leads: transfer the lead first, or end it with --leave");
    case BW_EUNSUPPORTED:
        return bw_peer_client_say(command, BW_EXIT_FAILED,
                                  "it is a founder under --quorum, whose promise counts for good");
    case BW_ENOTMEMBER:
        return bw_peer_client_say(command, BW_PEER_EXIT_NONE, "there is no such peer");
    case BW_ENOQUORUM:
        return bw_peer_client_say(
            command, BW_PEER_EXIT_UNANSWERED,
            "no majority of those who would stay is alive: bring one of them back first");
    case BW_ETIMEDOUT:
        return bw_peer_client_say(command, BW_PEER_EXIT_UNANSWERED, "the leader does not answer");
    default:
        return bw_peer_client_say(command, BW_PEER_EXIT_UNANSWERED, bw_error_text(error));
    }
}

static bool gone(const struct bw_peer_answer *members, bw_node who, uint32_t *voters)
{
    bool counts = false;
    *voters = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct bw_peer_seen *seen = &members->seen[i];
        *voters += seen->voter;
        counts = counts || (seen->row.id == who && (seen->voter || !seen->row.left));
    }
    return !counts;
}

static void print(const struct removal *removal, const struct bw_peer_row *row, uint32_t voters)
{
    char name[BW_PEER_NAME_MAX + 1];
    bw_peer_client_name(row, name);
    if (removal->look.json)
        bw_json_line(json_pack("{sI so sI}", "removed", (json_int_t)row->id, "name",
                               bw_json_text(name), "voters", (json_int_t)voters));
    else if (voters)
        printf("%s is taken out; %u vote\n", bw_shown(name), (unsigned)voters);
    else
        printf("%s is taken out\n", bw_shown(name));
}

/* Until whoever answers no longer counts on it. */
static int await(struct bw_peer_client *client, const struct removal *removal,
                 const struct bw_peer_row *row)
{
    struct timespec pause = {.tv_nsec = LOOK_NS};
    for (bw_time waited = 0; waited <= removal->wait_ns; waited += LOOK_NS) {
        struct bw_peer_answer now = {.seen = NULL};
        uint32_t voters = 0;
        int code = bw_peer_client_members(client, &now);
        if (code)
            return code;
        bool done = gone(&now, row->id, &voters);
        free(now.seen);
        if (done) {
            print(removal, row, voters);
            return BW_EXIT_OK;
        }
        nanosleep(&pause, NULL);
    }
    return BW_PEER_EXIT_LATE;
}

/* Also one that has left, or whose removal was begun and still waits for a majority. */
static const struct bw_peer_row *find(const struct bw_peer_answer *members, const char *name)
{
    const struct bw_peer_row *row = bw_peer_client_named(members, name);
    for (uint32_t i = 0; !row && i < members->count; i++) {
        const struct bw_peer_seen *seen = &members->seen[i];
        char number[16];
        snprintf(number, sizeof number, "%u", (unsigned)seen->row.id);
        if (strcmp(seen->row.name, name) == 0 || strcmp(number, name) == 0)
            row = &seen->row;
    }
    return row;
}

static int take_out(const struct bw_cli_command *command, struct bw_peer_client *client,
                    const struct removal *removal, const char *name, struct bw_peer_answer *members)
{
    struct bw_peer_leader leader;
    int code = bw_peer_client_leader(client, members, &leader);
    if (code)
        return code;
    const struct bw_peer_row *row = find(members, name);
    if (!row)
        return refused(command, BW_ENOTMEMBER);
    if (!leader.row)
        return bw_peer_client_say(
            command, BW_PEER_EXIT_UNANSWERED,
            "nobody leads: without a majority of the voters nobody can be taken out");
    int error = bw_peer_client_order(
        client, &leader.at, removal->force ? BW_PEER_REMOVE_LIVING : BW_PEER_REMOVE, row->id);
    if (error)
        return refused(command, error);
    code = await(client, removal, row);
    return code == BW_PEER_EXIT_LATE
               ? bw_peer_client_say(
                     command, code,
                     "the leader was asked; its vote counts until a majority has agreed")
               : code;
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct removal removal = {.wait_ns = 30 * BW_SEC};
    struct bw_parsed parsed;
    struct bw_peer_client *client = NULL;
    struct bw_peer_answer members = {.seen = NULL};
    int code = bw_peer_client_open(&client, command, argc, argv, &removal.look, &parsed);
    if (code != BW_GO_ON)
        return code;
    if (parsed.operands_count != 1)
        code = bw_usage_error(command, "whom? Write bellwether peer remove WHO");
    else
        code = take_out(command, client, &removal, parsed.operands[0], &members);
    free(members.seen);
    bw_peer_client_close(client);
    return code;
}

const struct bw_cli_command bw_command_peer_remove = {
    .name = "remove",
    .path = "bellwether peer remove",
    .usage = "WHO --join ADDR,... [options]",
    .about = "take a peer that is gone for good out of the cluster, and its vote with it",
    .text = "WHO is a peer's name or number. The leader is asked; with Raft it changes the voters, "
            "to\nwhich a majority must agree. A peer that still runs is refused: end it with "
            "--leave, or\ninsist with --force; it then ends with 64. Who was taken out may come "
            "back by joining.\n\n"
            "Exit: 0 nobody counts on it any more; 1 refused: it is alive, it leads, or it is a "
            "founder\nunder --quorum; 64 wrong usage; 66 there is no such peer; 69 nobody "
            "answered, nobody\nleads, or no majority of those who would stay is alive; 75 not done "
            "in time.\n",
    .options = options,
    .operand = bw_any_word,
    .run = run,
};
