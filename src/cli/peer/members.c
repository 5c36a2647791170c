/* `bellwether peer members`: who one of them sees, and since when. */
#include "cli/commands.h"
#include "cli/look/record_print.h"
#include "cli/options/terminal.h"
#include "cli/peer/client.h"

#include <arpa/inet.h>
#include <stdlib.h>

static const struct bw_option options[] = {BW_PEER_LOOK_ROWS, {.name = NULL}};

static const char *status_of(const struct bw_peer_seen *seen)
{
    static const char *const names[] = {
        [BW_MEMBER_ALIVE] = "alive", [BW_MEMBER_SUSPECT] = "suspect", [BW_MEMBER_DEAD] = "dead"};
    if (seen->row.left)
        return "left";
    return (size_t)seen->status < sizeof names / sizeof names[0] ? names[seen->status] : "unknown";
}

/* "127.0.0.1:7001", "[::1]:7001"; "-": none. */
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

static void print_text(const struct bw_peer_answer *answer)
{
    printf("%-10s %-16s %-22s %-8s %7s  %-10s %s\n", "ID", "NAME", "ADDRESS", "STATE", "LEVEL",
           "SINCE", "");
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct bw_peer_seen *seen = &answer->seen[i];
        char name[BW_PEER_NAME_MAX + 1], address[80], since[BW_TEXT_SPAN];
        bw_time ago = (bw_time)(seen->since_ms % ((uint64_t)BW_TIME_NEVER / BW_MS)) * BW_MS;
        printf("%-10u %-16s %-22s %-8s %7.2f  %-10s %s%s\n", (unsigned)seen->row.id,
               bw_shown(bw_peer_client_name(&seen->row, name)),
               address_of(&seen->row, address, sizeof address), status_of(seen),
               (double)seen->level_milli / 1000, bw_term_span(since, ago),
               seen->voter ? "votes" : "", seen->row.ordinary ? "ordinary" : "");
    }
    if (!answer->formed)
        printf("not a cluster yet: not all that are expected have met\n");
}

static void print_json(const struct bw_peer_answer *answer)
{
    json_t *members = json_array();
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct bw_peer_seen *seen = &answer->seen[i];
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
    .about = "who is alive, suspect or dead, as one of the peers sees it",
    .text = "LEVEL is the detector's: how sure it is that the member is gone.\n"
            "\n"
            "Exit: 0; 64 wrong usage; 69 nobody answered.\n",
    .options = options,
    .run = run,
};
