/* A store as a process of the world: one record per election, compare-and-swap by version, a token
 * that grows with every acquire, one note, and watchers.
 *
 * Models:
 *   quorum, single  respond to a write only when it is durable, and lose nothing that was answered
 *   forgetful       responds first; when it crashes, or fails over to a lagging copy, its newest
 *                   writes are lost, and with them tokens that were already issued
 *   redlock         five stores that keep nothing; after a restart each stays out for longer than
 *                   the longest lease, as the algorithm requires
 *
 * An expiring store counts the TTL from its commit, on its own clock. After a restart it gives
 * every lease a full TTL again, because it does not know how long it was down. A wiped store
 * restarts its versions. */
#include "sim/stores/lease.h"

#include "core/base/arena.h"
#include "core/base/drift.h"
#include "core/base/error.h"

#include <string.h>

struct watcher {
    uint64_t id, version; /* id 0: does not watch */
};

struct store {
    bw_node self;
    const struct bw_sim_lease_host *host;
    enum bw_sim_store model;
    bool expires;
    uint32_t drift_ppm;
    struct bw_sim_store_record record;
    bw_time until;     /* end of the lease, if the store judges it */
    bw_time out_until; /* redlock: does not respond until then */
    uint64_t epoch;    /* epoch of versions: one per start, so that no version repeats */
    uint32_t slots;
    struct watcher *watchers; /* [candidate] */
    struct bw_sim_store_answer *answers;
    uint32_t answers_count;
};

static struct store *lay_out(struct bw_arena *arena, const struct bw_elector_config *config)
{
    uint32_t slots = config->cap + 1;
    struct store *s = bw_arena_take(arena, sizeof *s);
    struct watcher *watchers = bw_arena_take(arena, slots * sizeof *watchers);
    struct bw_sim_store_answer *answers = bw_arena_take(arena, (slots + 1) * sizeof *answers);
    if (!bw_arena_fits(arena))
        return s;
    memset(s, 0, sizeof *s);
    memset(watchers, 0, slots * sizeof *watchers);
    s->slots = slots;
    s->watchers = watchers;
    s->answers = answers;
    return s;
}

static size_t store_bytes(const struct bw_elector_config *config)
{
    struct bw_arena measure = {0};
    lay_out(&measure, config);
    return measure.used;
}

static uint32_t store_actions_max(const struct bw_elector_config *config)
{
    return config->cap + 8;
}

static int store_init(void *memory, const struct bw_elector_config *config)
{
    struct bw_arena arena = {.at = memory, .cap = store_bytes(config)};
    struct store *s = lay_out(&arena, config);
    if (!bw_arena_fits(&arena))
        return BW_ENOMEM;
    s->self = config->self;
    s->host = config->host;
    s->model = s->host->lease->store;
    s->expires = !bw_sim_store_observed(s->host->lease);
    s->drift_ppm = config->drift_ppm;
    s->until = BW_TIME_NEVER;
    return 0;
}

static bool durable_first(const struct store *s)
{
    return s->model == BW_SIM_STORE_QUORUM || s->model == BW_SIM_STORE_SINGLE;
}

/* ---- state after a start ---- */

static const struct bw_sim_book_write *write_at(const struct bw_sim_book *book, uint64_t serial)
{
    return &book->writes[serial % BW_SIM_BOOK_WRITES];
}

/* Returns the newest write that is left; 0: none. */
static uint64_t last_known(struct store *s, const struct bw_durable *durable)
{
    struct bw_sim_book *book = s->host->book;
    uint64_t oldest = book->serial > BW_SIM_BOOK_WRITES ? book->serial - BW_SIM_BOOK_WRITES : 0;
    uint64_t serial = book->serial;
    if (s->model == BW_SIM_STORE_REDLOCK)
        return 0;
    if (s->model == BW_SIM_STORE_FORGETFUL) {
        struct bw_rng rng;
        bw_time lag = s->host->lease->lag_ns ? s->host->lease->lag_ns : s->host->lease->ttl_ns;
        bw_rng_init(&rng, book->seed ^ durable->starts);
        bw_time known = book->alive - bw_rng_between(&rng, 0, lag);
        while (serial > oldest && write_at(book, serial)->at > known)
            serial--;
        return serial == oldest && oldest ? oldest + 1 : serial; /* no older one is kept */
    }
    return durable->token < serial ? durable->token : serial;
}

