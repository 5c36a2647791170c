/* `bellwether peer resign` and `transfer`: ask the leader to step down and wait until another peer
 * leads. Leadership is not taken away: the leader ends its work, confirms that, and then steps
 * down. */
#include "cli/commands.h"
#include "cli/election/record_print.h"
#include "cli/peer/client.h"
#include "core/base/error.h"
#include "peer/node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS (50 * BW_MS)
/* Leadership may pass through an intermediate leader. A leader that stays this long is final. */
#define SETTLE_NS BW_SEC

struct order {
    struct bw_peer_look look; /* first */
    bw_time wait_ns;
    const char *to;
};

#define WAIT_ROW                                                                                   \
    {                                                                                              \
        .name = "wait", .form = "D",                                                               \
        .help = "maximum time to wait for a leader, and then for the new leader (default: 30s)",   \
        .set = bw_set_duration, .offset = offsetof(struct order, wait_ns)                          \
    }

static const struct bw_option options[] = {
    BW_PEER_LOOK_ROWS, BW_PEER_SHARD_ROW, WAIT_ROW, {.name = NULL}};

static const struct bw_option transfer_options[] = {
    {.name = "to",
     .form = "ID",
     .help = "name or number of the peer that is to lead (required)",
     .set = bw_set_text,
     .offset = offsetof(struct order, to)},
    BW_PEER_LOOK_ROWS,
    BW_PEER_SHARD_ROW,
    WAIT_ROW,
    {.name = NULL}};

static void print(const struct order *order, const struct bw_peer_answer *members,
                  const struct bw_peer_election_view *standing)
{
    const struct bw_peer_row *row = bw_peer_client_row(members, standing->leader);
    char name[BW_PEER_NAME_MAX + 1];
    snprintf(name, sizeof name, "%u", (unsigned)standing->leader);
    if (row)
        bw_peer_client_name(row, name);
    if (order->look.json)
        bw_json_line(json_pack("{sI so sI sI}", "leader", (json_int_t)standing->leader, "name",
                               bw_json_text(name), "term", (json_int_t)standing->term, "token",
                               (json_int_t)standing->token));
    else
        printf("%s leads%s\n", bw_shown(name), bw_with_token(standing->token));
}

/* The result that one command waits for. */
struct transfer_wait {
    struct bw_peer_leader leader; /* the leader that was asked */
    bw_term term;                 /* term of the newest leadership before the request */
    bw_node to;                   /* target; NONE: any peer except the old leader */
    bool no_outcome;              /* the leader does not support OUTCOME */
    bw_node instead;              /* a leader that is not the target; NONE: none */
    bw_time instead_for;          /* time since when it leads */
};

static int refused(const struct bw_cli_command *command, int error)
{
    switch (error) {
    case BW_EDENIED:
        return bw_peer_client_report(
            command, BW_EXIT_FAILED,
            "the leader refused: its algorithm transfers leadership only to the next peer in rank");
    case BW_EUNSUPPORTED:
        return bw_peer_client_report(
            command, BW_EXIT_FAILED,
            "the leader refused: it suspects that peer to be down; start that peer first");
    case BW_EBUSY:
        return bw_peer_client_report(command, BW_PEER_EXIT_LATE,
                                     "the leader refused: that peer is not a voter yet, or has not "
                                     "joined the leader's group yet");
    case BW_ENOTMEMBER:
        return bw_peer_client_report(command, BW_PEER_EXIT_NONE,
                                     "no such peer; `bellwether peer members` lists the peers");
    case BW_ETIMEDOUT:
        return bw_peer_client_report(command, BW_PEER_EXIT_UNANSWERED,
                                     "no response from the leader");
    case BW_ENOTLEADER:
        return bw_peer_client_report(command, BW_PEER_EXIT_UNANSWERED,
                                     "no leader was elected in time (--wait)");
    default:
        return bw_peer_client_report(command, BW_PEER_EXIT_UNANSWERED, bw_error_text(error));
    }
}

/* Asks the leader, which still leads, whether it has given up the transfer. Returns 0 if it has
 * not, else the exit code. */
static int outcome(const struct bw_cli_command *command, struct bw_peer_client *client,
                   struct transfer_wait *h)
{
    if (h->to == BW_NODE_NONE || h->no_outcome)
        return 0;
    switch (bw_peer_client_order(client, &h->leader.at, BW_PEER_OUTCOME, h->to)) {
    case BW_EDENIED:
        return bw_peer_client_report(command, BW_PEER_EXIT_LATE,
                                     "that peer is not ready to lead; the leader continues");
    case BW_ENOQUORUM:
        return bw_peer_client_report(
            command, BW_PEER_EXIT_LATE,
            "that peer did not become the leader; the leader has resumed its work");
    case BW_EBUSY:
        return bw_peer_client_report(
            command, BW_PEER_EXIT_LATE,
            "that peer did not confirm that it is ready; the leader continues");
    case BW_ETIMEDOUT:
        h->no_outcome = true; /* or it is down: then other peers report the leader */
        return 0;
    default: /* 0, or the peer no longer leads */
        return 0;
    }
}

/* Returns whether a peer other than the target has led for SETTLE_NS under a newer term. */
static bool other_leads(struct transfer_wait *h, const struct bw_peer_election_view *now)
{
    bool other = h->to != BW_NODE_NONE && now->leader != BW_NODE_NONE && now->leader != h->to &&
                 now->leader != h->leader.row->id && now->term > h->term;
    h->instead_for = other && now->leader == h->instead ? h->instead_for + LOOK_NS : 0;
    h->instead = other ? now->leader : BW_NODE_NONE;
    return h->instead_for >= SETTLE_NS;
}

