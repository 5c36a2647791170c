/* A client of the asker: its requests in flight and the steps of its elector; see asker.h. */
#include "store/asker/state.h"

#include "core/base/assert.h"
#include "core/base/bug.h"
#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static uint64_t random_word(void)
{
    uint64_t word = 0;
    /* getrandom does not fail for 8 bytes once the kernel has entropy */
    if (getrandom(&word, sizeof word, 0) != sizeof word)
        word = (uint64_t)bw_clock_boot() * 0x9e3779b97f4a7c15u;
    return word;
}

/* Computes when this client must be called next, and updates the heap. */
static void refresh(struct bw_asker_client *asked)
{
    bw_time due = asked->alarm;
    if (asked->lease && asked->high)
        due = bw_time_min(due, bw_lease_deadline(asked->lease));
    for (unsigned i = 0; i < ASKER_PENDING_MAX; i++)
        if (asked->pending[i].id != 0)
            due = bw_time_min(due, asked->pending[i].until);
    if (due == asked->due)
        return;
    asked->due = due;
    bw_asker_moved(asked->asker, asked);
}

/* ---- requests ---- */

static struct asker_pending *find(struct bw_asker_client *asked, uint64_t id)
{
    for (unsigned i = 0; i < ASKER_PENDING_MAX; i++)
        if (asked->pending[i].id == id)
            return &asked->pending[i];
    return NULL;
}

/* True for requests that may be cancelled to make room for a new one: losing a NOTE, ENTER or LEAVE
 * costs only time, because it is repeated. */
static bool is_minor(const struct asker_pending *pending)
{
    return pending->op == BW_STORE_NOTE || pending->op == BW_STORE_ENTER ||
           pending->op == BW_STORE_LEAVE;
}

static struct asker_pending *take_slot(struct bw_asker_client *asked)
{
    struct asker_pending *found = find(asked, 0);
    for (unsigned i = 0; !found && i < ASKER_PENDING_MAX; i++)
        if (is_minor(&asked->pending[i]))
            found = &asked->pending[i];
    if (!found) { /* all are important: cancel the oldest, which a newer request has superseded */
        found = &asked->pending[0];
        for (unsigned i = 1; i < ASKER_PENDING_MAX; i++)
            if (asked->pending[i].until < found->until)
                found = &asked->pending[i];
    }
    if (found->id != 0)
        asked->asker->ops->cancel(asked->asker->store, found->id);
    return found;
}

static void forward(struct bw_asker_client *asked, const struct bw_store_request *request)
{
    struct asker_pending *pending = find(asked, request->id);
    if (asked->asker->ops->request(asked->asker->store, request) != 0 && pending) {
        pending->refused = true;
        pending->until = 0;
    }
}

static void ask_store(struct bw_asker_client *asked, const struct bw_store_request *request,
                      bw_time within_ns)
{
    struct bw_store_request sent = *request;
    *take_slot(asked) = (struct asker_pending){
        .id = sent.id, .op = sent.op, .until = bw_time_add(bw_clock_boot(), within_ns)};
    if (asked->hooks.before && !asked->hooks.before(asked->context, &sent))
        asked->held = sent;
    else
        forward(asked, &sent);
}

void bw_asker_client_send_held(struct bw_asker_client *asked)
{
    struct bw_store_request request = asked->held;
    asked->held.id = 0;
    if (request.id == 0 || !find(asked, request.id))
        return;
    if (asked->hooks.before && !asked->hooks.before(asked->context, &request))
        asked->held = request;
    else
        forward(asked, &request);
    refresh(asked);
}

int bw_asker_client_request(struct bw_asker_client *asked, const struct bw_store_request *request,
                            bw_time within_ns)
{
    struct bw_store_request own = *request;
    if (asked->lease || !find(asked, 0))
        return BW_ELIMIT;
    if (asked->high == 0) {
        uint32_t high;
        do
            high = (uint32_t)random_word();
        while (bw_asker_high_taken(asked->asker, high));
        bw_asker_set_high(asked->asker, asked, high);
    }
    own.id = (uint64_t)asked->high << 32 | ++asked->next_low;
    ask_store(asked, &own, within_ns);
    refresh(asked);
    return 0;
}

