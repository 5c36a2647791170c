/* `bellwether observe`: a line or JSON object per change, by watching, until told to stop.
 *
 * Where expiry is judged by watching (trait OBSERVED), a leader that vanishes changes nothing: its
 * record stands still. That is told too, once its whole TTL has passed on the own clock without a
 * renewal. Other stores end the lease themselves, and their records do not show renewals. */
#include "cli/commands.h"
#include "cli/look/change.h"
#include "cli/look/record_print.h"
#include "cli/store/client.h"

#include <inttypes.h>
#include <string.h>

#define AGAIN_NS BW_SEC /* while the store cannot be reached */

struct observe_options {
    struct bw_look look;
    bool once;
};

struct observe {
    struct bw_client client;
    struct observe_options options;
    struct bw_onlooker onlooker;
    unsigned changes; /* told after what was found */
    bool silent, away;
    bw_time renewed_at; /* when the record's version last moved, own clock */
};

static const struct bw_option options[] = {
    BW_LOOK_STORE,
    BW_LOOK_STORE_FILE,
    BW_LOOK_ELECTION,
    BW_LOOK_JSON,
    {.name = "once",
     .help = "end after the first change",
     .set = bw_set_switch,
     .offset = offsetof(struct observe_options, once)},
    BW_LOOK_TIMEOUT,
    {.name = NULL},
};

static void tell(struct observe *o, const struct bw_sighting *change, const char *why)
{
    const struct bw_store_record *record = &o->onlooker.seen;
    bool note = strcmp(change->event, "note") == 0, lost = strcmp(change->event, "lost") == 0;
    bool leads = change->leader[0];
    if (o->options.look.json) {
        json_t *line = json_pack("{s:s, s:o, s:s, s:o, s:I, s:o}", "event", change->event,
                                 "election", bw_json_text(o->options.look.election), "reason", why,
                                 "leader", leads ? bw_json_text(change->leader) : json_null(),
                                 "token", (json_int_t)change->token, "value",
                                 record->held && !lost ? bw_json_text(record->value) : json_null());
        if (note)
            json_object_set_new(line, "note", bw_json_note(&record->note));
        bw_json_line(line);
        return;
    }
    printf("%-8s", change->event);
    if (leads)
        printf(" %s", bw_shown(change->leader));
    if (leads && change->token != BW_TOKEN_NONE)
        printf(" token %" PRIu64, change->token);
    if (why[0])
        printf("%s %s", leads ? ":" : "", why);
    if (note)
        printf("%s%s, from %s", record->note.to[0] ? " to " : "", bw_shown(record->note.to),
               bw_shown(record->note.from));
    else if (leads && record->held && record->value[0] && !lost)
        printf(" (%s)", bw_shown(record->value));
    putchar('\n');
    fflush(stdout);
}

static void tell_own(struct observe *o, const char *event, const char *why)
{
    struct bw_sighting change = {.event = event, .token = o->onlooker.seen.token};
    if (o->onlooker.seen.held)
        memcpy(change.leader, o->onlooker.seen.holder, sizeof change.leader);
    tell(o, &change, why);
}

static void see(struct observe *o, const struct bw_store_record *record)
{
    struct bw_sighting changes[BW_SIGHTINGS_MAX];
    bool first = !o->onlooker.known;
    if (first || record->version != o->onlooker.seen.version) {
        o->renewed_at = bw_client_now();
        o->silent = false;
    }
    unsigned count = bw_onlooker_see(&o->onlooker, record, changes);
    for (unsigned i = 0; i < count; i++)
        tell(o, &changes[i], changes[i].reason);
    o->changes += first ? 0 : count;
}

/* When to say that the leader is silent; NEVER if it was said, or nobody leads. */
static bw_time patience(const struct observe *o)
{
    const struct bw_store_record *record = &o->onlooker.seen;
    bool renewals_show = o->client.ops->traits & BW_STORE_OBSERVED;
    if (!o->onlooker.known || !record->held || o->silent || record->ttl_ns <= 0 || !renewals_show)
        return BW_TIME_NEVER;
    return bw_time_add(o->renewed_at, record->ttl_ns);
}

static void on_answer(struct observe *o)
{
    const struct bw_store_reply *reply = &o->client.reply;
    if (reply->outcome == BW_OUTCOME_DONE) {
        if (o->away)
            tell_own(o, "back", "the store answers again");
        o->away = false;
        see(o, &reply->record);
        return;
    }
    if (!o->away)
        tell_own(o, "away", reply->why[0] ? reply->why : "the store cannot be reached");
    o->away = true;
    bw_client_pause(&o->client, AGAIN_NS);
}

static int observe(struct observe *o)
{
    int code = bw_client_read(&o->client);
    if (code != BW_GO_ON)
        return code;
    see(o, &o->client.reply.record);
    while (!o->client.interrupted && !(o->options.once && o->changes > 0)) {
        switch (bw_client_news(&o->client, o->onlooker.seen.version, patience(o))) {
        case BW_WAIT_ANSWERED:
            on_answer(o);
            break;
        case BW_WAIT_LATE:
            o->silent = true;
            o->changes++;
            tell_own(o, "silent", "not renewed for a whole TTL");
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
    .about = "a line or JSON object per change of leadership, with its reason",
    .text = "Events: found (what stands now), elected, lost, dead (proved), silent (not renewed\n"
            "for a TTL), value, settled, note, away and back (the store). Renewals are not told.\n"
            "Ends with Ctrl-C. Exit code: 0; 66 no such store or election; 69 the store cannot\n"
            "be reached at the start.\n",
    .options = options,
    .run = run,
};