static void start(struct store *s, const struct bw_durable *durable, bw_time now)
{
    struct bw_sim_book *book = s->host->book;
    uint64_t serial = last_known(s, durable);
    s->epoch = (uint64_t)(durable->starts + 1) << 32;
    if (serial) {
        s->record = write_at(book, serial)->record;
        s->until = write_at(book, serial)->expires;
    }
    bool again = durable->starts > 0;
    if (again && durable_first(s) && s->expires && s->record.held)
        s->until = bw_time_add(now, s->record.ttl_ns);
    if (again && s->model == BW_SIM_STORE_REDLOCK)
        s->out_until =
            bw_time_add(now, bw_drift_lengthen(s->host->lease->ttl_ns, s->drift_ppm) + BW_MS);
    book->serial = serial;
    book->alive = now;
}

/* ---- answers ---- */

static void answer(struct store *s, bw_node to, uint64_t id, enum bw_store_op op,
                   enum bw_outcome outcome, struct bw_actions *actions)
{
    struct bw_sim_store_answer *out = &s->answers[s->answers_count++];
    memset(out, 0, sizeof *out);
    out->id = id;
    out->op = (uint8_t)op;
    out->outcome = (uint8_t)outcome;
    out->record = s->record;
    struct bw_message *msg = bw_actions_send(actions, BW_MSG_STORE_ANSWER, s->self, to, 0);
    msg->data = out;
    msg->items = sizeof *out;
}

static void notify(struct store *s, struct bw_actions *actions)
{
    for (bw_node node = 1; node < s->slots; node++) {
        struct watcher *watcher = &s->watchers[node];
        if (!watcher->id || watcher->version == s->record.version)
            continue;
        answer(s, node, watcher->id, BW_STORE_WATCH, BW_OUTCOME_DONE, actions);
        watcher->id = 0;
    }
}

/* Stores the current record: durable first where the model requires it. */
static void keep(struct store *s, bw_time now, struct bw_actions *actions)
{
    struct bw_sim_book *book = s->host->book;
    book->serial++;
    book->writes[book->serial % BW_SIM_BOOK_WRITES] =
        (struct bw_sim_book_write){.record = s->record, .at = now, .expires = s->until};
    if (durable_first(s)) {
        struct bw_durable durable = {.token = book->serial};
        bw_actions_persist(actions, &durable);
    }
}

/* Publishes a change of the record. */
static void write_down(struct store *s, bw_time now, struct bw_actions *actions)
{
    s->record.version = s->epoch | ((s->record.version + 1) & UINT32_MAX);
    keep(s, now, actions);
}

/* An operator deletes the store and creates it again. Versions restart, and disconnected candidates
 * remember records of the old store. The token counter survives, as with a sequence or with lock
 * files that stay. This waits until no candidate holds the record: a new store cannot know of a
 * holder. */
static void wipe(struct store *s, bw_time now, struct bw_actions *actions)
{
    struct bw_sim_book *book = s->host->book;
    if (!book->wipe || s->record.held)
        return;
    book->wipe = false;
    s->record = (struct bw_sim_store_record){.token = s->record.token};
    keep(s, now, actions);
}

/* ---- requests ---- */

static bool is_holder(const struct store *s, bw_node from, const struct bw_sim_store_ask *ask)
{
    const struct bw_sim_store_record *record = &s->record;
    if (!record->held || record->holder != from)
        return false;
    return s->model == BW_SIM_STORE_REDLOCK ? record->request == ask->lock
                                            : record->token == ask->token;
}

