/* The changes that acquire, renew, release and note make, and the rounds they take.
 *
 * One instance: one script writes the change that was computed from the last known state. If the
 * server has a later state, the script rejects the change and the store computes it again.
 *
 * Several instances (Redlock, Sanfilippo 2014): the store locks all instances. A majority within
 * the validity time counts; the validity is the TTL minus the elapsed time minus drift. The store
 * then writes the side record under the lock. If a step fails, it unlocks all instances.
 *
 * Renew and release require that this process holds the lock. */
#include "core/lease/redlock_validity.h"
#include "os/clock.h"
#include "store/kit/record.h"
#include "store/redis/state.h"

#include <stdio.h>
#include <string.h>

#define SPLIT_PAUSE_MS 20u /* no candidate got a majority: longest pause before the next try */

static void proceed(struct redis_ask *ask);
static void unlock_all(struct redis_ask *ask);

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
    if (ask->done > 0) { /* the lock was released again: certainly not held */
        ask->done = 0;
        snprintf(ask->why, sizeof ask->why, "too few replicas confirmed the write (wait=%u)",
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
    snprintf(ask->why, sizeof ask->why, "too few replicas confirmed the write (wait=%u)",
             ask->store->settings.wait);
    if (request_of(ask)->op != BW_STORE_ACQUIRE || strcmp(state->lock, ask->lock) != 0) {
        redis_ask_fail(ask);
        return;
    }
    ask->record = state->kept;
    bw_record_vacate(&ask->record, true); /* no work has started */
    redis_ask_round(ask, "release", state->n, state->n + 1, after_unconfirmed);
}

static void confirm(struct redis_ask *ask)
{
    char count[16], ms[24];
    const char *words[] = {"WAIT", count, ms};
    bw_time timeout = request_of(ask)->ttl_ns / 12 / BW_MS;
    snprintf(count, sizeof count, "%u", ask->store->settings.wait);
    snprintf(ms, sizeof ms, "%lld", (long long)(timeout < 20 ? 20 : timeout));
    ask->vote[0].command =
        redis_link_send(&ask->store->node[0].link, 3, words, NULL, on_confirmed, ask);
    if (ask->vote[0].command)
        return;
    ask->lost = 1;
    redis_ask_fail(ask);
}

/* ---- validity ---- */

static bool is_valid(const struct redis_ask *ask)
{
    enum bw_store_op op = request_of(ask)->op;
    if (!is_redlock(ask) || (op != BW_STORE_ACQUIRE && op != BW_STORE_RENEW))
        return true; /* the caller counts the lease from when it sent the request */
    bw_time elapsed = bw_clock_boot() - ask->started;
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
        proceed(ask);
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
            snprintf(ask->why, sizeof ask->why,
                     "the instances replied after the lease had expired");
            redis_ask_fail(ask);
        } else {
            succeed(ask);
        }
    } else if (!learned || ++ask->tries >= REDIS_TRIES_MAX) {
        redis_ask_fail(ask);
    } else {
        proceed(ask);
    }
}

/* ---- acquire ---- */

static void take(struct redis_ask *ask)
{
    const struct redis_state *state = &ask->election->state;
    bool forgotten = redis_election_lock_is_forgotten(ask->election);
    if ((ask->fresh || forgotten) && state->locked && strcmp(state->lock, ask->lock) != 0) {
        redis_ask_refuse(ask, BW_EBUSY,
                         forgotten ? "the server lost the lock; until its TTL expires it is " : "");
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
        ask->record.note = merged.kept.note; /* the lock protects all other fields */
        redis_ask_round(ask, "commit", merged.n, merged.n + 1, after_commit);
    } else {
        unlock_all(ask);
    }
}

static void after_lock(struct redis_ask *ask)
{
    struct redis_state merged;
    if (ask->done < ask->store->majority || !is_valid(ask) || !redis_ask_merge(ask, &merged)) {
        unlock_all(ask);
        return;
    }
    memcpy(merged.foreign_holder, ask->election->state.foreign_holder,
           sizeof merged.foreign_holder);
    redis_state_take(&merged, request_of(ask), &ask->record);
    redis_ask_round(ask, "commit", merged.n, merged.n + 1, after_commit);
}

static void refuse_split(struct redis_ask *ask)
{
    redis_ask_refuse(ask, BW_EBUSY,
                     ask->election->state.locked ? "no majority of the instances is free: "
                                                 : "no majority of the instances is free");
}

/* The instances that replied are unlocked. Only those without a reply may still have our lock. If
 * they are a minority (`learned`), the acquisition has certainly failed. */
static void after_drop(struct redis_ask *ask)
{
    bool learned = redis_ask_learn(ask);
    if (!learned || ask->too_few) {
        ask->done = 0;
        redis_ask_fail(ask);
    } else if (ask->election->state.locked && !ask->election->state.uncertain) {
        redis_ask_refuse(ask, BW_EBUSY, "");
    } else { /* several candidates locked a minority each: a random pause separates them */
        unsigned ms = (unsigned)bw_rng_between(&ask->store->rng, 1, SPLIT_PAUSE_MS);
        redis_ask_pause(ask, ms, refuse_split);
    }
}

static void unlock_all(struct redis_ask *ask)
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

/* True if the lease expired before the release arrived and no other candidate has acquired it. */
static bool has_lapsed(const struct redis_ask *ask)
{
    struct redis_state state = ask->election->state;
    if (state.locked || !state.kept.held || state.foreign_holder[0] ||
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
    bw_record_release(&ask->record, request_of(ask));
    memcpy(ask->lock, state->owner, sizeof ask->lock);
    redis_ask_round(ask, "release", state->n, state->n + 1, after_write);
}

static void put_note(struct redis_ask *ask)
{
    const struct redis_state *state = &ask->election->state;
    ask->record = state->kept;
    bw_record_put_note(&ask->record, &request_of(ask)->note);
    redis_ask_round(ask, "note", state->n, state->n + 1, after_write);
}

static void proceed(struct redis_ask *ask)
{
    enum bw_store_op op = request_of(ask)->op;
    if (op == BW_STORE_NOTE)
        put_note(ask);
    else if (op == BW_STORE_ACQUIRE)
        take(ask);
    else if (!is_leadership(ask) && !has_lapsed(ask))
        redis_ask_refuse(ask, BW_ENOTLEADER, ask->election->state.locked ? "" : "not held");
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
        if (is_redlock(ask) && redis_election_lock_is_forgotten(election))
            redis_ask_refuse(ask, BW_EBUSY,
                             "the instances lost the lock; until its TTL expires it is ");
        else if (is_redlock(ask))
            redis_ask_round(ask, "lock", 0, 0, after_lock);
        else if (wait)
            redis_ask_pause(ask, (unsigned)wait, read_first);
        else if (known)
            take(ask);
        else
            read_first(ask);
    } else if (known && (request->op == BW_STORE_NOTE || is_leadership(ask))) {
        proceed(ask);
    } else {
        read_first(ask);
    }
}