/* Waits until the target leads, or, without a target, until any other peer leads. */
static int await(const struct bw_cli_command *command, struct bw_peer_client *client,
                 const struct order *order, const struct bw_peer_answer *members,
                 struct transfer_wait *h)
{
    struct timespec pause = {.tv_nsec = LOOK_NS};
    bw_node before = h->leader.row->id;
    for (bw_time waited = 0; waited <= order->wait_ns; waited += LOOK_NS) {
        struct bw_peer_answer now;
        int code = bw_peer_client_standing(client, &now);
        if (code)
            return code;
        bw_node leader = now.standing.leader;
        if (leader && leader != before && (!h->to || leader == h->to)) {
            print(order, members, &now.standing);
            return BW_EXIT_OK;
        }
        if (other_leads(h, &now.standing))
            return bw_peer_client_report(command, BW_PEER_EXIT_LATE,
                                         "another peer became the leader instead");
        code = leader == before ? outcome(command, client, h) : 0;
        if (code)
            return code;
        nanosleep(&pause, NULL);
    }
    return bw_peer_client_report(
        command, BW_PEER_EXIT_LATE,
        "the leader was asked, but no other peer has become the leader in time (--wait)");
}

/* Sends the request to the leader. Returns 0 if the leader accepted it; BW_ENOTLEADER: there is no
 * leader, or the leader has just lost leadership. */
static int send_order(struct bw_peer_client *client, const struct transfer_wait *h, uint8_t kind)
{
    if (!h->leader.row)
        return BW_ENOTLEADER;
    return h->to == h->leader.row->id ? 0
                                      : bw_peer_client_order(client, &h->leader.at, kind, h->to);
}

/* Finds the leader and sends it the request. Retries until --wait is over if there is no leader, as
 * during an election, or if the target cannot take over yet. Returns 0 if the leader accepted the
 * request, or is the target. */
static int ask(const struct bw_cli_command *command, struct bw_peer_client *client,
               const struct order *order, const char *name, struct bw_peer_answer *members,
               struct transfer_wait *h)
{
    struct timespec pause = {.tv_nsec = LOOK_NS};
    uint8_t kind = name ? BW_PEER_TRANSFER : BW_PEER_RESIGN;
    for (bw_time waited = 0;; waited += LOOK_NS) {
        free(members->seen);
        members->seen = NULL;
        int code = bw_peer_client_leader(client, members, &h->leader);
        if (code)
            return code;
        const struct bw_peer_row *named = name ? bw_peer_client_named(members, name) : NULL;
        h->to = named ? named->id : BW_NODE_NONE;
        h->term = h->leader.term;
        if (name && !h->to)
            return refused(command, BW_ENOTMEMBER);
        int error = send_order(client, h, kind);
        bool again = error == BW_ENOTLEADER || error == BW_EBUSY;
        if (!again || waited >= order->wait_ns)
            return error ? refused(command, error) : BW_EXIT_OK;
        nanosleep(&pause, NULL);
    }
}

static int hand_over(const struct bw_cli_command *command, struct bw_peer_client *client,
                     const struct order *order, const char *name, struct bw_peer_answer *members)
{
    struct transfer_wait h = {.to = BW_NODE_NONE};
    int code = ask(command, client, order, name, members, &h);
    if (code)
        return code;
    if (h.to == h.leader.row->id)
        return bw_peer_client_report(command, BW_EXIT_OK, "that peer already leads");
    return await(command, client, order, members, &h);
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct order order = {.wait_ns = 30 * BW_SEC};
    struct bw_parsed parsed;
    struct bw_peer_client *client = NULL;
    struct bw_peer_answer members = {.seen = NULL};
    int code = bw_peer_client_open(&client, command, argc, argv, &order.look, &parsed);
    if (code != BW_GO_ON)
        return code;
    bool named = command == &bw_command_peer_transfer;
    code = named ? bw_target_of(command, &parsed, "peer", &order.to) : BW_GO_ON;
    if (code == BW_GO_ON)
        code = hand_over(command, client, &order, named ? order.to : NULL, &members);
    free(members.seen);
    bw_peer_client_close(client);
    return code;
}

#define EXITS                                                                                      \
    "Exit code: 0 another peer leads; 1 the leader refused; 64 invalid usage; 66 no such peer;\n"  \
    "69 no peer responded, or no leader was elected within --wait; 75 the target did not become\n" \
    "the leader in time.\n"

const struct bw_cli_command bw_command_peer_resign = {
    .name = "resign",
    .path = "bellwether peer resign",
    .usage = "--join ADDR,... [options]",
    .about = "ask the leader to step down, and wait until another peer leads",
    .text = "The leader ends its work before it steps down.\n"
            "\n" EXITS,
    .options = options,
    .run = run,
};

const struct bw_cli_command bw_command_peer_transfer = {
    .name = "transfer",
    .path = "bellwether peer transfer",
    .usage = "--to ID --join ADDR,... [options]",
    .about = "ask the leader to transfer leadership to peer ID, and wait until that peer leads",
    .text =
        "ID is a peer's name or number. The leader ends its work before it steps down. Algorithms\n"
        "that rank their members (the bully variants, lowest-id) transfer only to the next in "
        "rank.\n"
        "If the leader refuses or the peer is not ready, the command ends at once.\n"
        "`transfer ID` is short for `transfer --to ID`.\n"
        "\n" EXITS,
    .options = transfer_options,
    .operand = bw_any_word,
    .run = run,
};
