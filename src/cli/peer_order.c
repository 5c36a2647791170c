/* `bellwether peer resign` and `transfer`: ask the leader to hand over, and wait until another
 * leads. Nobody is removed from outside: the leader ends its work, says so, and then steps down. */
#include "base/error.h"
#include "cli/commands.h"
#include "cli/peer_client.h"
#include "cli/record_print.h"
#include "peer/node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS (50 * BW_MS)

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

/* Until somebody leads whom we asked for: `to`, or anybody else than before. */
static int await(struct bw_peer_client *client, const struct order *order,
                 const struct bw_peer_answer *members, bw_node before, bw_node to)
{
    struct timespec pause = {.tv_nsec = LOOK_NS};
    for (bw_time waited = 0; waited <= order->wait_ns; waited += LOOK_NS) {
        struct bw_peer_answer now;
        int code = bw_peer_client_standing(client, &now);
        if (code)
            return code;
        bw_node leader = now.standing.leader;
        if (leader && leader != before && (!to || leader == to)) {
            print(order, members, &now.standing);
            return BW_EXIT_OK;
        }
        nanosleep(&pause, NULL);
    }
    return BW_PEER_EXIT_LATE;
}

static int hand_over(const struct bw_cli_command *command, struct bw_peer_client *client,
                     const struct order *order, const char *name, struct bw_peer_answer *members)
{
    struct bw_peer_leader leader;
    int code = bw_peer_client_leader(client, members, &leader);
    if (code)
        return code;
    const struct bw_peer_row *named = name ? bw_peer_client_named(members, name) : NULL;
    bw_node to = named ? named->id : BW_NODE_NONE;
    if (name && !to)
        return bw_peer_client_say(command, BW_PEER_EXIT_NONE, "there is no such peer");
    if (!leader.row)
        return bw_peer_client_say(command, BW_PEER_EXIT_UNANSWERED, "nobody leads");
    if (to == leader.row->id)
        return bw_peer_client_say(command, BW_EXIT_OK, "it leads already");
    int error =
        bw_peer_client_order(client, &leader.at, name ? BW_PEER_TRANSFER : BW_PEER_RESIGN, to);
    if (error == BW_ETIMEDOUT)
        return bw_peer_client_say(command, BW_PEER_EXIT_UNANSWERED, "the leader does not answer");
    if (error)
        return bw_peer_client_say(command, BW_PEER_EXIT_UNANSWERED, bw_error_text(error));
    code = await(client, order, members, leader.row->id, to);
    return code == BW_PEER_EXIT_LATE
               ? bw_peer_client_say(command, code,
                                    "the leader was asked; nobody has followed it in time")
               : code;
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
    "Exit: 0 another leads; 64 wrong usage; 66 there is no such peer; 69 nobody answered, or "     \
    "nobody\nleads; 75 nobody has followed in time.\n"

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
    .text = "TO is a peer's name or number. The leader ends its work first. Algorithms that rank\n"
            "may elect a higher one instead.\n\n" EXITS,
    .options = options,
    .operand = bw_any_word,
    .run = run,
};
