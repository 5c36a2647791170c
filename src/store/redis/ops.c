/* What acquire, renew, release and note change, and the rounds they take.
 *
 * One instance: one script, made from the state as last seen and not carried out over a later one;
 * then once more from that. Several (Redlock, Sanfilippo 2014): lock on all, a majority in time
 * counts, its validity is the TTL less the time it took less drift; then the side record under the
 * lock; whatever fails is unlocked everywhere. What may be asked of a leadership is asked of the
 * lock of this very process. */
#include "core/lease/validity.h"
#include "store/kit/record.h"
#include "store/redis/state.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SPLIT_PAUSE_MS 20u /* nobody got a majority: up to this, per try, before the next */

static void go_on(struct redis_ask *ask);
static void give_back(struct redis_ask *ask);

static const struct bw_store_request *request_of(const struct redis_ask *ask)
{
    return &ask->job->request;
}

static bool is_redlock(const struct redis_ask *ask)
{
    return ask->store->nodes > 1;
}

/* ---- enough replicas (?wait=N) ---- */

static void after_unconfirmed(struct redis_ask *ask)
{
    redis_ask_learn(ask);
    if (ask->done > 0) { /* taken back: certainly not held */
        ask->done = 0;
        snprintf(ask->why, sizeof ask->why, "too few replicas confirmed it (wait=%u)",
                 ask->store->settings.wait);
    }
    redis_ask_fail(ask);
}

static void on_confirmed(struct redis_command *command, const redisReply *reply, bool sent)
{
    struct redis_ask *ask = command->context;
    const struct redis_state *state = &ask->election->state;
    bool same = ask->generation == command->link->generation;
    (void)sent;
    ask->vote[0].command = NULL;
    if (reply && same && reply->type == REDIS_REPLY_INTEGER &&
        reply->integer >= (long long)ask->store->settings.wait) {
        redis_ask_done(ask);
        return;
    }
    ask->lost = 1;
    snprintf(ask->why, sizeof ask->why, "too few replicas confirmed it (wait=%u)",
             ask->store->settings.wait);
    if (request_of(ask)->op != BW_STORE_ACQUIRE || strcmp(state->lock, ask->lock) != 0) {
        redis_ask_fail(ask);
        return;
    }
    ask->record = state->kept;
    bw_record_release(&ask->record, true); /* its work never began */
    redis_ask_round(ask, "release", state->n, state->n + 1, after_unconfirmed);
}

static void confirm(struct redis_ask *ask)
{
    char count[16], ms[24];
    const char *words[] = {"WAIT", count, ms};
    bw_time patience = request_of(ask)->ttl_ns / 12 / BW_MS;
    snprintf(count, sizeof count, "%u", ask->store->settings.wait);
    snprintf(ms, sizeof ms, "%lld", (long long)(patience < 20 ? 20 : patience));
    ask->vote[0].command =
        redis_link_send(&ask->store->node[0].link, 3, words, NULL, on_confirmed, ask);
    if (ask->vote[0].command)
        return;
    ask->lost = 1;
    redis_ask_fail(ask);
}

/* ---- time ---- */

static bool is_valid(const struct redis_ask *ask)
{
    struct timespec now;
    enum bw_store_op op = request_of(ask)->op;
    if (!is_redlock(ask) || (op != BW_STORE_ACQUIRE && op != BW_STORE_RENEW))
        return true; /* the caller counts from when it asked */
    clock_gettime(CLOCK_BOOTTIME, &now);
    bw_time elapsed = (bw_time)now.tv_sec * BW_SEC + now.tv_nsec - ask->started;
    return bw_redlock_validity(request_of(ask)->ttl_ns, elapsed) > 0;
}

static void succeed(struct redis_ask *ask)
{
    enum bw_store_op op = request_of(ask)->op;
    bool lease = op == BW_STORE_ACQUIRE || op == BW_STORE_RENEW;
    if (lease && ask->store->settings.wait)
        confirm(ask);
    else
        redis_ask_done(ask);
}

/* ---- one script ---- */

static void after_read(struct redis_ask *ask)
{
    if (redis_ask_learn(ask))
        go_on(ask);
    else
        redis_ask_fail(ask);
}

static void read_first(struct redis_ask *ask)
{
    redis_ask_round(ask, "read", 0, 0, after_read);
}

static void after_write(struct redis_ask *ask)
{
    bool learned = redis_ask_learn(ask);
    if (ask->done >= ask->store->majority) {
        if (!is_valid(ask)) {
            snprintf(ask->why, sizeof ask->why, "it took longer than the lease lasts");
            redis_ask_fail(ask);
        } else {
            succeed(ask);
        }
    } else if (!learned || ++ask->tries >= REDIS_TRIES_MAX) {
        redis_ask_fail(ask);
    } else {
        go_on(ask);
    }
}

/* ---- acquire ---- */

static void take(struct redis_ask *ask)
{
    const struct redis_state *state = &ask->election->state;
    bool forgotten = redis_election_mourns(ask->election);
    if ((ask->fresh || forgotten) && state->locked && strcmp(state->lock, ask->lock) != 0) {
        redis_ask_refuse(ask, BW_EBUSY,
                         forgotten ? "the server forgot it, and until its TTL is over " : "");
        return;
    }
    redis_state_take(state, request_of(ask), &ask->record);
    redis_ask_round(ask, "take", state->n, state->n + 1, after_write);
}

