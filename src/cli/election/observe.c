/* `bellwether observe`: prints a line or JSON object per change until it is interrupted.
 *
 * In stores where candidates judge expiry by observation (trait OBSERVED), a leader that vanishes
 * changes nothing: its record just stays the same. `observe` reports it as silent when a whole TTL
 * has passed on the observer's clock without a renewal. Other stores end leases themselves, and
 * their records do not show renewals. */
#include "cli/commands.h"
#include "cli/election/change.h"
#include "cli/election/change_print.h"
#include "cli/history/show.h"
#include "cli/options/wall_time.h"
#include "cli/store/client.h"
#include "cli/store/quorum.h"
#include "os/clock.h"

#include <string.h>

#define AGAIN_NS BW_SEC /* retry interval while the store is unreachable */

struct observe_options {
    struct bw_look look;
    const char *since, *history_dir;
    bool once;
};

struct observe {
    struct bw_client client;
    struct observe_options options;
    struct bw_observer observer;
    unsigned changes; /* printed after the first record */
    bool silent, unreachable;
    bw_time renewed_at; /* when the record's version last changed, on our clock */
    bw_time began_at;   /* when this leadership, or this time without a leader, began */
    bool began_before;  /* it began before we looked for the first time */
};

static const struct bw_option options[] = {
    BW_LOOK_STORE,
    BW_LOOK_STORE_FILE,
    BW_LOOK_ELECTION,
    BW_LOOK_JSON,
    {.name = "once",
     .help = "exit after the first change (default: run until interrupted)",
     .set = bw_set_switch,
     .offset = offsetof(struct observe_options, once)},
    {.name = "since",
     .form = "T",
     .help = "first print the changes since a time (2026-11-18T05:00:00Z) or for a duration (1h), "
             "from the local history (default: only what happens from now on)",
     .set = bw_set_text,
     .offset = offsetof(struct observe_options, since)},
    {.name = "history-dir",
     .form = "DIR",
     .help = "directory of the history for --since (default: those of this host and of this user)",
     .set = bw_set_text,
     .offset = offsetof(struct observe_options, history_dir)},
    BW_LOOK_TIMEOUT,
    {.name = NULL},
};

/* Returns the time since the previous change of the leader, as this process saw both changes. */
static struct bw_change_span measure(struct observe *o, const char *event)
{
    bw_time now = bw_clock_boot();
    struct bw_change_span span = {.kind = BW_SPAN_NONE};
    bool found = strcmp(event, "found") == 0, lost = strcmp(event, "lost") == 0;
    if (!found && !lost && strcmp(event, "elected") != 0)
        return span;
    if (!found)
        span = (struct bw_change_span){lost ? BW_SPAN_LED : BW_SPAN_GAP, o->began_before,
                                       now - o->began_at};
    o->began_at = now;
    o->began_before = found;
    return span;
}

static void print_change(struct observe *o, const struct bw_election_change *change,
                         const char *why)
{
    const struct bw_store_record *record = &o->observer.seen;
    bool note = strcmp(change->event, "note") == 0, lost = strcmp(change->event, "lost") == 0;
    struct bw_change_line line = {.at = bw_wall_now(),
                                  .event = change->event,
                                  .election = o->options.look.election,
                                  .why = why,
                                  .leader = change->leader,
                                  .token = change->token,
                                  .value = record->held && !lost ? record->value : NULL,
                                  .note = note ? &record->note : NULL,
                                  .span = measure(o, change->event)};
    bw_change_print(&line, o->options.look.json);
}

static void print_own(struct observe *o, const char *event, const char *why)
{
    struct bw_election_change change = {.event = event, .token = o->observer.seen.token};
    if (o->observer.seen.held)
        memcpy(change.leader, o->observer.seen.holder, sizeof change.leader);
    print_change(o, &change, why);
}

static void see(struct observe *o, const struct bw_store_record *record)
{
    struct bw_election_change changes[BW_ELECTION_CHANGES_MAX];
    bool first = !o->observer.known;
    if (first || record->version != o->observer.seen.version) {
        o->renewed_at = bw_clock_boot();
        o->silent = false;
    }
    unsigned count = bw_observer_update(&o->observer, record, changes);
    for (unsigned i = 0; i < count; i++)
        print_change(o, &changes[i], changes[i].reason);
    o->changes += first ? 0 : count;
}

