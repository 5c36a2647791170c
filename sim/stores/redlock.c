/* Redlock (Sanfilippo 2014) over five independent stores: asks all at once and counts a majority.
 *
 * Model: stores keep nothing across a crash, but then stay out for longer than a lease; clocks run
 * at nearly the same rate. A candidate has the lock when a majority granted it and some validity is
 * left (redlock_validity.h). Otherwise it unlocks all stores and retries after a random pause.
 * Redlock gives no token: a holder that pauses can write late, and no resource can detect it. */
#include "core/lease/redlock_validity.h"
#include "sim/stores/lease_candidate.h"

#include <string.h>

static uint32_t bits(uint32_t set)
{
    return (uint32_t)__builtin_popcount(set);
}

static uint32_t majority(const struct candidate *c)
{
    return c->host->count / 2 + 1;
}

/* Returns the record that a majority of the stores agrees on: the same lock, or none. */
static bool agreed_record(const struct candidate *c, const struct lease_waiting *waiting,
                          struct bw_sim_store_record *out)
{
    uint32_t answered = waiting->yes | waiting->no;
    for (uint32_t i = 0; i < c->host->count; i++) {
        const struct bw_sim_store_record *one = &waiting->records[i];
        uint32_t same = 0;
        for (uint32_t k = 0; k < c->host->count; k++) {
            const struct bw_sim_store_record *other = &waiting->records[k];
            same += (answered >> k & 1) && one->held == other->held &&
                    (!one->held || one->request == other->request);
        }
        if (!(answered >> i & 1) || same < majority(c))
            continue;
        *out = *one;
        return true;
    }
    memset(out, 0, sizeof *out);
    return false;
}

static void unlock_everywhere(struct candidate *c, const struct lease_waiting *waiting,
                              struct bw_actions *actions)
{
    struct bw_sim_store_ask ask;
    memset(&ask, 0, sizeof ask);
    ask.op = BW_STORE_RELEASE;
    ask.lock = waiting->id; /* its replies are not awaited */
    lease_put(c, &ask, actions);
}

static void reply(struct candidate *c, struct lease_waiting *waiting, enum bw_outcome outcome,
                  struct bw_sim_store_record *record, bw_time now, struct bw_actions *actions)
{
    record->version = ++c->versions;
    lease_answered(c, waiting, outcome, record, now, actions);
}

static void on_lock(struct candidate *c, struct lease_waiting *waiting, bool over, bw_time now,
                    struct bw_actions *actions)
{
    struct bw_sim_store_record record;
    bw_time ttl = c->host->lease->ttl_ns;
    bool valid = bw_redlock_validity(ttl, now - waiting->sent) > 0;
    if (bits(waiting->yes) >= majority(c) && valid) {
        record = (struct bw_sim_store_record){
            .held = true, .holder = c->self, .request = waiting->id, .ttl_ns = ttl};
        reply(c, waiting, BW_OUTCOME_DONE, &record, now, actions);
    } else if (over || !valid || bits(waiting->no | waiting->failed) >= majority(c)) {
        bool held = agreed_record(c, waiting, &record) && record.held;
        unlock_everywhere(c, waiting, actions);
        reply(c, waiting, held ? BW_OUTCOME_REFUSED : BW_OUTCOME_UNAVAILABLE, &record, now,
              actions);
    }
}

static void on_read(struct candidate *c, struct lease_waiting *waiting, bool over, bw_time now,
                    struct bw_actions *actions)
{
    struct bw_sim_store_record record;
    uint32_t answered = bits(waiting->yes | waiting->no);
    bool all = answered + bits(waiting->failed) == c->host->count;
    bool agreed = agreed_record(c, waiting, &record);
    if (agreed || ((all || over) && answered >= majority(c))) /* no majority: no holder */
        reply(c, waiting, BW_OUTCOME_DONE, &record, now, actions);
    else if (all || over)
        reply(c, waiting, all ? BW_OUTCOME_UNAVAILABLE : BW_OUTCOME_UNKNOWN, &record, now, actions);
}

static void on_change(struct candidate *c, struct lease_waiting *waiting, bool over, bw_time now,
                      struct bw_actions *actions)
{
    struct bw_sim_store_record record;
    bool all = bits(waiting->yes | waiting->no | waiting->failed) == c->host->count;
    agreed_record(c, waiting, &record);
    if (bits(waiting->yes) >= majority(c))
        reply(c, waiting, BW_OUTCOME_DONE, &record, now, actions);
    else if (bits(waiting->no) >= majority(c))
        reply(c, waiting, BW_OUTCOME_REFUSED, &record, now, actions);
    else if (all || over)
        reply(c, waiting, all ? BW_OUTCOME_UNAVAILABLE : BW_OUTCOME_UNKNOWN, &record, now, actions);
}

void lease_redlock_reply(struct candidate *c, struct lease_waiting *waiting, uint32_t store,
                         const struct bw_sim_store_answer *answer, bw_time now,
                         struct bw_actions *actions)
{
    bool over = store >= c->host->count;
    uint32_t bit = over ? 0 : 1u << store;
    if (answer && !over)
        waiting->records[store] = answer->record;
    if (answer && answer->outcome == BW_OUTCOME_DONE)
        waiting->yes |= bit;
    else if (answer)
        waiting->no |= bit;
    else
        waiting->failed |= bit;
    if (waiting->op == BW_STORE_ACQUIRE)
        on_lock(c, waiting, over, now, actions);
    else if (waiting->op == BW_STORE_READ)
        on_read(c, waiting, over, now, actions);
    else
        on_change(c, waiting, over, now, actions);
}