static void after_commit(struct redis_ask *ask)
{
    struct redis_state merged;
    if (ask->done >= ask->store->majority && is_valid(ask)) {
        redis_ask_learn(ask);
        redis_ask_done(ask);
    } else if (ask->again > 0 && ++ask->tries < REDIS_TRIES_MAX && redis_ask_merge(ask, &merged)) {
        ask->record.note = merged.kept.note; /* all else is ours to write under the lock */
        redis_ask_round(ask, "commit", merged.n, merged.n + 1, after_commit);
    } else {
        give_back(ask);
    }
}

static void after_lock(struct redis_ask *ask)
{
    struct redis_state merged;
    if (ask->done < ask->store->majority || !is_valid(ask) || !redis_ask_merge(ask, &merged)) {
        give_back(ask);
        return;
    }
    memcpy(merged.stranger, ask->election->state.stranger, sizeof merged.stranger);
    redis_state_take(&merged, request_of(ask), &ask->record);
    redis_ask_round(ask, "commit", merged.n, merged.n + 1, after_commit);
}

static void refuse_split(struct redis_ask *ask)
{
    redis_ask_refuse(ask, BW_EBUSY,
                     ask->election->state.locked ? "no majority of the instances was free: "
                                                 : "no majority of the instances was free");
}

static void after_drop(struct redis_ask *ask)
{
    bool learned = redis_ask_learn(ask);
    if (ask->lost > 0 || !learned) {
        ask->done = 0; /* unlocked there: what is unknown is what did not answer */
        redis_ask_fail(ask);
    } else if (ask->too_few) {
        ask->done = 0; /* whatever was locked is free again */
        redis_ask_fail(ask);
    } else if (ask->election->state.locked && !ask->election->state.in_doubt) {
        redis_ask_refuse(ask, BW_EBUSY, "");
    } else { /* several took some each: they must not meet again at once */
        unsigned ms = (unsigned)bw_rng_between(&ask->store->rng, 1, SPLIT_PAUSE_MS);
        redis_ask_pause(ask, ms, refuse_split);
    }
}

static void give_back(struct redis_ask *ask)
{
    ask->too_few = ask->unsent + ask->lost > ask->store->nodes - ask->store->majority;
    redis_ask_round(ask, "drop", 0, 0, after_drop);
}

/* ---- renew, release, note ---- */

static bool is_leadership(const struct redis_ask *ask)
{
    const struct redis_state *state = &ask->election->state;
    return redis_lock_is(state, request_of(ask)->candidate, ask->store->nonce) &&
           strcmp(state->lock, state->owner) == 0 && state->token == request_of(ask)->token;
}

/* It lapsed before the release came, and nobody has followed. */
static bool has_lapsed(const struct redis_ask *ask)
{
    struct redis_state state = ask->election->state;
    if (state.locked || !state.kept.held || state.stranger[0] ||
        request_of(ask)->op != BW_STORE_RELEASE)
        return false;
    state.locked = true;
    memcpy(state.lock, state.owner, sizeof state.lock);
    return redis_lock_is(&state, request_of(ask)->candidate, ask->store->nonce) &&
           state.token == request_of(ask)->token;
}

static void renew(struct redis_ask *ask)
{
    const struct redis_state *state = &ask->election->state;
    ask->record = state->kept;
    bool changed = bw_record_renew(&ask->record, request_of(ask));
    changed |= ask->record.ttl_ns != state->kept.ttl_ns;
    memcpy(ask->lock, state->lock, sizeof ask->lock);
    redis_ask_round(ask, is_redlock(ask) ? "heal" : "renew", state->n, state->n + changed,
                    after_write);
}

static void release(struct redis_ask *ask)
{
    const struct redis_state *state = &ask->election->state;
    ask->record = state->kept;
    bw_record_release(&ask->record, request_of(ask)->clean);
    memcpy(ask->lock, state->owner, sizeof ask->lock);
    redis_ask_round(ask, "release", state->n, state->n + 1, after_write);
}

static void put_note(struct redis_ask *ask)
{
    const struct redis_state *state = &ask->election->state;
    ask->record = state->kept;
    bw_record_note(&ask->record, &request_of(ask)->note);
    redis_ask_round(ask, "note", state->n, state->n + 1, after_write);
}

static void go_on(struct redis_ask *ask)
{
    enum bw_store_op op = request_of(ask)->op;
    if (op == BW_STORE_NOTE)
        put_note(ask);
    else if (op == BW_STORE_ACQUIRE)
        take(ask);
    else if (!is_leadership(ask) && !has_lapsed(ask))
        redis_ask_refuse(ask, BW_ENOTLEADER, ask->election->state.locked ? "" : "nobody holds it");
    else if (op == BW_STORE_RENEW)
        renew(ask);
    else
        release(ask);
}

void redis_change_start(struct redis_ask *ask)
{
    const struct bw_store_request *request = request_of(ask);
    struct redis_election *election = ask->election;
    bool known = election->known;
    if (request->op == BW_STORE_ACQUIRE) {
        uint64_t wait = redis_turn_wait(&election->turn, &election->state, request->candidate,
                                        uv_now(ask->store->loop));
        redis_lock_value(ask->lock, request->candidate, request->id, ask->store->nonce);
        if (is_redlock(ask) && redis_election_mourns(election))
            redis_ask_refuse(ask, BW_EBUSY, "the instances forgot it, and until its TTL is over ");
        else if (is_redlock(ask))
            redis_ask_round(ask, "lock", 0, 0, after_lock);
        else if (wait)
            redis_ask_pause(ask, (unsigned)wait, read_first);
        else if (known)
            take(ask);
        else
            read_first(ask);
    } else if (known && (request->op == BW_STORE_NOTE || is_leadership(ask))) {
        go_on(ask);
    } else {
        read_first(ask);
    }
}
