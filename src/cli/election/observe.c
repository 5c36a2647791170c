/* `bellwether observe`: prints a line or JSON object per change until it is interrupted.
 *
 * In stores where candidates judge expiry by observation (trait OBSERVED), a leader that vanishes
 * changes nothing: its record just stays the same. `observe` reports it as silent when a whole TTL
 * has passed on the observer's clock without a renewal. Other stores end leases themselves, and
 * their records do not show renewals. */
#include "cli/commands.h"
#include "cli/election/change.h"
#include "cli/election/record_print.h"
#include "cli/store/client.h"
#include "cli/store/quorum.h"
#include "core/base/parse_values.h"
#include "os/clock.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define AGAIN_NS  BW_SEC /* retry interval while the store is unreachable */
#define TIME_TEXT 40

struct observe_options {
    struct bw_look look;
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
    BW_LOOK_TIMEOUT,
    {.name = NULL},
};

/* The wall-clock time in UTC, as RFC 3339 writes it: "2026-11-16T10:14:02.118Z". */
static const char *time_text(char out[TIME_TEXT])
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(out, TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out + used, TIME_TEXT - used, ".%03dZ", (int)(now.tv_nsec / BW_MS));
    return out;
}

/* How long the leadership that ended lasted, or how long there was no leader before this one. */
struct duration {
    enum { DURATION_NONE, DURATION_LED, DURATION_GAP } kind;
    bool at_least; /* it began before `observe` started */
    bw_time span;
};

/* Returns the time since the previous change of the leader, as this process saw both changes. */
static struct duration measure(struct observe *o, const char *event)
{
    bw_time now = bw_clock_boot();
    struct duration d = {.kind = DURATION_NONE};
    bool found = strcmp(event, "found") == 0, lost = strcmp(event, "lost") == 0;
    if (!found && !lost && strcmp(event, "elected") != 0)
        return d;
    if (!found)
        d = (struct duration){lost ? DURATION_LED : DURATION_GAP, o->began_before,
                              now - o->began_at};
    o->began_at = now;
    o->began_before = found;
    return d;
}

/* Prints which step of a resignation or a transfer a note requests or reports. */
static void print_note(const struct bw_note *note)
{
    const char *from = bw_shown(note->from), *to = bw_shown(note->to);
    switch (note->kind) {
    case BW_NOTE_RESIGN:
        printf(": %s asks it to step down", from);
        break;
    case BW_NOTE_TRANSFER:
        printf(": %s asks it to transfer leadership to %s", from, to);
        break;
    case BW_NOTE_PREPARE:
        printf(": %s asks %s to prepare", from, to);
        break;
    case BW_NOTE_READY:
        printf(": %s is ready to lead", from);
        break;
    case BW_NOTE_REFUSE:
        printf(": %s refuses to lead", from);
        break;
    case BW_NOTE_NONE:
        break;
    }
}

static void print_json(const struct observe *o, const struct bw_election_change *change,
                       const char *why, struct duration duration)
{
    const struct bw_store_record *record = &o->observer.seen;
    bool lost = strcmp(change->event, "lost") == 0;
    char time[TIME_TEXT];
    json_t *line =
        json_pack("{s:s, s:s, s:o, s:s, s:o, s:I, s:o}", "time", time_text(time), "event",
                  change->event, "election", bw_json_text(o->options.look.election), "reason", why,
                  "leader", change->leader[0] ? bw_json_text(change->leader) : json_null(), "token",
                  (json_int_t)change->token, "value",
                  record->held && !lost ? bw_json_text(record->value) : json_null());
    if (strcmp(change->event, "note") == 0)
        json_object_set_new(line, "note", bw_json_note(&record->note));
    if (duration.kind != DURATION_NONE) {
        json_object_set_new(line, duration.kind == DURATION_LED ? "led_ms" : "gap_ms",
                            json_integer(duration.span / BW_MS));
        json_object_set_new(line, "at_least", json_boolean(duration.at_least));
    }
    bw_json_line(line);
}

static void print_change(struct observe *o, const struct bw_election_change *change,
                         const char *why)
{
    const struct bw_store_record *record = &o->observer.seen;
    bool note = strcmp(change->event, "note") == 0, lost = strcmp(change->event, "lost") == 0;
    bool leads = change->leader[0];
    struct duration duration = measure(o, change->event);
    char time[TIME_TEXT], span[BW_SPAN_TEXT];
    if (o->options.look.json) {
        print_json(o, change, why, duration);
        return;
    }
    printf("%s %-8s", time_text(time), note ? "request" : change->event);
    if (leads)
        printf(" %s", bw_shown(change->leader));
    if (leads && change->token != BW_TOKEN_NONE)
        printf(" token %" PRIu64, change->token);
    if (note)
        print_note(&record->note);
    else if (why[0])
        printf("%s %s", leads ? ":" : "", why);
    if (!note && leads && record->held && record->value[0] && !lost)
        printf(" (%s)", bw_shown(record->value));
    if (duration.kind != DURATION_NONE)
        printf(", after %s%s%s", duration.at_least ? "at least " : "",
               bw_span_round(span, duration.span),
               duration.kind == DURATION_GAP ? " without a leader" : "");
    putchar('\n');
    fflush(stdout);
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

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    static struct observe o;
    struct bw_parsed parsed;
    o.options.look.reads_only = true;
    int code = bw_look_parse(command, argc, argv, &o.options.look, &parsed);
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
    .usage = "--election NAME [--store URL | --store-file FILE] [--json] [--once]",
    .about = "print each change of leadership with its reason, as a line or JSON object",
    .text =
        "Events: found (the state at the start), elected, lost, dead (proved dead), silent (not\n"
        "renewed for a TTL), value, settled (earlier work confirmed dead), request (a step of a\n"
        "resignation or transfer; in JSON: note), unreachable and reachable (the store). Renewals\n"
        "are not printed. A line says how long the leader led, or how long there was none, from\n"
        "one observation to the next. Times are UTC (RFC 3339). Stop it with Ctrl-C.\n"
        "Exit code: 0; 66 no such store or election; 69 the store is unreachable at the start.\n",
    .options = options,
    .run = run,
};
