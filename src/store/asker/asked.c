/* One who asks: its requests in flight and the steps of its elector; see asker.h. */
#include "store/asker/state.h"

#include "core/base/assert.h"
#include "core/base/bug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static uint64_t random_word(void)
{
    uint64_t word = 0;
    if (getrandom(&word, sizeof word, 0) != sizeof word) /* never without entropy for so little */
        word = (uint64_t)bw_asker_now() * 0x9e3779b97f4a7c15u;
    return word;
}

/* When something is to be done next, whoever wants it. */
static void refresh(struct bw_asked *asked)
{
    bw_time due = asked->alarm;
    if (asked->lease && asked->high)
        due = bw_time_min(due, bw_lease_deadline(asked->lease));
    for (unsigned i = 0; i < ASKED_PENDING_MAX; i++)
        if (asked->pending[i].id != 0)
            due = bw_time_min(due, asked->pending[i].until);
    if (due == asked->due)
        return;
    asked->due = due;
    bw_asker_moved(asked->asker, asked);
}

/* ---- requests ---- */

static struct asked_pending *find(struct bw_asked *asked, uint64_t id)
{
    for (unsigned i = 0; i < ASKED_PENDING_MAX; i++)
        if (asked->pending[i].id == id)
            return &asked->pending[i];
    return NULL;
}

/* Not worth a place when places are short: its loss costs time only. */
static bool is_minor(const struct asked_pending *pending)
{
    return pending->op == BW_STORE_NOTE || pending->op == BW_STORE_ENTER ||
           pending->op == BW_STORE_LEAVE;
}

static struct asked_pending *place(struct bw_asked *asked)
{
    struct asked_pending *found = find(asked, 0);
    for (unsigned i = 0; !found && i < ASKED_PENDING_MAX; i++)
        if (is_minor(&asked->pending[i]))
            found = &asked->pending[i];
    if (!found) { /* the oldest: the elector has long asked something else instead */
        found = &asked->pending[0];
        for (unsigned i = 1; i < ASKED_PENDING_MAX; i++)
            if (asked->pending[i].until < found->until)
                found = &asked->pending[i];
    }
    if (found->id != 0)
        asked->asker->ops->cancel(asked->asker->store, found->id);
    return found;
}

static void forward(struct bw_asked *asked, const struct bw_store_request *request)
{
    struct asked_pending *pending = find(asked, request->id);
    if (asked->asker->ops->request(asked->asker->store, request) != 0 && pending) {
        pending->refused = true;
        pending->until = 0;
    }
}

static void ask_store(struct bw_asked *asked, const struct bw_store_request *request,
                      bw_time within_ns)
{
    struct bw_store_request sent = *request;
    *place(asked) = (struct asked_pending){
        .id = sent.id, .op = sent.op, .until = bw_time_add(bw_asker_now(), within_ns)};
    if (asked->hooks.before && !asked->hooks.before(asked->context, &sent))
        asked->held = sent;
    else
        forward(asked, &sent);
}

void bw_asked_go(struct bw_asked *asked)
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

int bw_asked_ask(struct bw_asked *asked, const struct bw_store_request *request, bw_time within_ns)
{
    struct bw_store_request own = *request;
    if (asked->lease || !find(asked, 0))
        return BW_ELIMIT;
    if (asked->high == 0) {
        uint32_t high;
        do
            high = (uint32_t)random_word();
        while (bw_asker_high_taken(asked->asker, high));
        bw_asker_name(asked->asker, asked, high);
    }
    own.id = (uint64_t)asked->high << 32 | ++asked->next_low;
    ask_store(asked, &own, within_ns);
    refresh(asked);
    return 0;
}

bool bw_asked_waits(const struct bw_asked *asked)
{
    for (unsigned i = 0; i < ASKED_PENDING_MAX; i++)
        if (asked->pending[i].id != 0 && asked->pending[i].op != BW_STORE_WATCH)
            return true;
    return false;
}

/* ---- steps ---- */

static void carry_out(struct bw_asked *asked, const struct bw_lease_actions *actions)
{
    for (uint32_t i = 0; i < actions->count; i++) {
        const struct bw_lease_action *action = &actions->at[i];
        if (action->kind == BW_LEASE_ASK)
            ask_store(asked, &action->ask.request, action->ask.within_ns);
        else
            asked->hooks.act(asked->context, action);
    }
}

/* The time of day: it decides nothing, but for electors whose users declared how wrong it may be.
 */
static bw_time wall_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (bw_time)now.tv_sec * BW_SEC + now.tv_nsec;
}

static void step(struct bw_asked *asked, const struct bw_lease_event *event)
{
    struct bw_lease_actions actions;
    struct bw_lease_event timed = *event;
    BW_ASSERT(!asked->stepping);
    asked->stepping = true;
    actions.count = 0;
    timed.wall = wall_now();
    bw_lease_step(asked->lease, &timed, &actions);
    carry_out(asked, &actions);
    asked->stepping = false;
}

