/* `bellwether resign` and `transfer`: write a note for the leader and report the outcome. They
 * never remove a record: the leader itself stops its work, confirms that it is dead and releases
 * leadership. */
#include "cli/commands.h"
#include "cli/election/change.h"
#include "cli/election/record_print.h"
#include "cli/store/client.h"
#include "os/clock.h"

#include <string.h>

struct ask_options {
    struct bw_look look;
    const char *to;
    bw_time wait_ns;
};

#define ASK_WAIT                                                                                   \
    {                                                                                              \
        .name = "wait", .form = "D",                                                               \
        .help = "maximum time to wait for the outcome; 0: write the note and exit (default: 30s)", \
        .set = bw_set_duration, .offset = offsetof(struct ask_options, wait_ns)                    \
    }

static const struct bw_option resign_options[] = {
    BW_LOOK_STORE, BW_LOOK_STORE_FILE, BW_LOOK_ELECTION, ASK_WAIT,
    BW_LOOK_ID,    BW_LOOK_JSON,       BW_LOOK_TIMEOUT,  {.name = NULL},
};

static const struct bw_option transfer_options[] = {
    BW_LOOK_STORE,
    BW_LOOK_STORE_FILE,
    BW_LOOK_ELECTION,
    {.name = "to",
     .form = "ID",
     .help = "candidate that is to lead (required)",
     .set = bw_set_text,
     .offset = offsetof(struct ask_options, to)},
    ASK_WAIT,
    BW_LOOK_ID,
    BW_LOOK_JSON,
    BW_LOOK_TIMEOUT,
    {.name = NULL},
};

/* Prints the outcome on one line and returns the exit code. */
static int conclude(const struct bw_client *client, int code, const char *outcome,
                    const struct bw_store_record *record, const char *sentence)
{
    if (client->look->json) {
        json_t *value = bw_json_record(client->look->election, record);
        json_object_set_new(value, "outcome", json_string(outcome));
        bw_json_line(value);
    } else {
        printf("%s: %s\n", outcome, sentence);
    }
    return code;
}

/* Watches the record until `seen` returns true (result ANSWERED) or the time is over. */
static enum bw_wait follow(struct bw_client *client, struct bw_store_record *record, bw_time until,
                           bool (*seen)(void *context, const struct bw_store_record *record),
                           void *context)
{
    while (!seen(context, record)) {
        enum bw_wait end = bw_client_wait_change(client, record->version, until);
        if (end != BW_WAIT_ANSWERED)
            return end;
        if (client->reply.outcome == BW_OUTCOME_DONE)
            *record = client->reply.record;
        else if (bw_clock_boot() >= until)
            return BW_WAIT_LATE;
        else if (bw_client_pause(client, 100 * BW_MS) == BW_WAIT_INTERRUPTED)
            return BW_WAIT_INTERRUPTED;
    }
    return BW_WAIT_ANSWERED;
}

/* ---- resign ---- */

static bool is_over(void *context, const struct bw_store_record *record)
{
    const struct bw_store_record *before = context;
    return !record->held || record->token != before->token || record->request != before->request;
}

static bool is_led(void *context, const struct bw_store_record *record)
{
    return is_over(context, record) && record->held;
}

/* Returns whether the election has no candidates; false if the store cannot list them. */
static bool has_no_candidates(struct bw_client *client)
{
    struct bw_store_request request = bw_client_request(client, BW_STORE_LIST);
    return (client->ops->traits & BW_STORE_LISTS) && bw_client_ask(client, &request) == BW_GO_ON &&
           client->reply.outcome == BW_OUTCOME_DONE && client->reply.count == 0;
}

/* Reports which candidate leads after the old leader released. The old leader can be elected again,
 * for example when it is the only candidate. */
