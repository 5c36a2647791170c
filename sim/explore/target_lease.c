/* The target lease: the shipped lease elector (src/core/lease) with two candidates and a store.
 *
 * Model: the store keeps one record, compares versions, and loses nothing; candidates judge expiry
 * by watching the version (the trait OBSERVED). It follows the rules of sim/stores/store_model.c. A
 * request may be served at any time, also after its candidate gave up waiting; a reply may arrive
 * at any time or never. Candidate 1 extends its lease apart from the record (the trait
 * LEASE_APART): the store may write its record without extending the lease, and then the reply is
 * lost. Clocks show the same time. A crash of a candidate does not end its work, which runs until
 * the guardian has killed it, at the end of the schedule at the latest.
 *
 * Judged: the work of two candidates never overlaps, tokens grow, no candidate releases the record
 * while its work may run, no schedule ends later than a TTL after the request that the store
 * granted, and the store's record is not taken before then. A candidate whose last reply named it
 * as the holder sends RELEASE before it stops. */
#include "core/lease/lease.h"

#include "core/base/assert.h"
#include "sim/explore/targets.h"

#include <stdio.h>
#include <string.h>

#define CANDIDATES 2u
#define REQUESTS   4u /* outstanding per candidate */
#define TICK       (100 * BW_MS)
#define START      (1000 * TICK)
#define DEAD_IDS   64u /* different request ids of crashed processes in one state */

enum verb {
    ADVANCE,
    TIMEOUT,
    SERVE,      /* the store serves request B of candidate A */
    SERVE_PART, /* it writes the record of an ACQUIRE, does not extend the lease, and the reply is
                 * lost */
    ANSWER,     /* its reply arrives */
    UNKNOWN,    /* the candidate gives up waiting for it */
    WORK_DEAD,
    CRASH, /* and restart, with another random part of its request ids */
    RESIGN,
    STOP, /* the candidate shuts down; only a crash starts it again */
    VERBS
};

static const struct bw_explore_verb verbs[VERBS] = {
    {"advance", ""},   {"timeout", "A"},   {"serve", "A B"},   {"serve-part", "A B"},
    {"answer", "A B"}, {"unknown", "A B"}, {"work-dead", "A"}, {"crash", "A"},
    {"resign", "A"},   {"stop", "A"},
};

#define APART 1u /* the candidate that extends its lease apart from the record */

static const char *const names[CANDIDATES + 1] = {"", "1", "2"};

struct record {
    uint64_t version, request;
    bw_token token;
    bw_time ttl_ns;
    uint64_t holder; /* candidate; 0: none so far */
    uint64_t held, clean;
};

enum stage { FREE, ASKED, SERVED };

struct request {
    uint64_t stage;
    uint64_t given_up; /* the candidate no longer waits */
    uint64_t op, id, steal, steal_request, version, clean, outcome;
    bw_token token;
    bw_time ttl_ns, sent, within;
    struct record reply;
};

struct work {
    uint64_t runs, ends; /* `ends`: the work has been asked to stop */
    bw_time end;         /* dead by then */
};

struct world {
    bw_time now;
    uint64_t faults, seeds;
    struct record record;
    bw_token token; /* highest of a leader */
    struct request request[CANDIDATES][REQUESTS];
    struct work work[CANDIDATES];
    bw_time valid[CANDIDATES];  /* the store granted a lease that was requested a TTL before then */
    uint64_t stops[CANDIDATES]; /* it was asked to shut down */
    uint64_t owns[CANDIDATES];  /* the last reply named it as holder; it sent no RELEASE since */
    /* the electors follow, bw_lease_bytes() each */
};

static size_t round_up(size_t size)
{
    return (size + 63) / 64 * 64;
}

static struct bw_lease *lease_of(struct world *w, uint32_t candidate)
{
    unsigned char *first = (unsigned char *)w + round_up(sizeof *w);
    return (struct bw_lease *)(void *)(first + (candidate - 1) * round_up(bw_lease_bytes()));
}

static size_t bytes(const struct bw_explore_options *options)
{
    (void)options;
    return round_up(sizeof(struct world)) + CANDIDATES * round_up(bw_lease_bytes());
}