bool bw_asker_client_is_waiting(const struct bw_asker_client *asked)
{
    for (unsigned i = 0; i < ASKER_PENDING_MAX; i++)
        if (asked->pending[i].id != 0 && asked->pending[i].op != BW_STORE_WATCH)
            return true;
    return false;
}

/* ---- steps ---- */

static void carry_out(struct bw_asker_client *asked, const struct bw_lease_actions *actions)
{
    for (uint32_t i = 0; i < actions->count; i++) {
        const struct bw_lease_action *action = &actions->at[i];
        if (action->kind == BW_LEASE_ASK)
            ask_store(asked, &action->ask.request, action->ask.within_ns);
        else
            asked->hooks.act(asked->context, action);
    }
}

static void step(struct bw_asker_client *asked, const struct bw_lease_event *event)
{
    struct bw_lease_actions actions;
    struct bw_lease_event timed = *event;
    BW_ASSERT(!asked->stepping);
    asked->stepping = true;
    actions.count = 0;
    /* no effect, except for electors whose users declared the clock's maximum error */
    timed.wall = bw_clock_wall();
    bw_lease_step(asked->lease, &timed, &actions);
    carry_out(asked, &actions);
    asked->stepping = false;
}

/* Makes the steps that hooks have queued. */
static void run_queued_steps(struct bw_asker_client *asked)
{
    while (asked->waiting_count > 0) {
        struct asker_step next = asked->waiting[0];
        asked->waiting_count--;
        memmove(asked->waiting, asked->waiting + 1, asked->waiting_count * sizeof next);
        struct bw_lease_event event = {
            .kind = next.kind, .now = bw_clock_boot(), .yes = next.yes, .to = next.to};
        step(asked, &event);
    }
    refresh(asked);
    if (asked->hooks.stepped)
        asked->hooks.stepped(asked->context);
}

/* The random high half of a request id identifies the elector that gets the reply. If another
 * client already uses it, the elector is initialised again with another seed; nothing has been sent
 * yet. */
static void start(struct bw_asker_client *asked)
{
    struct bw_lease_actions actions;
    struct bw_lease_event event = {
        .kind = BW_LEASE_START, .now = bw_clock_boot(), .wall = bw_clock_wall()};
    uint32_t high = 0;
    do {
        asked->config.seed = random_word();
        bw_lease_init(asked->lease, &asked->config);
        actions.count = 0;
        bw_lease_step(asked->lease, &event, &actions);
        BW_ASSERT(actions.count > 0 && actions.at[0].kind == BW_LEASE_ASK);
        high = (uint32_t)(actions.at[0].ask.request.id >> 32);
    } while (bw_asker_high_taken(asked->asker, high));
    bw_asker_set_high(asked->asker, asked, high);
    asked->stepping = true;
    carry_out(asked, &actions);
    asked->stepping = false;
}

static void queue_step(struct bw_asker_client *asked, const struct asker_step *queued)
{
    BW_ASSERT(asked->lease);
    if (queued->kind == BW_LEASE_START && asked->high == 0) {
        start(asked);
    } else {
        BW_ASSERT(asked->waiting_count < ASKER_STEPS_MAX);
        asked->waiting[asked->waiting_count++] = *queued;
    }
    if (!asked->stepping)
        run_queued_steps(asked);
}

void bw_asker_client_step(struct bw_asker_client *asked, enum bw_lease_event_kind kind, bool yes)
{
    struct asker_step queued = {.kind = kind, .yes = yes};
    queue_step(asked, &queued);
}

void bw_asker_client_transfer(struct bw_asker_client *asked, const char *to)
{
    struct asker_step queued = {.kind = BW_LEASE_RESIGN};
    snprintf(queued.to, sizeof queued.to, "%s", to);
    queue_step(asked, &queued);
}

/* ---- answers and time ---- */

