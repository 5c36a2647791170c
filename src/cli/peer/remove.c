/* `bellwether peer remove`: removes a dead member from the cluster. With Raft this also removes its
 * vote, so that the remaining voters need not count it. The leader carries it out as a membership
 * change, which needs a majority. */
#include "cli/commands.h"
#include "cli/election/record_print.h"
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
     .help = "maximum time to wait until the peer is removed (default: 30s)",
     .set = bw_set_duration,
     .offset = offsetof(struct removal, wait_ns)},
    {.name = "force",
     .help = "remove the peer even if it is alive (default: off)",
     .set = bw_set_switch,
     .offset = offsetof(struct removal, force)},
    {.name = NULL}};

static int refused(const struct bw_cli_command *command, int error)
{
    switch (error) {
    case BW_EBUSY:
        return bw_peer_client_report(
            command, BW_EXIT_FAILED,
            "cannot remove the peer: it is alive; stop it with --leave, or use --force");
    case BW_EINVAL:
        return bw_peer_client_report(
            command, BW_EXIT_FAILED,
            "cannot remove the peer: it leads; transfer leadership first, or stop it with --leave");
    case BW_EUNSUPPORTED:
        return bw_peer_client_report(command, BW_EXIT_FAILED,
                                     "cannot remove the peer: it is a founder under --quorum, "
                                     "whose promise counts permanently");
    case BW_ENOTMEMBER:
        return bw_peer_client_report(command, BW_PEER_EXIT_NONE,
                                     "no such peer; `bellwether peer members` lists the peers");
    case BW_ENOQUORUM:
        return bw_peer_client_report(command, BW_PEER_EXIT_UNANSWERED,
                                     "cannot remove the peer: no majority of the remaining voters "
                                     "is alive; restart one of them first");
    case BW_ETIMEDOUT:
        return bw_peer_client_report(command, BW_PEER_EXIT_UNANSWERED,
                                     "no response from the leader");
    default:
        return bw_peer_client_report(command, BW_PEER_EXIT_UNANSWERED, bw_error_text(error));
    }
}

static bool gone(const struct bw_peer_answer *members, bw_node id, uint32_t *voters)
{
    bool counts = false;
    *voters = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct bw_peer_member_view *seen = &members->seen[i];
        *voters += seen->voter;
        counts = counts || (seen->row.id == id && (seen->voter || !seen->row.left));
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
        printf("%s is removed; %u voters remain\n", bw_shown(name), (unsigned)voters);
    else
        printf("%s is removed\n", bw_shown(name));
}

/* Waits until the responding peer no longer lists the member. */
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

/* Also finds a member that has left, or whose removal has begun and waits for a majority. */
static const struct bw_peer_row *find(const struct bw_peer_answer *members, const char *name)
{
    const struct bw_peer_row *row = bw_peer_client_named(members, name);
    for (uint32_t i = 0; !row && i < members->count; i++) {
        const struct bw_peer_member_view *seen = &members->seen[i];
        char number[16];
        snprintf(number, sizeof number, "%u", (unsigned)seen->row.id);
        if (strcmp(seen->row.name, name) == 0 || strcmp(number, name) == 0)
            row = &seen->row;
    }
    return row;
}

static int remove_peer(const struct bw_cli_command *command, struct bw_peer_client *client,
                       const struct removal *removal, const char *name,
                       struct bw_peer_answer *members)
{
    struct bw_peer_leader leader;
    int code = bw_peer_client_leader(client, members, &leader);
    if (code)
        return code;
    const struct bw_peer_row *row = find(members, name);
    if (!row)
        return refused(command, BW_ENOTMEMBER);
    if (!leader.row)
        return bw_peer_client_report(
            command, BW_PEER_EXIT_UNANSWERED,
            "cannot remove the peer: no leader, because no majority of the voters is reachable");
    int error = bw_peer_client_order(
        client, &leader.at, removal->force ? BW_PEER_REMOVE_FORCED : BW_PEER_REMOVE, row->id);
    if (error)
        return refused(command, error);
    code = await(client, removal, row);
    return code == BW_PEER_EXIT_LATE
               ? bw_peer_client_report(
                     command, code,
                     "the leader was asked, but the peer's vote counts until a majority has agreed")
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
        code = bw_usage_error(command, "missing peer id; usage: bellwether peer remove ID");
    else
        code = remove_peer(command, client, &removal, parsed.operands[0], &members);
    free(members.seen);
    bw_peer_client_close(client);
    return code;
}

const struct bw_cli_command bw_command_peer_remove = {
    .name = "remove",
    .path = "bellwether peer remove",
    .usage = "ID --join ADDR,... [options]",
    .about = "remove a dead peer and its vote from the cluster",
    .text =
        "ID is a peer's name or number. With raft the leader changes the voters, which needs a\n"
        "majority. The leader refuses to remove a peer that still runs: stop that peer with "
        "--leave,\n"
        "or use --force, which makes the peer exit with 64. A removed peer can join again.\n"
        "\n"
        "Exit code: 0 removed; 1 refused: the peer is alive, leads, or is a founder under "
        "--quorum;\n"
        "64 invalid usage; 66 no such peer; 69 no peer responded, there is no leader, or no "
        "majority\n"
        "of the remaining voters is alive; 75 not done in time.\n",
    .options = options,
    .operand = bw_any_word,
    .run = run,
};