static uint32_t spans(const void *state, struct bw_explore_span *out)
{
    (void)state;
    *out = (struct bw_explore_span){.length = bytes(NULL)};
    return 1;
}

/* ---- steps ---- */

static bool check_end(const struct world *w, uint32_t candidate, bw_time end, char *why)
{
    if (end <= w->valid[candidate - 1])
        return true;
    snprintf(why, BW_EXPLORE_WHY, "candidate %u may work longer than the lease that was granted",
             candidate);
    return false;
}

static bool start_work(struct world *w, uint32_t candidate, const struct bw_lease_action *action,
                       char *why)
{
    struct work *work = &w->work[candidate - 1];
    for (uint32_t other = 1; other <= CANDIDATES; other++)
        if (other != candidate && w->work[other - 1].runs && w->work[other - 1].end > w->now) {
            snprintf(why, BW_EXPLORE_WHY, "the work of %u starts while that of %u may run",
                     candidate, other);
            return false;
        }
    if (action->token <= w->token) {
        snprintf(why, BW_EXPLORE_WHY, "candidate %u leads with token %llu after %llu", candidate,
                 (unsigned long long)action->token, (unsigned long long)w->token);
        return false;
    }
    w->token = action->token;
    if (!check_end(w, candidate, action->schedule.end, why))
        return false;
    *work = (struct work){.runs = 1, .end = action->schedule.end};
    return true;
}

static bool send(struct world *w, uint32_t candidate, const struct bw_lease_ask *ask, char *why)
{
    struct work *work = &w->work[candidate - 1];
    if (ask->request.op == BW_STORE_RELEASE && work->runs && work->end > w->now) {
        snprintf(why, BW_EXPLORE_WHY, "candidate %u releases while its work may run", candidate);
        return false;
    }
    if (ask->request.op == BW_STORE_RELEASE)
        w->owns[candidate - 1] = 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct request *r = &w->request[candidate - 1][i];
        if (r->stage != FREE)
            continue;
        *r = (struct request){.stage = ASKED,
                              .op = ask->request.op,
                              .id = ask->request.id,
                              .steal = ask->request.steal,
                              .steal_request = ask->request.steal_request,
                              .version = ask->request.version,
                              .clean = ask->request.clean,
                              .token = ask->request.token,
                              .ttl_ns = ask->request.ttl_ns,
                              .sent = w->now,
                              .within = ask->within_ns};
        return true;
    }
    return true; /* lost: the table is full */
}

static bool act(struct world *w, uint32_t candidate, const struct bw_lease_action *action,
                char *why)
{
    struct work *work = &w->work[candidate - 1];
    switch (action->kind) {
    case BW_LEASE_ASK:
        return send(w, candidate, &action->ask, why);
    case BW_LEASE_ELECTED:
        return start_work(w, candidate, action, why);
    case BW_LEASE_EXTENDED:
        if (!work->runs || work->ends)
            return true;
        work->end = action->schedule.end;
        return check_end(w, candidate, work->end, why);
    case BW_LEASE_STEP_DOWN:
        work->ends = work->runs;
        return true;
    case BW_LEASE_STOPPED:
        if (w->owns[candidate - 1])
            snprintf(why, BW_EXPLORE_WHY, "candidate %u stops without a release of its record",
                     candidate);
        return !w->owns[candidate - 1];
    default:
        return true;
    }
}

static enum bw_explore_result step(struct world *w, uint32_t candidate,
                                   struct bw_lease_event *event, char *why)
{
    static struct bw_lease_actions actions;
    event->now = w->now;
    actions.count = 0;
    bw_lease_step(lease_of(w, candidate), event, &actions);
    for (uint32_t i = 0; i < actions.count; i++)
        if (!act(w, candidate, &actions.at[i], why))
            return BW_EXPLORE_VIOLATION;
    return BW_EXPLORE_DONE;
}