static void answer(struct bw_asker_client *asked, const struct bw_store_reply *reply)
{
    struct bw_lease_event event = {
        .kind = BW_LEASE_ANSWER, .now = bw_clock_boot(), .answer = reply};
    if (asked->hooks.answer)
        asked->hooks.answer(asked->context, reply);
    if (asked->lease)
        step(asked, &event);
    run_queued_steps(asked);
}

void bw_asker_client_reply(struct bw_asker_client *asked, const struct bw_store_reply *reply)
{
    struct asker_pending *pending = find(asked, reply->id);
    if (!pending)
        return;
    pending->id = 0;
    if (!asked->hooks.display)
        bw_asker_replied(asked->asker, reply);
    answer(asked, reply);
}

static void expire(struct bw_asker_client *asked, struct asker_pending *pending)
{
    struct bw_store_reply *late = &asked->asker->late;
    bool held = asked->held.id == pending->id, sent = !pending->refused && !held;
    memset(late, 0, sizeof *late);
    late->id = pending->id;
    late->op = pending->op;
    late->outcome = sent ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE;
    late->error = BW_EIO;
    snprintf(late->why, sizeof late->why, "%s",
             held   ? "the request was held back"
             : sent ? "no answer in time"
                    : "the store does not accept requests");
    if (held)
        asked->held.id = 0;
    if (sent)
        asked->asker->ops->cancel(asked->asker->store, pending->id);
    pending->id = 0;
    /* A WATCH that times out without a change is not a failure. A request that was held back never
     * reached the store. */
    bool silence = held || (late->op == BW_STORE_WATCH && sent);
    if (!silence && !asked->hooks.display)
        bw_asker_replied(asked->asker, late);
    answer(asked, late);
}

void bw_asker_client_due(struct bw_asker_client *asked, bw_time now)
{
    struct bw_lease_event timeout = {.kind = BW_LEASE_TIMEOUT, .now = now};
    if (asked->lease && asked->high && now >= bw_lease_deadline(asked->lease))
        step(asked, &timeout);
    run_queued_steps(asked);
    for (unsigned i = 0; i < ASKER_PENDING_MAX; i++)
        if (asked->pending[i].id != 0 && now >= asked->pending[i].until &&
            !BW_BUG(asker_waits_for_the_store))
            expire(asked, &asked->pending[i]);
    if (now >= asked->alarm) {
        asked->alarm = BW_TIME_NEVER;
        if (asked->hooks.alarm)
            asked->hooks.alarm(asked->context, now);
    }
    refresh(asked);
}

void bw_asker_client_alarm(struct bw_asker_client *asked, bw_time at)
{
    asked->alarm = at;
    refresh(asked);
}

/* ---- creation and destruction ---- */

int bw_asker_client_new(struct bw_asker_client **out, struct bw_asker *asker,
                        const struct bw_lease_config *config,
                        const struct bw_asker_client_hooks *hooks, void *context)
{
    struct bw_asker_client *asked = calloc(1, sizeof *asked);
    int error = asked ? 0 : BW_ENOMEM;
    if (asked && config) {
        asked->config = *config;
        asked->config.traits = asker->ops->traits;
        asked->lease = calloc(1, bw_lease_bytes());
        error = asked->lease ? bw_lease_init(asked->lease, &asked->config) : BW_ENOMEM;
    }
    if (!error) {
        asked->asker = asker;
        asked->hooks = *hooks;
        asked->context = context;
        asked->alarm = asked->due = BW_TIME_NEVER;
        error = bw_asker_add(asker, asked);
    }
    if (error && asked) {
        free(asked->lease);
        free(asked);
        return error;
    }
    *out = asked;
    return error;
}

void bw_asker_client_free(struct bw_asker_client *asked)
{
    if (!asked)
        return;
    BW_ASSERT(!asked->stepping);
    for (unsigned i = 0; i < ASKER_PENDING_MAX; i++)
        if (asked->pending[i].id != 0)
            asked->asker->ops->cancel(asked->asker->store, asked->pending[i].id);
    bw_asker_remove(asked->asker, asked);
    free(asked->lease);
    free(asked);
}

const struct bw_lease *bw_asker_client_lease(const struct bw_asker_client *asked)
{
    return asked->lease;
}
