/* A round: announces which shards we run if that has changed, lists the candidates, and reads the
 * records of some shards that other candidates lead. If the store does not answer, the round ends.
 * Running shards continue; each supervisor keeps track of its own lease. */
#include "run/shards/state.h"

#include "os/clock.h"
#include "run/contain/proc.h"
#include "run/shards/value.h"

#include <stdio.h>
#include <string.h>

static void end_round(struct launcher *l)
{
    bw_time retry = l->order->retry_ns;
    l->step = ROUND_IDLE;
    l->round_at =
        bw_time_add(bw_clock_boot(), bw_rng_between(&l->rng, retry / 4 * 3, retry / 4 * 5));
}

static void ask(struct launcher *l, enum round_step step, enum bw_store_op op, const char *election)
{
    /* the other steps concern a shard's election, in which the launcher itself is not a
     * candidate */
    bool own = step == ROUND_ENTER || step == ROUND_LEAVE || step == ROUND_LIST;
    struct bw_store_request request = {.op = op,
                                       .election = election,
                                       .candidate = own ? l->order->id : NULL,
                                       .value = op == BW_STORE_ENTER ? l->value : NULL,
                                       .ttl_ns = l->order->ttl_ns};
    l->step = step;
    if (bw_asker_client_request(l->asked, &request, bw_time_max(l->order->retry_ns, BW_SEC)) != 0)
        end_round(l);
}

static void read_next(struct launcher *l)
{
    char election[BW_ELECTION_NAME_MAX + 1];
    l->current_shard = bw_shards_poll_next(&l->core);
    if (l->current_shard == BW_SHARD_NONE) {
        end_round(l);
        return;
    }
    bw_shards_election(election, l->order->election, l->current_shard);
    ask(l, ROUND_READ, BW_STORE_READ, election);
}

void bw_launcher_round(struct launcher *l)
{
    struct bw_shard_set done, runs;
    bw_shards_poll_begin(&l->core);
    if (!l->lists) {
        bw_shards_view_end(&l->core);
        read_next(l);
        return;
    }
    bw_shards_done(&l->core, &done);
    bw_shards_running(&l->core, &runs);
    bw_shards_value_write(l->value, l->order->shards, &done, &runs);
    bool again = bw_clock_boot() >= l->enter_again_at || strcmp(l->value, l->entered_value) != 0;
    bool able = !bw_drain_look(&l->drain) && bw_launcher_is_healthy(l);
    if (!able && l->entered)
        ask(l, ROUND_LEAVE, BW_STORE_LEAVE, l->order->election);
    else if (able && (!l->entered || again))
        ask(l, ROUND_ENTER, BW_STORE_ENTER, l->order->election);
    else
        ask(l, ROUND_LIST, BW_STORE_LIST, l->order->election);
}

/* ---- answers ---- */

static uint64_t key_of(const char *id)
{
    return bw_spread_key(id, strlen(id));
}

static void log_spread(struct launcher *l)
{
    uint32_t ours = bw_shards_ours(&l->core);
    struct bw_log_field fields[] = {{"candidates", NULL, l->core.count},
                                    {"shards", NULL, l->order->shards},
                                    {"ours", NULL, ours},
                                    BW_LOG_END};
    bw_log_event(&l->log, BW_LOG_INFO, "spread", fields,
                 "%u candidate%s; %u of %u shards belong to this one", l->core.count,
                 l->core.count == 1 ? "" : "s", ours, l->order->shards);
}

static void log_mismatch(struct launcher *l, const char *id, uint32_t shards)
{
    struct bw_log_field fields[] = {{"candidate", id, 0}, {"shards", NULL, shards}, BW_LOG_END};
    if (!l->mismatch_logged)
        bw_log_event(&l->log, BW_LOG_WARNING, "shard-count-mismatch", fields,
                     "candidate '%s' has --shards %u, but this one has --shards %u; ignoring it",
                     id, shards, l->order->shards);
    l->mismatch_logged = true;
}