static enum bw_explore_result start(struct world *w, uint32_t candidate, char *why)
{
    struct bw_lease_config config = {
        .election = "e",
        .candidate = names[candidate],
        .value = "",
        .terms = {.ttl_ns = 12 * TICK, .kill_after_ns = TICK, .margin_ns = TICK},
        .retry_ns = 2 * TICK,
        .grace_ns = TICK,
        .traits =
            BW_STORE_TOKEN | BW_STORE_OBSERVED | (candidate == APART ? BW_STORE_LEASE_APART : 0u),
        .seed = ++w->seeds,
    };
    struct bw_lease *lease = lease_of(w, candidate);
    int error = bw_lease_init(lease, &config);
    BW_ASSERT(error == 0);
    bw_lease_fix_draws(lease);
    return step(w, candidate, &(struct bw_lease_event){.kind = BW_LEASE_START}, why);
}

static const char *begin(void *state, const struct bw_explore_options *options, char *why)
{
    struct world *w = state;
    (void)options;
    w->now = START;
    w->faults = 2;
    w->record.clean = 1;
    for (uint32_t candidate = 1; candidate <= CANDIDATES; candidate++)
        if (start(w, candidate, why) != BW_EXPLORE_DONE)
            return why;
    return NULL;
}

/* ---- the store ---- */

static enum bw_outcome acquire(struct world *w, uint32_t from, const struct request *r)
{
    struct record *record = &w->record;
    if (record->held && record->request == r->id && record->holder == from)
        return BW_OUTCOME_DONE;
    bool same = r->steal_request == 0 || r->steal_request == record->request;
    if (record->held && (!r->steal || r->steal != record->version || !same))
        return BW_OUTCOME_REFUSED;
    *record = (struct record){.version = record->version + 1,
                              .request = r->id,
                              .token = record->token + 1,
                              .ttl_ns = r->ttl_ns,
                              .holder = from,
                              .held = 1};
    return BW_OUTCOME_DONE;
}

static enum bw_outcome change(struct world *w, uint32_t from, const struct request *r)
{
    struct record *record = &w->record;
    bool holds = record->held && record->holder == from && record->token == r->token;
    if (r->op == BW_STORE_ACQUIRE)
        return acquire(w, from, r);
    if (r->op != BW_STORE_RENEW && r->op != BW_STORE_RELEASE)
        return BW_OUTCOME_DONE;
    if (!holds)
        return r->op == BW_STORE_RELEASE && !record->held ? BW_OUTCOME_DONE : BW_OUTCOME_REFUSED;
    record->version++;
    if (r->op == BW_STORE_RELEASE) {
        record->held = 0;
        record->clean = r->clean;
    }
    return BW_OUTCOME_DONE;
}

/* The record was taken from a holder that may still rely on it. */
static bool taken_early(const struct world *w, const struct record *before)
{
    const struct work *work = &w->work[before->holder ? before->holder - 1 : 0];
    return before->held && before->request != w->record.request && work->runs && work->end > w->now;
}

static enum bw_explore_result serve(struct world *w, uint32_t from, struct request *r, char *why)
{
    struct record before = w->record;
    r->outcome = change(w, from, r);
    if (taken_early(w, &before)) {
        snprintf(why, BW_EXPLORE_WHY,
                 "candidate %u takes the record while the work of %llu may run", from,
                 (unsigned long long)before.holder);
        return BW_EXPLORE_VIOLATION;
    }
    r->reply = w->record;
    r->stage = SERVED;
    return BW_EXPLORE_DONE;
}

static enum bw_explore_result serve_whole(struct world *w, uint32_t from, struct request *r,
                                          char *why)
{
    enum bw_explore_result result = serve(w, from, r, why);
    bool lengthens = r->op == BW_STORE_ACQUIRE || r->op == BW_STORE_RENEW;
    if (lengthens && r->outcome == BW_OUTCOME_DONE)
        w->valid[from - 1] = bw_time_max(w->valid[from - 1], r->sent + r->ttl_ns);
    if (r->given_up)
        *r = (struct request){0};
    return result;
}