/* Returns when to report the leader as silent, or BW_TIME_NEVER if it was reported or there is no
 * leader. */
static bw_time silent_at(const struct observe *o)
{
    const struct bw_store_record *record = &o->observer.seen;
    bool renewals_show = o->client.ops->traits & BW_STORE_OBSERVED;
    if (!o->observer.known || !record->held || o->silent || record->ttl_ns <= 0 || !renewals_show)
        return BW_TIME_NEVER;
    return bw_time_add(o->renewed_at, record->ttl_ns);
}

static void on_answer(struct observe *o)
{
    const struct bw_store_reply *reply = &o->client.reply;
    if (reply->outcome == BW_OUTCOME_DONE) {
        if (o->unreachable)
            print_own(o, "reachable", "the store responds again");
        o->unreachable = false;
        see(o, &reply->record);
        return;
    }
    char line[BW_WHY_MAX + 1];
    bool alone = !o->unreachable && bw_quorum_is_lost(o->options.look.store, line);
    if (!o->unreachable)
        print_own(o, "unreachable",
                  alone           ? line
                  : reply->why[0] ? reply->why
                                  : "the store is unreachable");
    o->unreachable = true;
    bw_client_pause(&o->client, AGAIN_NS);
}

static int observe(struct observe *o)
{
    int code = bw_client_read(&o->client);
    if (code != BW_GO_ON)
        return code;
    see(o, &o->client.reply.record);
    while (!o->client.interrupted && !(o->options.once && o->changes > 0)) {
        switch (bw_client_wait_change(&o->client, o->observer.seen.version, silent_at(o))) {
        case BW_WAIT_ANSWERED:
            on_answer(o);
            break;
        case BW_WAIT_LATE:
            o->silent = true;
            o->changes++;
            print_own(o, "silent", "not renewed for a whole TTL");
            break;
        case BW_WAIT_INTERRUPTED:
            break;
        }
    }
    return BW_EXIT_OK;
}

/* Stores keep no history with times, not even those that keep revisions. So the past comes from
 * what the candidates of this host saw. Returns BW_GO_ON or an exit code. */
static int show_past(const struct bw_cli_command *command, const struct observe_options *given)
{
    struct bw_history_query query = {.election = given->look.election,
                                     .directory = given->history_dir,
                                     .json = given->look.json};
    if (!given->since)
        return BW_GO_ON;
    int code = bw_history_since(command, given->since, &query.since);
    if (code == BW_GO_ON)
        code = bw_history_show(command, &query);
    return code == BW_EXIT_OK ? BW_GO_ON : code;
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    static struct observe o;
    struct bw_parsed parsed;
    o.options.look.reads_only = true;
    int code = bw_look_parse(command, argc, argv, &o.options.look, &parsed);
    if (code == BW_GO_ON)
        code = show_past(command, &o.options);
    if (code == BW_GO_ON)
        code = bw_client_open(&o.client, command, &o.options.look);
    if (code != BW_GO_ON)
        return code;
    code = observe(&o);
    bw_client_close(&o.client);
    return code == BW_EXIT_INTERRUPTED ? BW_EXIT_OK : code;
}

const struct bw_cli_command bw_command_observe = {
    .name = "observe",
    .path = "bellwether observe",
    .usage = "--election NAME [--store URL | --store-file FILE] [--json] [--once]\n"
             "       [--since T [--history-dir DIR]]",
    .about = "print each change of leadership with its reason, as a line or JSON object",
    .text =
        "Events: found (the state at the start), elected, lost, dead (proved dead), silent (not\n"
        "renewed for a TTL), value, settled (earlier work confirmed dead), request (a step of a\n"
        "resignation or transfer; in JSON: note), unreachable and reachable (the store). Renewals\n"
        "are not printed. A line says how long the leader led, or how long there was none, from\n"
        "one observation to the next. Times are UTC (RFC 3339). Stop it with Ctrl-C.\n"
        "--since prints past changes first, from the local history that `run` and `peer` write; "
        "see\n"
        "`bellwether history`.\n"
        "Exit code: 0; 66 no such store or election, or no history for --since; 69 the store is\n"
        "unreachable at the start; 74 the history cannot be read.\n",
    .options = options,
    .run = run,
};
