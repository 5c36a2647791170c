/* A round: say what we run if that changed, see who is there, look at some of the shards that are
 * not ours. A store that does not answer ends the round; what runs goes on, each supervisor judges
 * its own lease. */
#include "run/shards/state.h"

#include "run/contain/proc.h"
#include "run/shards/value.h"

#include <stdio.h>
#include <string.h>

static void rest(struct launcher *l)
{
    bw_time retry = l->order->retry_ns;
    l->step = ROUND_REST;
    l->round_at = bw_time_add(bw_run_now(), bw_rng_between(&l->rng, retry / 4 * 3, retry / 4 * 5));
}

static void ask(struct launcher *l, enum round_step step, enum bw_store_op op, const char *election)
{
    bool own = step == ROUND_ENTER || step == ROUND_LIST; /* a shard's candidates are others */
    struct bw_store_request request = {.op = op,
                                       .election = election,
                                       .candidate = own ? l->order->id : NULL,
                                       .value = op == BW_STORE_ENTER ? l->value : NULL,
                                       .ttl_ns = l->order->ttl_ns};
    l->step = step;
    if (bw_asked_ask(l->asked, &request, bw_time_max(l->order->retry_ns, BW_SEC)) != 0)
        rest(l);
}

static void look_on(struct launcher *l)
{
    char election[BW_ELECTION_NAME_MAX + 1];
    l->looked = bw_shards_look_next(&l->core);
    if (l->looked == BW_SHARD_NONE) {
        rest(l);
        return;
    }
    bw_shards_election(election, l->order->election, l->looked);
    ask(l, ROUND_LOOK, BW_STORE_READ, election);
}

void bw_launcher_round(struct launcher *l)
{
    struct bw_shard_set done, runs;
    bw_shards_look_begin(&l->core);
    if (!l->lists) {
        bw_shards_view_end(&l->core);
        look_on(l);
        return;
    }
    bw_shards_done(&l->core, &done);
    bw_shards_running(&l->core, &runs);
    bw_shards_value_write(l->value, l->order->shards, &done, &runs);
    bool again = bw_run_now() >= l->enter_again_at || strcmp(l->value, l->entered_value) != 0;
    if (!l->entered || again)
        ask(l, ROUND_ENTER, BW_STORE_ENTER, l->order->election);
    else
        ask(l, ROUND_LIST, BW_STORE_LIST, l->order->election);
}

/* ---- answers ---- */

static uint64_t key_of(const char *id)
{
    return bw_spread_key(id, strlen(id));
}

static void say_spread(struct launcher *l)
{
    uint32_t ours = bw_shards_ours(&l->core);
    struct bw_log_field fields[] = {{"candidates", NULL, l->core.count},
                                    {"shards", NULL, l->order->shards},
                                    {"ours", NULL, ours},
                                    BW_LOG_END};
    bw_log_event(&l->log, BW_LOG_INFO, "spread", fields,
                 "%u candidate%s; %u of %u shards should be ours", l->core.count,
                 l->core.count == 1 ? "" : "s", ours, l->order->shards);
}

static void say_mismatch(struct launcher *l, const char *id, uint32_t shards)
{
    struct bw_log_field fields[] = {{"candidate", id, 0}, {"shards", NULL, shards}, BW_LOG_END};
    if (!l->said_mismatch)
        bw_log_event(&l->log, BW_LOG_WARNING, "shards-differ", fields,
                     "'%s' has %u shards and we have %u: it is not counted", id, shards,
                     l->order->shards);
    l->said_mismatch = true;
}

static void view(struct launcher *l, const struct bw_store_reply *reply)
{
    bool there = false;
    bw_shards_view_begin(&l->core);
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct bw_candidate *one = &reply->candidates[i];
        struct bw_shard_set done;
        uint32_t shards = 0;
        if (bw_shards_value_read(one->value, &shards, &done) != 0)
            continue; /* contends for the election itself, as a plain `run` does */
        if (shards != l->order->shards) {
            say_mismatch(l, one->id, shards);
            continue;
        }
        there = there || strcmp(one->id, l->order->id) == 0;
        bw_shards_view_add(&l->core, key_of(one->id), &done);
    }
    l->entered = l->entered && there;
    if (bw_shards_view_end(&l->core))
        say_spread(l);
}

static void on_look(struct launcher *l, const struct bw_store_record *record)
{
    char election[BW_ELECTION_NAME_MAX + 1];
    struct bw_shard_sight sight = {.held = record->held && !record->proved_dead,
                                   .mine = strcmp(record->holder, l->order->id) == 0,
                                   .version = record->version,
                                   .ttl_ns = record->ttl_ns};
    switch (bw_shards_saw(&l->core, l->looked, &sight, bw_run_now())) {
    case BW_SHARD_KEEP:
        break;
    case BW_SHARD_END:
        bw_shards_ending(&l->core, l->looked);
        bw_launcher_end_shard(l, l->looked, "another leads it");
        break;
    case BW_SHARD_ASK:
        bw_shards_election(election, l->order->election, l->looked);
        ask(l, ROUND_ASK, BW_STORE_LIST, election);
        return;
    }
    look_on(l);
}

static void on_waiting(struct launcher *l, const struct bw_store_reply *reply)
{
    uint64_t owner = bw_shards_owner(&l->core, l->looked);
    bool waits = false;
    for (uint32_t i = 0; i < reply->count; i++)
        waits = waits || key_of(reply->candidates[i].id) == owner;
    if (waits) {
        bw_shards_yield(&l->core, l->looked, bw_run_now());
        bw_launcher_end_shard(l, l->looked, "its owner waits for it");
    }
    look_on(l);
}

/* Whoever is not listed gets no shard; it is tried again in every round. */
static void on_entered(struct launcher *l, const struct bw_store_reply *reply)
{
    l->entered = reply->outcome == BW_OUTCOME_DONE;
    l->enter_again_at = bw_time_add(bw_run_now(), l->order->ttl_ns / 2);
    memcpy(l->entered_value, l->value, sizeof l->entered_value);
    bool refused = reply->outcome == BW_OUTCOME_REFUSED;
    if (refused && !l->said_refused)
        bw_log_event(&l->log, BW_LOG_WARNING, "not-listed", NULL,
                     "the store does not list us as a candidate: %s", reply->why);
    l->said_refused = refused;
    ask(l, ROUND_LIST, BW_STORE_LIST, l->order->election);
}

void bw_launcher_answer(struct launcher *l, const struct bw_store_reply *reply)
{
    bool good = reply->outcome == BW_OUTCOME_DONE;
    switch (l->step) {
    case ROUND_REST:
        break;
    case ROUND_ENTER:
        on_entered(l, reply);
        break;
    case ROUND_LIST:
        if (good)
            view(l, reply);
        if (good)
            look_on(l);
        else
            rest(l);
        break;
    case ROUND_LOOK:
        if (good)
            on_look(l, &reply->record);
        else
            rest(l);
        break;
    case ROUND_ASK:
        if (good)
            on_waiting(l, reply);
        else
            rest(l);
        break;
    }
}