/* What hooks wanted meanwhile. */
static void step_on(struct bw_asked *asked)
{
    while (asked->waiting_count > 0) {
        struct asked_step next = asked->waiting[0];
        asked->waiting_count--;
        memmove(asked->waiting, asked->waiting + 1, asked->waiting_count * sizeof next);
        struct bw_lease_event event = {
            .kind = next.kind, .now = bw_asker_now(), .yes = next.yes, .to = next.to};
        step(asked, &event);
    }
    refresh(asked);
    if (asked->hooks.stepped)
        asked->hooks.stepped(asked->context);
}

/* Request ids carry a random high half per elector, by which answers find their way. Two alike
 * would be confused: as nothing has been sent yet, such an elector is simply made again. */
static void start(struct bw_asked *asked)
{
    struct bw_lease_actions actions;
    struct bw_lease_event event = {
        .kind = BW_LEASE_START, .now = bw_asker_now(), .wall = wall_now()};
    uint32_t high = 0;
    do {
        asked->config.seed = random_word();
        bw_lease_init(asked->lease, &asked->config);
        actions.count = 0;
        bw_lease_step(asked->lease, &event, &actions);
        BW_ASSERT(actions.count > 0 && actions.at[0].kind == BW_LEASE_ASK);
        high = (uint32_t)(actions.at[0].ask.request.id >> 32);
    } while (bw_asker_high_taken(asked->asker, high));
    bw_asker_name(asked->asker, asked, high);
    asked->stepping = true;
    carry_out(asked, &actions);
    asked->stepping = false;
}

static void want(struct bw_asked *asked, const struct asked_step *wanted)
{
    BW_ASSERT(asked->lease);
    if (wanted->kind == BW_LEASE_START && asked->high == 0) {
        start(asked);
    } else {
        BW_ASSERT(asked->waiting_count < ASKED_STEPS_MAX);
        asked->waiting[asked->waiting_count++] = *wanted;
    }
    if (!asked->stepping)
        step_on(asked);
}

void bw_asked_step(struct bw_asked *asked, enum bw_lease_event_kind kind, bool yes)
{
    struct asked_step wanted = {.kind = kind, .yes = yes};
    want(asked, &wanted);
}

void bw_asked_transfer(struct bw_asked *asked, const char *to)
{
    struct asked_step wanted = {.kind = BW_LEASE_RESIGN};
    snprintf(wanted.to, sizeof wanted.to, "%s", to);
    want(asked, &wanted);
}

/* ---- answers and time ---- */

static void answer(struct bw_asked *asked, const struct bw_store_reply *reply)
{
    struct bw_lease_event event = {.kind = BW_LEASE_ANSWER, .now = bw_asker_now(), .answer = reply};
    if (asked->hooks.answer)
        asked->hooks.answer(asked->context, reply);
    if (asked->lease)
        step(asked, &event);
    step_on(asked);
}

void bw_asked_reply(struct bw_asked *asked, const struct bw_store_reply *reply)
{
    struct asked_pending *pending = find(asked, reply->id);
    if (!pending)
        return;
    pending->id = 0;
    bw_asker_said(asked->asker, reply);
    answer(asked, reply);
}

static void expire(struct bw_asked *asked, struct asked_pending *pending)
{
    struct bw_store_reply *late = &asked->asker->late;
    bool sent = !pending->refused && asked->held.id != pending->id;
    memset(late, 0, sizeof *late);
    late->id = pending->id;
    late->op = pending->op;
    late->outcome = sent ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE;
    late->error = BW_EIO;
    snprintf(late->why, sizeof late->why, "%s",
             sent ? "no answer in time" : "the store takes no request");
    if (asked->held.id == pending->id)
        asked->held.id = 0;
    if (sent)
        asked->asker->ops->cancel(asked->asker->store, pending->id);
    pending->id = 0;
    bool silence = late->op == BW_STORE_WATCH && sent;
    if (!silence) /* a watch without news is no failure */
        bw_asker_said(asked->asker, late);
    answer(asked, late);
}

void bw_asked_due(struct bw_asked *asked, bw_time now)
{
    struct bw_lease_event timeout = {.kind = BW_LEASE_TIMEOUT, .now = now};
    if (asked->lease && asked->high && now >= bw_lease_deadline(asked->lease))
        step(asked, &timeout);
    step_on(asked);
    for (unsigned i = 0; i < ASKED_PENDING_MAX; i++)
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

void bw_asked_alarm(struct bw_asked *asked, bw_time at)
{
    asked->alarm = at;
    refresh(asked);
}

/* ---- coming and going ---- */

int bw_asked_new(struct bw_asked **out, struct bw_asker *asker,
                 const struct bw_lease_config *config, const struct bw_asked_hooks *hooks,
                 void *context)
{
    struct bw_asked *asked = calloc(1, sizeof *asked);
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

void bw_asked_free(struct bw_asked *asked)
{
    if (!asked)
        return;
    BW_ASSERT(!asked->stepping);
    for (unsigned i = 0; i < ASKED_PENDING_MAX; i++)
        if (asked->pending[i].id != 0)
            asked->asker->ops->cancel(asked->asker->store, asked->pending[i].id);
    bw_asker_remove(asked->asker, asked);
    free(asked->lease);
    free(asked);
}

const struct bw_lease *bw_asked_lease(const struct bw_asked *asked)
{
    return asked->lease;
}