static void on_list(struct launcher *l, const struct bw_store_reply *reply)
{
    bool there = false;
    bw_shards_view_begin(&l->core);
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct bw_candidate *one = &reply->candidates[i];
        struct bw_shard_set done;
        uint32_t shards = 0;
        if (bw_shards_value_read(one->value, &shards, &done) != 0)
            continue; /* a candidate without --shards: it contends for the election itself */
        if (shards != l->order->shards) {
            log_mismatch(l, one->id, shards);
            continue;
        }
        there = there || strcmp(one->id, l->order->id) == 0;
        bw_shards_view_add(&l->core, key_of(one->id), &done);
    }
    l->entered = l->entered && there;
    if (bw_shards_view_end(&l->core))
        log_spread(l);
}

static void on_record(struct launcher *l, const struct bw_store_record *record)
{
    char election[BW_ELECTION_NAME_MAX + 1];
    struct bw_shard_record sight = {.held = record->held && !record->proved_dead,
                                    .mine = strcmp(record->holder, l->order->id) == 0,
                                    .version = record->version,
                                    .ttl_ns = record->ttl_ns};
    switch (bw_shards_observe(&l->core, l->current_shard, &sight, bw_clock_boot())) {
    case BW_SHARD_KEEP:
        break;
    case BW_SHARD_END:
        bw_shards_ending(&l->core, l->current_shard);
        bw_launcher_end_shard(l, l->current_shard, "another candidate leads it");
        break;
    case BW_SHARD_ASK:
        bw_shards_election(election, l->order->election, l->current_shard);
        ask(l, ROUND_WAITING, BW_STORE_LIST, election);
        return;
    }
    read_next(l);
}

static void on_waiting(struct launcher *l, const struct bw_store_reply *reply)
{
    uint64_t owner = bw_shards_owner(&l->core, l->current_shard);
    bool waits = false;
    for (uint32_t i = 0; i < reply->count; i++)
        waits = waits || key_of(reply->candidates[i].id) == owner;
    if (waits) {
        bw_shards_yield(&l->core, l->current_shard, bw_clock_boot());
        bw_launcher_end_shard(l, l->current_shard, "its owner is waiting for it");
    }
    read_next(l);
}

/* Handles the answer to ENTER. Until the store lists this candidate, it gets no shard, and every
 * round retries. */
static void on_entered(struct launcher *l, const struct bw_store_reply *reply)
{
    l->entered = reply->outcome == BW_OUTCOME_DONE;
    l->enter_again_at = bw_time_add(bw_clock_boot(), l->order->ttl_ns / 2);
    memcpy(l->entered_value, l->value, sizeof l->entered_value);
    bool refused = reply->outcome == BW_OUTCOME_REFUSED;
    if (refused && !l->refusal_logged)
        bw_log_event(&l->log, BW_LOG_WARNING, "not-listed", NULL,
                     "the store refuses to list this candidate: %s", reply->why);
    l->refusal_logged = refused;
    ask(l, ROUND_LIST, BW_STORE_LIST, l->order->election);
}

void bw_launcher_answer(struct launcher *l, const struct bw_store_reply *reply)
{
    bool good = reply->outcome == BW_OUTCOME_DONE;
    switch (l->step) {
    case ROUND_IDLE:
        break;
    case ROUND_ENTER:
        on_entered(l, reply);
        break;
    case ROUND_LEAVE:
        l->entered = l->entered && !good;
        ask(l, ROUND_LIST, BW_STORE_LIST, l->order->election);
        break;
    case ROUND_LIST:
        if (good)
            on_list(l, reply);
        if (good)
            read_next(l);
        else
            end_round(l);
        break;
    case ROUND_READ:
        if (good)
            on_record(l, &reply->record);
        else
            end_round(l);
        break;
    case ROUND_WAITING:
        if (good)
            on_waiting(l, reply);
        else
            end_round(l);
        break;
    }
}