static enum bw_outcome acquire(struct store *s, bw_node from, const struct bw_sim_store_ask *ask,
                               bw_time now, bool *changed)
{
    struct bw_sim_store_record *record = &s->record;
    if (record->held && record->request == ask->id && record->holder == from)
        return BW_OUTCOME_DONE; /* a repeated request */
    bool same = ask->steal_request == 0 || ask->steal_request == record->request;
    bool stands = ask->steal == record->version && same;
    if (record->held && (!ask->steal || !stands || s->expires))
        return BW_OUTCOME_REFUSED;
    record->held = true;
    record->clean = false;
    record->holder = from;
    record->request = ask->id;
    record->ttl_ns = ask->ttl_ns;
    record->until_wall_ns = ask->until_wall_ns;
    record->token += s->model != BW_SIM_STORE_REDLOCK;
    s->until = bw_time_add(now, ask->ttl_ns);
    *changed = true;
    return BW_OUTCOME_DONE;
}

static void note(struct store *s, bw_node from, const struct bw_sim_store_ask *ask)
{
    s->record.note = ask->note;
    s->record.note_from = from;
    s->record.note_to = ask->note_to;
    s->record.note_serial++;
}

static enum bw_outcome serve(struct store *s, bw_node from, const struct bw_sim_store_ask *ask,
                             bw_time now, bool *changed)
{
    bool holds = is_holder(s, from, ask);
    switch ((enum bw_store_op)ask->op) {
    case BW_STORE_ACQUIRE:
        return acquire(s, from, ask, now, changed);
    case BW_STORE_RENEW:
        if (!holds)
            return BW_OUTCOME_REFUSED;
        s->until = bw_time_add(now, ask->ttl_ns);
        s->record.until_wall_ns = bw_time_max(s->record.until_wall_ns, ask->until_wall_ns);
        *changed = true;
        return BW_OUTCOME_DONE;
    case BW_STORE_RELEASE:
        if (!holds)
            return s->record.held ? BW_OUTCOME_REFUSED : BW_OUTCOME_DONE;
        s->record.held = false;
        s->record.clean = ask->clean;
        s->until = BW_TIME_NEVER;
        *changed = true;
        return BW_OUTCOME_DONE;
    case BW_STORE_NOTE:
        note(s, from, ask);
        *changed = true;
        return BW_OUTCOME_DONE;
    default:
        return BW_OUTCOME_DONE;
    }
}

/* Ends an expired lease before any other request is served. */
static void expire(struct store *s, bw_time now, struct bw_actions *actions)
{
    if (!s->expires || !s->record.held || now < s->until)
        return;
    s->record.held = false;
    s->record.clean = false;
    s->until = BW_TIME_NEVER;
    write_down(s, now, actions);
    notify(s, actions);
}

static void on_ask(struct store *s, const struct bw_message *msg, bw_time now,
                   struct bw_actions *actions)
{
    struct bw_sim_store_ask ask;
    if (msg->items != sizeof ask || msg->from >= s->slots || now < s->out_until)
        return;
    memcpy(&ask, msg->data, sizeof ask);
    if (ask.op == BW_STORE_WATCH && ask.version == s->record.version) {
        s->watchers[msg->from] = (struct watcher){.id = ask.id, .version = ask.version};
        return;
    }
    bool changed = false;
    enum bw_outcome outcome = serve(s, msg->from, &ask, now, &changed);
    if (changed)
        write_down(s, now, actions);
    answer(s, msg->from, ask.id, (enum bw_store_op)ask.op, outcome, actions);
    if (changed)
        notify(s, actions);
}

static void store_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    struct store *s = self;
    s->answers_count = 0;
    if (event->kind == BW_EVENT_START) {
        start(s, &event->start->durable, event->now);
        return;
    }
    expire(s, event->now, actions);
    wipe(s, event->now, actions);
    s->host->book->alive = event->now;
    if (event->kind == BW_EVENT_MESSAGE && event->msg->kind == BW_MSG_STORE_ASK)
        on_ask(s, event->msg, event->now, actions);
}

static bw_time store_deadline(const void *self)
{
    const struct store *s = self;
    return s->expires && s->record.held ? s->until : BW_TIME_NEVER;
}

static void store_status(const void *self, struct bw_elector_status *out)
{
    (void)self;
    *out = (struct bw_elector_status){.state = "store"};
}

const struct bw_elector_ops bw_sim_store_ops = {
    .name = "store",
    .promise = "keeps a lease",
    .bytes = store_bytes,
    .actions_max = store_actions_max,
    .init = store_init,
    .step = store_step,
    .deadline = store_deadline,
    .status = store_status,
};
