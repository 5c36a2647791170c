/* Request rate of an elector: whatever a store answers, a candidate that does not lead sends a few
 * requests per retry interval. The store of this test refuses every change at once and its record
 * never changes, so that only the elector's own pauses limit the rate. */
#include "lease_story.h"

#include "core/base/rng.h"

#define SPAN_S 60u
#define PER_RETRY                                                                                  \
    8u /* a read, a list, an acquire or a release; the pause is half of it at least                \
        */
#define WAITING_MAX 16u

enum shape { FREE, OWN, OWN_DEAD, OTHERS, OTHERS_DEAD, UNHELD_UNCLEAN, SHAPES };

struct stubborn {
    struct story story;
    struct bw_store_record record;
    struct bw_store_request waiting[WAITING_MAX], watch;
    bw_time watch_until;
    unsigned count, total;
};

static void take_actions(struct stubborn *s)
{
    for (uint32_t i = 0; i < s->story.actions.count; i++) {
        const struct bw_lease_action *action = &s->story.actions.at[i];
        if (action->kind != BW_LEASE_ASK)
            continue;
        s->total++;
        if (action->ask.request.op == BW_STORE_WATCH) {
            s->watch = action->ask.request;
            s->watch_until = s->story.now + action->ask.within_ns;
        } else {
            assert_true(s->count < WAITING_MAX);
            s->waiting[s->count++] = action->ask.request;
        }
    }
}

static void answer_first(struct stubborn *s)
{
    const struct bw_store_request request = s->waiting[0];
    bool changes = request.op == BW_STORE_ACQUIRE || request.op == BW_STORE_RELEASE ||
                   request.op == BW_STORE_RENEW;
    memmove(s->waiting, s->waiting + 1, --s->count * sizeof s->waiting[0]);
    answer(&s->story, &request, changes ? BW_OUTCOME_REFUSED : BW_OUTCOME_DONE, s->record);
    take_actions(s);
}

static void pass_time(struct stubborn *s)
{
    bw_time at = bw_time_min(bw_lease_deadline(s->story.lease), s->watch_until);
    s->story.now = bw_time_max(s->story.now, at);
    if (s->story.now >= s->watch_until) {
        s->watch_until = BW_TIME_NEVER;
        answer(&s->story, &s->watch, BW_OUTCOME_UNKNOWN, (struct bw_store_record){0});
    } else {
        happens(&s->story, BW_LEASE_TIMEOUT);
    }
    take_actions(s);
}

static struct bw_store_record record_of(enum shape shape, uint64_t own)
{
    bool ours = shape == OWN || shape == OWN_DEAD;
    struct bw_store_record record = held_by(ours ? "a" : "b", 7, 9);
    record.request = ours ? own : 5;
    record.held = shape != FREE && shape != UNHELD_UNCLEAN;
    record.clean = shape == FREE;
    record.proved_dead = shape == OWN_DEAD || shape == OTHERS_DEAD;
    record.left_ns = BW_TIME_NEVER;
    return record;
}

static void check_pace(struct bw_lease_config config, enum shape shape)
{
    struct stubborn s = {.watch_until = BW_TIME_NEVER};
    begin_with(&s.story, config);
    bw_time end = s.story.now + SPAN_S * BW_SEC;
    unsigned most = PER_RETRY * (unsigned)(SPAN_S * BW_SEC / config.retry_ns);
    happens(&s.story, BW_LEASE_START);
    /* the id of an old request of this elector */
    uint64_t own = s.story.actions.at[0].ask.request.id | 0xffffffffu;
    s.record = record_of(shape, own);
    take_actions(&s);
    while (s.story.now < end) {
        if (s.count > 0)
            answer_first(&s);
        else
            pass_time(&s);
        if (s.total > most)
            fail_msg("record %d, traits %x: %u requests in %.1f retry intervals", (int)shape,
                     config.traits, s.total,
                     (double)(s.story.now - end + SPAN_S * BW_SEC) / (double)config.retry_ns);
    }
    free(s.story.lease);
}

static void waiting_elector_sends_few_requests_per_retry_interval(void **state)
{
    (void)state;
    static const unsigned traits[] = {
        BW_STORE_OBSERVED, BW_STORE_NOTIFIES,     BW_STORE_QUEUE,       BW_STORE_LISTS,
        BW_STORE_NOTES,    BW_STORE_PROVES_DEATH, BW_STORE_LATE_RELEASE};
    struct bw_rng rng;
    bw_rng_init(&rng, 1);
    for (unsigned i = 0; i < 600; i++) {
        struct bw_lease_config config = config_for("a", i);
        config.traits = BW_STORE_TOKEN;
        for (size_t k = 0; k < sizeof traits / sizeof traits[0]; k++)
            config.traits |= bw_rng_chance(&rng, 0.5) ? traits[k] : 0;
        config.retry_ns = bw_rng_between(&rng, 250 * BW_MS, 2 * BW_SEC);
        config.priority = bw_rng_chance(&rng, 0.3) ? 1 : 0;
        config.preferred = bw_rng_chance(&rng, 0.3);
        check_pace(config, (enum shape)(i % SHAPES));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_elector_sends_few_requests_per_retry_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