static int report_successor(struct bw_client *client, const struct bw_store_record *before,
                            struct bw_store_record *record, bw_time until)
{
    char line[512];
    bool empty = !record->held && has_no_candidates(client);
    if (!empty && follow(client, record, until, is_led, (void *)before) == BW_WAIT_INTERRUPTED)
        return BW_EXIT_INTERRUPTED;
    const char *holder = bw_shown(before->holder);
    if (record->held)
        snprintf(line, sizeof line, "%s no longer leads%s; %s leads%s", holder,
                 bw_with_token(before->token), bw_shown(record->holder),
                 bw_with_token(record->token));
    else
        snprintf(line, sizeof line, "%s no longer leads; %s", holder,
                 empty ? "there are no candidates now"
                       : "no candidate has acquired leadership in time (--wait)");
    return conclude(client, BW_EXIT_OK, "resigned", record, line);
}

static int resign(struct bw_client *client, const struct ask_options *options)
{
    char line[512];
    int code = bw_client_read(client);
    if (code != BW_GO_ON)
        return code;
    struct bw_store_record before = client->reply.record, record = before;
    if (!before.held)
        return conclude(client, BW_EXIT_OK, "free", &before, "no leader");
    code = bw_client_note(client, BW_NOTE_RESIGN, before.holder);
    if (code != BW_GO_ON)
        return code;
    snprintf(line, sizeof line, "%s has the request to step down", bw_shown(before.holder));
    if (options->wait_ns == 0)
        return conclude(client, BW_EXIT_OK, "asked", &client->reply.record, line);
    bw_time until = bw_time_add(bw_clock_boot(), options->wait_ns);
    switch (follow(client, &record, until, is_over, &before)) {
    case BW_WAIT_ANSWERED:
        return report_successor(client, &before, &record, until);
    case BW_WAIT_LATE:
        snprintf(line, sizeof line, "%s still leads; the request is still pending",
                 bw_shown(before.holder));
        return conclude(client, BW_EXIT_LATE, "timed out", &record, line);
    default:
        return BW_EXIT_INTERRUPTED;
    }
}

/* ---- transfer ---- */

static bool transfer_over(void *context, const struct bw_store_record *record)
{
    return bw_transfer_update(context, record);
}

static int report(const struct bw_client *client, const struct bw_transfer *transfer,
                  const struct bw_store_record *record)
{
    static const struct {
        const char *outcome, *sentence;
        int code;
    } rows[] = {
        [BW_TRANSFER_ASKED] = {"timed out", "the leader has not reacted to the request yet",
                               BW_EXIT_LATE},
        [BW_TRANSFER_PREPARING] = {"timed out",
                                   "the candidate has not confirmed yet that it is ready",
                                   BW_EXIT_LATE},
        [BW_TRANSFER_READY] = {"timed out", "the leader is still stopping its work", BW_EXIT_LATE},
        [BW_TRANSFER_FREE] =
            {"timed out",
             "the leader released leadership, but the candidate has not acquired it yet",
             BW_EXIT_LATE},
        [BW_TRANSFER_DONE] = {"transferred", NULL, BW_EXIT_OK},
        [BW_TRANSFER_REFUSED] = {"refused", "the candidate is not ready; the leader stays",
                                 BW_EXIT_FAILED},
        [BW_TRANSFER_ELSEWHERE] = {"elsewhere", "another candidate leads now", BW_EXIT_FAILED},
        [BW_TRANSFER_SUPERSEDED] = {"superseded", "another request has replaced this one",
                                    BW_EXIT_FAILED},
    };
    char line[256];
    snprintf(line, sizeof line, "%s leads%s", bw_shown(transfer->to), bw_with_token(record->token));
    const char *sentence = rows[transfer->state].sentence;
    return conclude(client, rows[transfer->state].code, rows[transfer->state].outcome, record,
                    sentence ? sentence : line);
}

/* Returns BW_GO_ON if the candidate exists or the store cannot list candidates. */
static int look_for(struct bw_client *client, const char *id)
{
    if (!(client->ops->traits & BW_STORE_LISTS))
        return BW_GO_ON;
    struct bw_store_request request = bw_client_request(client, BW_STORE_LIST);
    int code = bw_client_ask(client, &request);
    if (code != BW_GO_ON)
        return code;
    for (uint32_t i = 0; i < client->reply.count; i++)
        if (strcmp(client->reply.candidates[i].id, id) == 0)
            return BW_GO_ON;
    return bw_client_fail(client, BW_EXIT_NONE,
                          "no candidate '%s' in this election; see bellwether candidates", id);
}

