/* `bellwether peer resign` and `transfer`: ask the leader to hand over, and wait until another
 * leads. Nobody is removed from outside: the leader ends its work, says so, and then steps down. */
#include "cli/commands.h"
#include "cli/look/record_print.h"
#include "cli/peer/client.h"
#include "core/base/error.h"
#include "peer/node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS (50 * BW_MS)
/* Elections may pass through another leader: one that stays for so long is the outcome. */
#define SETTLE_NS BW_SEC

struct order {
    struct bw_peer_look look; /* first */
    bw_time wait_ns;
};

#define WAIT_ROW                                                                                   \
    {                                                                                              \
        .name = "wait", .form = "D", .help = "how long the work may take to end (default 30s)",    \
        .set = bw_set_duration, .offset = offsetof(struct order, wait_ns)                          \
    }

static const struct bw_option options[] = {
    BW_PEER_LOOK_ROWS, BW_PEER_SHARD_ROW, WAIT_ROW, {.name = NULL}};

static void print(const struct order *order, const struct bw_peer_answer *members,
                  const struct bw_peer_standing *standing)
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

/* What one command waits for. */
struct handing {
    struct bw_peer_leader leader; /* who was asked */
    bw_term term;                 /* of the newest leadership before that */
    bw_node to;                   /* who is to lead; NONE: anybody else */
    bool deaf;                    /* the leader does not know OUTCOME */
    bw_node instead;              /* leads although another was named; NONE: nobody */
    bw_time instead_for;          /* for so long */
};

static int refused(const struct bw_cli_command *command, int error)
{
    switch (error) {
    case BW_EDENIED:
        return bw_peer_client_say(command, BW_EXIT_FAILED,
                                  "the leader refuses: its algorithm hands over to the next in "
                                  "rank alone");
    case BW_EUNSUPPORTED:
        return bw_peer_client_say(command, BW_EXIT_FAILED,
                                  "the leader refuses: it suspects that peer; start it first");
    case BW_EBUSY:
        return bw_peer_client_say(
            command, BW_PEER_EXIT_LATE,
            "the leader refuses: that peer has no vote yet, or has not joined "
            "the leader's group yet");
    case BW_ENOTMEMBER:
        return bw_peer_client_say(command, BW_PEER_EXIT_NONE, "there is no such peer");
    case BW_ETIMEDOUT:
        return bw_peer_client_say(command, BW_PEER_EXIT_UNANSWERED, "the leader does not answer");
    default:
        return bw_peer_client_say(command, BW_PEER_EXIT_UNANSWERED, bw_error_text(error));
    }
}

/* The leader that was asked still leads: has it given up the transfer? 0: it has not. */
static int outcome(const struct bw_cli_command *command, struct bw_peer_client *client,
                   struct handing *h)
{
    if (h->to == BW_NODE_NONE || h->deaf)
        return 0;
    switch (bw_peer_client_order(client, &h->leader.at, BW_PEER_OUTCOME, h->to)) {
    case BW_EDENIED:
        return bw_peer_client_say(command, BW_PEER_EXIT_LATE,
                                  "that peer is not ready to lead; the leader works on");
    case BW_ENOQUORUM:
        return bw_peer_client_say(command, BW_PEER_EXIT_LATE,
                                  "that peer did not take the lead; the leader works again");
    case BW_EBUSY:
        return bw_peer_client_say(command, BW_PEER_EXIT_LATE,
                                  "that peer does not say that it is ready; the leader works on");
    case BW_ETIMEDOUT:
        h->deaf = true; /* or it has gone: others say who leads */
        return 0;
    default: /* 0, or it leads no more */
        return 0;
    }
}

/* True: somebody else leads, and has for a while, under a newer term than before. */
static bool missed(struct handing *h, const struct bw_peer_standing *now)
{
    bool other = h->to != BW_NODE_NONE && now->leader != BW_NODE_NONE && now->leader != h->to &&
                 now->leader != h->leader.row->id && now->term > h->term;
    h->instead_for = other && now->leader == h->instead ? h->instead_for + LOOK_NS : 0;
    h->instead = other ? now->leader : BW_NODE_NONE;
    return h->instead_for >= SETTLE_NS;
}

/* Until the peer that was named leads, or anybody else than before if none was. */
static int await(const struct bw_cli_command *command, struct bw_peer_client *client,
                 const struct order *order, const struct bw_peer_answer *members, struct handing *h)
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
        if (missed(h, &now.standing))
            return bw_peer_client_say(command, BW_PEER_EXIT_LATE, "another peer leads instead");
        code = leader == before ? outcome(command, client, h) : 0;
        if (code)
            return code;
        nanosleep(&pause, NULL);
    }
    return bw_peer_client_say(command, BW_PEER_EXIT_LATE,
                              "the leader was asked; nobody has followed it in time");
}

/* Who leads, and that it is asked. A leader that has just lost the lead, or a peer that cannot take
 * over yet, is no outcome: asked again until --wait is over. 0: the leader was asked. */
static int ask(const struct bw_cli_command *command, struct bw_peer_client *client,
               const struct order *order, const char *name, struct bw_peer_answer *members,
               struct handing *h)
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
        if (!h->leader.row)
            return bw_peer_client_say(command, BW_PEER_EXIT_UNANSWERED, "nobody leads");
        if (h->to == h->leader.row->id)
            return BW_EXIT_OK;
        int error = bw_peer_client_order(client, &h->leader.at, kind, h->to);
        bool again = error == BW_ENOTLEADER || error == BW_EBUSY;
        if (!again || waited >= order->wait_ns)
            return error ? refused(command, error) : BW_EXIT_OK;
        nanosleep(&pause, NULL);
    }
}

static int hand_over(const struct bw_cli_command *command, struct bw_peer_client *client,
                     const struct order *order, const char *name, struct bw_peer_answer *members)
{
    struct handing h = {.to = BW_NODE_NONE};
    int code = ask(command, client, order, name, members, &h);
    if (code)
        return code;
    if (h.to == h.leader.row->id)
        return bw_peer_client_say(command, BW_EXIT_OK, "it leads already");
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
    if (named && parsed.operands_count != 1)
        code = bw_usage_error(command, "to whom? Write bellwether peer transfer TO");
    else
        code = hand_over(command, client, &order, named ? parsed.operands[0] : NULL, &members);
    free(members.seen);
    bw_peer_client_close(client);
    return code;
}

#define EXITS                                                                                      \
    "Exit: 0 another leads; 1 the leader refuses; 64 wrong usage; 66 there is no such peer; 69 "   \
    "nobody\nanswered, or nobody leads; 75 the peer asked for has not followed.\n"

const struct bw_cli_command bw_command_peer_resign = {
    .name = "resign",
    .path = "bellwether peer resign",
    .usage = "--join ADDR,... [options]",
    .about = "ask the leader to step down, and wait until another leads",
    .text = "The leader ends its work first; nothing is taken from it.\n\n" EXITS,
    .options = options,
    .run = run,
};

const struct bw_cli_command bw_command_peer_transfer = {
    .name = "transfer",
    .path = "bellwether peer transfer",
    .usage = "TO --join ADDR,... [options]",
    .about = "ask the leader to hand over to peer TO, and wait until that one leads",
    .text =
        "TO is a peer's name or number. The leader ends its work first. Algorithms that rank\n"
        "(bully and its kin, lowest-id) hand over to the next in rank alone and refuse others.\n"
        "A refusal, or a peer that is not ready, ends the command at once.\n\n" EXITS,
    .options = options,
    .operand = bw_any_word,
    .run = run,
};