/* A late reply to a renewal is older than a RELEASE, and tells a candidate nothing. */
static void note_owner(struct world *w, uint32_t candidate, const struct request *r)
{
    bool own =
        r->reply.held && r->reply.request >> 32 == bw_lease_next_id(lease_of(w, candidate)) >> 32;
    if (!own || r->op == BW_STORE_READ || r->op == BW_STORE_ACQUIRE)
        w->owns[candidate - 1] = own;
}

static enum bw_explore_result answer(struct world *w, uint32_t to, struct request *r, char *why)
{
    static struct bw_store_reply reply;
    memset(&reply, 0, sizeof reply);
    reply.id = r->id;
    reply.op = (enum bw_store_op)r->op;
    reply.outcome = r->stage == SERVED ? (enum bw_outcome)r->outcome : BW_OUTCOME_UNKNOWN;
    if (r->stage == SERVED) {
        struct bw_store_record *record = &reply.record;
        record->version = r->reply.version;
        record->held = r->reply.held;
        record->clean = r->reply.clean;
        record->request = r->reply.request;
        record->token = r->reply.token;
        record->ttl_ns = r->reply.ttl_ns;
        record->left_ns = BW_TIME_NEVER;
        snprintf(record->holder, sizeof record->holder, "%s", names[r->reply.holder]);
        note_owner(w, to, r);
        *r = (struct request){0};
    } else {
        r->given_up = 1;
    }
    struct bw_lease_event event = {.kind = BW_LEASE_ANSWER, .answer = &reply};
    return step(w, to, &event, why);
}

/* ---- digest ---- */

/* Ids of processes that crashed, in the order of their first use in a digest. */
static struct {
    uint64_t id[DEAD_IDS];
    uint32_t count;
} dead;

/* Only the equality of such ids matters, so they are numbered. */
static uint64_t name_of_dead(uint64_t request)
{
    uint32_t i = 0;
    while (i < dead.count && dead.id[i] != request)
        i++;
    BW_ASSERT(i < DEAD_IDS);
    dead.id[i] = request;
    dead.count = i == dead.count ? i + 1 : dead.count;
    return i + 1;
}

/* The id of a running elector: its candidate and how many requests ago. */
static uint64_t name(const void *context, uint64_t request)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    struct world *w = (struct world *)(uintptr_t)context;
    for (uint32_t candidate = 1; candidate <= CANDIDATES; candidate++) {
        uint64_t next = bw_lease_next_id(lease_of(w, candidate));
        if (next >> 32 == request >> 32)
            return (uint64_t)candidate << 48 | (next - request);
    }
    return name_of_dead(request);
}

static void add_request(const struct world *w, const struct request *r, struct bw_digest *out)
{
    bw_digest_add(out, r->stage << 16 | r->given_up << 8 | r->op);
    if (r->stage == FREE)
        return;
    bw_digest_add(out, name(w, r->id));
    bw_digest_add(out, r->steal ? w->record.version - r->steal + 1 : 0);
    bw_digest_add(out, r->steal_request ? name(w, r->steal_request) : 0);
    bw_digest_add(out, r->token << 1 | r->clean);
    bw_digest_time(out, r->given_up ? 0 : r->sent + r->within);
    bool lengthens = r->op == BW_STORE_ACQUIRE || r->op == BW_STORE_RENEW;
    bw_digest_age(out, lengthens && r->stage == ASKED ? r->sent : -1);
    if (r->stage != SERVED)
        return;
    bw_digest_add(out, r->reply.version ? w->record.version - r->reply.version : UINT64_MAX);
    bw_digest_add(out, r->reply.request ? name(w, r->reply.request) : 0);
    bw_digest_add(out, r->reply.token << 8 | r->reply.holder << 4 | r->reply.held << 3 |
                           r->reply.clean << 2 | r->outcome);
}