static int transfer(struct bw_client *client, const struct ask_options *options)
{
    int code = bw_client_read(client);
    if (code != BW_GO_ON)
        return code;
    struct bw_store_record before = client->reply.record, record;
    struct bw_transfer state = {.to = options->to, .holder = before.holder, .token = before.token};
    if (!before.held)
        return bw_client_fail(client, BW_EXIT_NONE, "cannot transfer leadership: no leader");
    if (strcmp(before.holder, options->to) == 0) {
        state.state = BW_TRANSFER_DONE;
        return report(client, &state, &before);
    }
    code = look_for(client, options->to);
    if (code == BW_GO_ON)
        code = bw_client_note(client, BW_NOTE_TRANSFER, options->to);
    if (code != BW_GO_ON)
        return code;
    record = client->reply.record;
    state.serial = record.note.serial;
    if (options->wait_ns == 0)
        return conclude(client, BW_EXIT_OK, "asked", &record,
                        "the leader has the request to transfer leadership");
    bw_time until = bw_time_add(bw_clock_boot(), options->wait_ns);
    if (follow(client, &record, until, transfer_over, &state) == BW_WAIT_INTERRUPTED)
        return BW_EXIT_INTERRUPTED;
    return report(client, &state, &record);
}

/* ---- */

static int ask(const struct bw_cli_command *command, int argc, char **argv, bool needs_to,
               int (*what)(struct bw_client *client, const struct ask_options *options))
{
    struct ask_options options = {.wait_ns = 30 * BW_SEC};
    struct bw_parsed parsed;
    struct bw_client client;
    int code = bw_look_parse(command, argc, argv, &options.look, &parsed);
    if (code != BW_GO_ON)
        return code;
    code = needs_to ? bw_target_of(command, &parsed, "candidate", &options.to) : BW_GO_ON;
    if (code != BW_GO_ON)
        return code;
    if (needs_to && strlen(options.to) > BW_CANDIDATE_ID_MAX)
        return bw_usage_error(command, "invalid --to: longer than %u bytes", BW_CANDIDATE_ID_MAX);
    code = bw_client_open(&client, command, &options.look);
    if (code != BW_GO_ON)
        return code;
    code = what(&client, &options);
    bw_client_close(&client);
    return code;
}

static int run_resign(const struct bw_cli_command *command, int argc, char **argv)
{
    return ask(command, argc, argv, false, resign);
}

static int run_transfer(const struct bw_cli_command *command, int argc, char **argv)
{
    return ask(command, argc, argv, true, transfer);
}

const struct bw_cli_command bw_command_resign = {
    .name = "resign",
    .path = "bellwether resign",
    .usage = "--election NAME [--store URL | --store-file FILE] [--wait D]",
    .about = "ask the leader to step down",
    .text =
        "The leader stops its work, confirms that it is dead and releases leadership; another\n"
        "candidate takes over at once. Exit code: 0 it no longer leads (or there was no leader);\n"
        "75 not in time; 66 no such store or election; 69 the store is unreachable or does not\n"
        "support notes.\n",
    .options = resign_options,
    .run = run_resign,
};

const struct bw_cli_command bw_command_transfer = {
    .name = "transfer",
    .path = "bellwether transfer",
    .usage = "--election NAME --to ID [--store URL | --store-file FILE] [--wait D]",
    .about = "ask the leader to transfer leadership to a named candidate",
    .text =
        "The candidate first confirms that it is ready; if it is not, the leader stays.\n"
        "`transfer ID` is short for `transfer --to ID`.\n"
        "Exit code: 0 transferred (or the candidate already led); 1 refused, superseded, or "
        "another\n"
        "candidate leads; 75 not in time; 66 no such store, election, leader or candidate; 69 the\n"
        "store is unreachable or does not support notes.\n",
    .options = transfer_options,
    .operand = bw_any_word,
    .run = run_transfer,
};
