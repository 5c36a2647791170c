/* `bellwether peer members`: lists the members that one peer sees, and since when. */
#include "cli/commands.h"
#include "cli/election/record_print.h"
#include "cli/peer/client.h"
#include "core/base/parse_values.h"

#include <arpa/inet.h>
#include <stdlib.h>

static const struct bw_option options[] = {BW_PEER_LOOK_ROWS, {.name = NULL}};

static const char *status_of(const struct bw_peer_member_view *seen)
{
    static const char *const names[] = {
        [BW_MEMBER_ALIVE] = "alive", [BW_MEMBER_SUSPECT] = "suspect", [BW_MEMBER_DEAD] = "dead"};
    if (seen->row.left)
        return "left";
    return (size_t)seen->status < sizeof names / sizeof names[0] ? names[seen->status] : "unknown";
}

/* Writes "127.0.0.1:7001" or "[::1]:7001"; "-" without an address. */
static const char *address_of(const struct bw_peer_row *row, char *out, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "";
    bool six = row->address.family == 6;
    if (row->address.family)
        inet_ntop(six ? AF_INET6 : AF_INET, row->address.bytes, host, sizeof host);
    if (host[0])
        snprintf(out, size, six ? "[%s]:%u" : "%s:%u", host, (unsigned)row->address.port);
    else
        snprintf(out, size, "-");
    return out;
}

/* A dead member's level grows without bound: the column shows at most ">999". */
static const char *level_of(const struct bw_peer_member_view *seen, char *out, size_t size)
{
    double level = (double)seen->level_milli / 1000;
    if (level >= 1000)
        snprintf(out, size, ">999");
    else
        snprintf(out, size, "%.2f", level);
    return out;
}

static void print_text(const struct bw_peer_answer *answer)
{
    printf("%-10s %-16s %-22s %-8s %7s  %s\n", "ID", "NAME", "ADDRESS", "STATE", "LEVEL", "SINCE");
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct bw_peer_member_view *seen = &answer->seen[i];
        char name[BW_PEER_NAME_MAX + 1], address[80], since[BW_SPAN_TEXT], level[16];
        const char *votes = seen->voter ? "votes" : "",
                   *role = seen->row.ordinary ? "ordinary" : "";
        bw_time ago = (bw_time)(seen->since_ms % ((uint64_t)BW_TIME_NEVER / BW_MS)) * BW_MS;
        printf("%-10u %-16s %-22s %-8s %7s  ", (unsigned)seen->row.id,
               bw_shown(bw_peer_client_name(&seen->row, name)),
               address_of(&seen->row, address, sizeof address), status_of(seen),
               level_of(seen, level, sizeof level));
        bw_span_round(since, ago);
        if (votes[0] || role[0])
            printf("%-10s %s%s%s\n", since, votes, votes[0] && role[0] ? " " : "", role);
        else
            printf("%s\n", since);
    }
    if (!answer->formed)
        printf("the cluster has not formed yet: it waits for the peers of --expect\n");
}

static void print_json(const struct bw_peer_answer *answer)
{
    json_t *members = json_array();
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct bw_peer_member_view *seen = &answer->seen[i];
        char name[BW_PEER_NAME_MAX + 1], address[80];
        json_array_append_new(
            members,
            json_pack("{sI so ss ss sf sI sb sb sI so}", "id", (json_int_t)seen->row.id, "name",
                      bw_json_text(bw_peer_client_name(&seen->row, name)), "address",
                      address_of(&seen->row, address, sizeof address), "state", status_of(seen),
                      "level", (double)seen->level_milli / 1000, "since_ms",
                      (json_int_t)seen->since_ms, "voter", seen->voter, "ordinary",
                      seen->row.ordinary, "priority", (json_int_t)seen->row.priority, "value",
                      bw_json_text(seen->row.value)));
    }
    bw_json_line(json_pack("{sI sb so}", "asked", (json_int_t)answer->from, "formed",
                           answer->formed, "members", members));
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct bw_peer_look look = {.join = NULL};
    struct bw_parsed parsed;
    struct bw_peer_client *client = NULL;
    struct bw_peer_answer answer = {.seen = NULL};
    int code = bw_peer_client_open(&client, command, argc, argv, &look, &parsed);
    if (code != BW_GO_ON)
        return code;
    code = bw_peer_client_members(client, &answer);
    if (code == 0 && look.json)
        print_json(&answer);
    else if (code == 0)
        print_text(&answer);
    free(answer.seen);
    bw_peer_client_close(client);
    return code;
}

const struct bw_cli_command bw_command_peer_members = {
    .name = "members",
    .path = "bellwether peer members",
    .usage = "--join ADDR,... [options]",
    .about = "list alive, suspected and dead members, as one of the peers sees them",
    .text =
        "LEVEL is the detector's suspicion level: the higher, the more likely the member is dead.\n"
        "\n"
        "Exit code: 0; 64 invalid usage; 69 no peer responded.\n",
    .options = options,
    .run = run,
};