static void digest(void *state, struct bw_digest *out)
{
    struct world *w = state;
    struct bw_lease_naming naming = {.name = name, .context = w, .version = w->record.version};
    out->now = w->now;
    dead.count = 0;
    bw_digest_add(out, w->faults);
    bw_digest_add(out, w->record.token << 8 | w->record.holder << 4 | w->record.held << 1 |
                           w->record.clean);
    bw_digest_add(out, (w->record.version > 0) | w->token << 8);
    bw_digest_add(out, w->record.request ? name(w, w->record.request) : 0);
    for (uint32_t candidate = 1; candidate <= CANDIDATES; candidate++) {
        const struct work *work = &w->work[candidate - 1];
        bool runs = work->runs && work->end > w->now;
        bw_digest_add(out, (uint64_t)runs | (runs ? work->ends << 1 : 0) | work->runs << 2 |
                               w->owns[candidate - 1] << 3 | w->stops[candidate - 1] << 4);
        bw_digest_time(out, runs ? work->end : 0);
        bw_digest_time(out, w->valid[candidate - 1]);
        for (uint32_t i = 0; i < REQUESTS; i++)
            add_request(w, &w->request[candidate - 1][i], out);
        bw_lease_digest(lease_of(w, candidate), &naming, out);
    }
}

/* ---- choices ---- */

static bool serves_in_parts(uint32_t candidate, const struct request *r)
{
    return candidate == APART && r->stage == ASKED && r->op == BW_STORE_ACQUIRE && !r->given_up;
}

static uint32_t choices(void *state, struct bw_explore_action *out)
{
    struct world *w = state;
    uint32_t count = 0;
    out[count++] = (struct bw_explore_action){ADVANCE, 0, 0, 0};
    for (uint8_t id = 1; id <= CANDIDATES; id++) {
        if (bw_lease_deadline(lease_of(w, id)) < BW_TIME_NEVER)
            out[count++] = (struct bw_explore_action){TIMEOUT, id, 0, 0};
        if (w->work[id - 1].runs)
            out[count++] = (struct bw_explore_action){WORK_DEAD, id, 0, 0};
        if (w->faults > 0) {
            out[count++] = (struct bw_explore_action){CRASH, id, 0, 0};
            out[count++] = (struct bw_explore_action){RESIGN, id, 0, 0};
            if (!w->stops[id - 1])
                out[count++] = (struct bw_explore_action){STOP, id, 0, 0};
        }
        for (uint8_t k = 0; k < REQUESTS; k++) {
            const struct request *r = &w->request[id - 1][k];
            if (r->stage == ASKED)
                out[count++] = (struct bw_explore_action){SERVE, id, k, 0};
            if (serves_in_parts(id, r))
                out[count++] = (struct bw_explore_action){SERVE_PART, id, k, 0};
            if (r->stage == SERVED)
                out[count++] = (struct bw_explore_action){ANSWER, id, k, 0};
            if (r->stage != FREE && !r->given_up)
                out[count++] = (struct bw_explore_action){UNKNOWN, id, k, 0};
        }
    }
    return count;
}

static bw_time next_tick(bw_time time)
{
    return (time + TICK - 1) / TICK * TICK;
}

static enum bw_explore_result advance(struct world *w)
{
    static uint64_t words[BW_EXPLORE_DIGEST_MAX];
    struct bw_digest next = {.at = words, .cap = BW_EXPLORE_DIGEST_MAX, .next = BW_TIME_NEVER};
    digest(w, &next);
    if (next.next == BW_TIME_NEVER)
        return BW_EXPLORE_IMPOSSIBLE;
    w->now = next_tick(next.next);
    return BW_EXPLORE_DONE;
}

/* A crashed candidate's requests stay on their way; no candidate waits for the replies. */
static enum bw_explore_result crash(struct world *w, uint32_t candidate, char *why)
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct request *r = &w->request[candidate - 1][i];
        r->given_up = r->stage == ASKED;
        if (r->stage == SERVED)
            *r = (struct request){0};
    }
    w->owns[candidate - 1] = w->stops[candidate - 1] = 0;
    return start(w, candidate, why);
}

/* The caller gives up at the end of the time that the elector allowed. */
static enum bw_explore_result give_up(struct world *w, uint32_t candidate, struct request *r,
                                      char *why)
{
    w->now = bw_time_max(w->now, next_tick(r->sent + r->within));
    bool served = r->stage == SERVED;
    r->stage = ASKED;
    enum bw_explore_result result = answer(w, candidate, r, why);
    if (served)
        *r = (struct request){0}; /* the reply is lost */
    return result;
}

static enum bw_explore_result serve_part(struct world *w, uint32_t candidate, struct request *r,
                                         char *why)
{
    enum bw_explore_result result = serve(w, candidate, r, why);
    return result == BW_EXPLORE_DONE ? give_up(w, candidate, r, why) : result;
}

static enum bw_explore_result with_candidate(struct world *w, struct bw_explore_action action,
                                             char *why)
{
    uint32_t id = action.a;
    struct request *r = &w->request[id - 1][action.b % REQUESTS];
    switch ((enum verb)action.kind) {
    case TIMEOUT:
        if (bw_lease_deadline(lease_of(w, id)) == BW_TIME_NEVER)
            return BW_EXPLORE_IMPOSSIBLE;
        w->now = bw_time_max(w->now, next_tick(bw_lease_deadline(lease_of(w, id))));
        return step(w, id, &(struct bw_lease_event){.kind = BW_LEASE_TIMEOUT}, why);
    case SERVE:
        return r->stage == ASKED ? serve_whole(w, id, r, why) : BW_EXPLORE_IMPOSSIBLE;
    case SERVE_PART:
        return serves_in_parts(id, r) ? serve_part(w, id, r, why) : BW_EXPLORE_IMPOSSIBLE;
    case ANSWER:
        return r->stage == SERVED ? answer(w, id, r, why) : BW_EXPLORE_IMPOSSIBLE;
    case UNKNOWN:
        return r->stage != FREE && !r->given_up ? give_up(w, id, r, why) : BW_EXPLORE_IMPOSSIBLE;
    case WORK_DEAD:
        w->work[id - 1] = (struct work){0};
        return step(w, id, &(struct bw_lease_event){.kind = BW_LEASE_WORK_DEAD}, why);
    case CRASH:
        return crash(w, id, why);
    case STOP:
        w->stops[id - 1] = 1;
        return step(w, id, &(struct bw_lease_event){.kind = BW_LEASE_STOP}, why);
    default:
        return step(w, id, &(struct bw_lease_event){.kind = BW_LEASE_RESIGN, .to = ""}, why);
    }
}

static enum bw_explore_result apply(void *state, struct bw_explore_action action, char *why)
{
    struct world *w = state;
    bool fault = action.kind == CRASH || action.kind == RESIGN || action.kind == STOP;
    if (action.kind == ADVANCE)
        return advance(w);
    if (action.a < 1 || action.a > CANDIDATES || action.b >= REQUESTS || (fault && w->faults == 0))
        return BW_EXPLORE_IMPOSSIBLE;
    w->faults -= fault;
    return with_candidate(w, action, why);
}

static void describe(void *state, char *out, size_t size)
{
    struct world *w = state;
    int length =
        snprintf(out, size, "t=%lld record %s %llu v%llu", (long long)((w->now - START) / TICK),
                 w->record.held ? "of" : "free after", (unsigned long long)w->record.holder,
                 (unsigned long long)w->record.version);
    for (uint32_t id = 1; id <= CANDIDATES && (size_t)length < size; id++) {
        struct bw_lease_status status;
        const struct work *work = &w->work[id - 1];
        bw_lease_status(lease_of(w, id), &status);
        length += snprintf(out + length, size - (size_t)length, "  %u:%s", id, status.state);
        if (work->runs && work->end > w->now && (size_t)length < size)
            length += snprintf(out + length, size - (size_t)length, " works until %lld",
                               (long long)((work->end - START) / TICK));
    }
}

const struct bw_explore_target bw_explore_lease = {
    .name = "lease",
    .about = "the lease elector over a store that candidates watch (src/core/lease)",
    .bounds = "2 candidates, 4 requests of each in flight; 2 crashes, resignations or shutdowns",
    .depth = 10,
    .verbs = verbs,
    .verbs_count = VERBS,
    .bytes = bytes,
    .begin = begin,
    .spans = spans,
    .choices = choices,
    .apply = apply,
    .digest = digest,
    .describe = describe,
};
