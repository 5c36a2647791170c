/* The quorum guard, one instance at a time: a fake inner elector says whom it would have lead, the
 * test plays the network. Five members, T = 1 s, drift 1 %. */
#include "unit/unit.h"

#include "core/base/drift.h"
#include "core/base/error.h"
#include "core/elect/elector.h"

#include <string.h>

/* The inner elector: HINT(node) makes it announce that node. */
static size_t inner_bytes(const struct bw_elector_config *config)
{
    (void)config;
    return 16;
}

static uint32_t inner_actions_max(const struct bw_elector_config *config)
{
    (void)config;
    return 1;
}

static int inner_init(void *memory, const struct bw_elector_config *config)
{
    (void)memory;
    (void)config;
    return 0;
}

static void inner_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    (void)self;
    if (event->kind == BW_EVENT_HINT)
        bw_actions_announce(actions, &(struct bw_announcement){.leader = event->node});
}

static bw_time inner_deadline(const void *self)
{
    (void)self;
    return BW_TIME_NEVER;
}

static void inner_status(const void *self, struct bw_elector_status *out)
{
    (void)self;
    memset(out, 0, sizeof *out);
}

static const struct bw_elector_ops inner = {.name = "inner",
                                            .bytes = inner_bytes,
                                            .actions_max = inner_actions_max,
                                            .init = inner_init,
                                            .step = inner_step,
                                            .deadline = inner_deadline,
                                            .status = inner_status};

#define T       BW_SEC
#define MEMBERS 5

struct world {
    _Alignas(16) unsigned char memory[4096];
    struct bw_action at[64];
    struct bw_actions actions;
    struct bw_durable disk;
};

static const struct bw_member members[MEMBERS] = {
    {.id = 1}, {.id = 2}, {.id = 3}, {.id = 4}, {.id = 5}};

static struct bw_elector_config config_for(bw_node self)
{
    struct bw_elector_config config = {
        .self = self, .members = members, .count = MEMBERS, .cap = 8, .inner = &inner, .seed = 1};
    bw_elector_defaults(&config, 5 * BW_MS, 100 * BW_MS);
    config.promise_ns = T;
    config.cap = 8;
    return config;
}

static void step(struct world *w, const struct bw_event *event)
{
    w->actions = (struct bw_actions){.at = w->at, .cap = 64};
    bw_elect_guard.step(w->memory, event, &w->actions);
    for (uint32_t i = 0; i < w->actions.count; i++)
        if (w->at[i].kind == BW_ACTION_PERSIST)
            w->disk = w->at[i].durable;
}

static void start(struct world *w, bw_node self, bw_time now)
{
    struct bw_elector_config config = config_for(self);
    assert_true(bw_elect_guard.bytes(&config) <= sizeof w->memory);
    assert_int_equal(bw_elect_guard.init(w->memory, &config), 0);
    struct bw_start begin = {.durable = w->disk};
    step(w, &(struct bw_event){.kind = BW_EVENT_START, .now = now, .start = &begin});
}

static void inner_names(struct world *w, bw_node node, bw_time now)
{
    step(w, &(struct bw_event){.kind = BW_EVENT_HINT, .now = now, .node = node});
}

static void receive(struct world *w, bw_time now, const struct bw_message *msg)
{
    step(w, &(struct bw_event){.kind = BW_EVENT_MESSAGE, .now = now, .msg = msg});
}

static void claim_from(struct world *w, bw_time now, bw_node from, bw_term epoch)
{
    struct bw_message msg = {.kind = BW_MSG_CLAIM, .from = from, .to = 1, .term = epoch};
    receive(w, now, &msg);
}

static void promise_from(struct world *w, bw_time now, bw_node from, bw_term epoch, bw_time echo)
{
    struct bw_message msg = {
        .kind = BW_MSG_PROMISE, .flags = BW_FLAG_YES, .from = from, .to = 1, .term = epoch};
    msg.promise.echo = echo;
    receive(w, now, &msg);
}

static const struct bw_action *first(const struct world *w, enum bw_action_kind kind)
{
    for (uint32_t i = 0; i < w->actions.count; i++)
        if (w->at[i].kind == kind)
            return &w->at[i];
    return NULL;
}

static uint32_t count_sent(const struct world *w, enum bw_message_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->actions.count; i++)
        count += w->at[i].kind == BW_ACTION_SEND && w->at[i].msg.kind == kind;
    return count;
}

static const struct bw_message *reply(const struct world *w)
{
    const struct bw_action *sent = first(w, BW_ACTION_SEND);
    assert_non_null(sent);
    assert_int_equal(sent->msg.kind, BW_MSG_PROMISE);
    return &sent->msg;
}

/* Node 1 is named by its elector at 1 s and promised by 2 and 3. */
static void make_holder(struct world *w)
{
    start(w, 1, 0);
    inner_names(w, 1, BW_SEC);
    promise_from(w, BW_SEC + 4 * BW_MS, 2, 1, BW_SEC);
    promise_from(w, BW_SEC + 8 * BW_MS, 3, 1, BW_SEC);
}

static void a_named_node_asks_everybody_after_its_epoch_is_durable(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    assert_true(first(&w, BW_ACTION_PERSIST) < first(&w, BW_ACTION_SEND));
    assert_int_equal(w.disk.promise_epoch, 1);
    assert_int_equal(w.disk.promised_to, 1);
    assert_null(first(&w, BW_ACTION_ANNOUNCE));
}

static void a_majority_opens_a_window_counted_from_sending(void **state)
{
    (void)state;
    struct world w = {0};
    make_holder(&w);
    const struct bw_action *announced = first(&w, BW_ACTION_ANNOUNCE);
    assert_non_null(announced);
    assert_int_equal(announced->announce.leader, 1);
    assert_int_equal(announced->announce.token, 1);
    assert_int_equal(announced->announce.act_from, BW_SEC + 8 * BW_MS);
    assert_int_equal(announced->announce.act_until, BW_SEC + bw_drift_shorten(T, 10000));
}

static void two_of_five_or_one_twice_are_no_majority(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    for (int i = 0; i < 3; i++) {
        promise_from(&w, BW_SEC + BW_MS, 2, 1, BW_SEC);
        assert_null(first(&w, BW_ACTION_ANNOUNCE));
    }
}

/* JOIN and LEAVE move the rows of the table, so answers are collected afresh: a voter that answers
 * once more is still one voter. */
static void a_voter_counts_once_across_a_membership_event(void **state)
{
    (void)state;
    static const bw_node voters[] = {1, 2, 3, 4, 5};
    static const struct bw_event events[] = {
        {.kind = BW_EVENT_JOIN, .node = 6, .member = {.id = 6}},
        {.kind = BW_EVENT_LEAVE, .node = 5}};
    for (unsigned i = 0; i < 2; i++) {
        struct world w = {0};
        struct bw_elector_config config = config_for(1);
        struct bw_start begin = {0};
        config.voters = voters;
        config.voters_count = MEMBERS;
        assert_int_equal(bw_elect_guard.init(w.memory, &config), 0);
        step(&w, &(struct bw_event){.kind = BW_EVENT_START, .start = &begin});
        inner_names(&w, 1, BW_SEC);
        promise_from(&w, BW_SEC + BW_MS, 2, 1, BW_SEC);
        assert_null(first(&w, BW_ACTION_ANNOUNCE));
        for (bw_time k = 0; k < 3; k++) {
            struct bw_event event = events[i];
            event.now = BW_SEC + (2 + k) * BW_MS;
            step(&w, &event);
            assert_null(first(&w, BW_ACTION_ANNOUNCE));
            promise_from(&w, event.now, 2, 1, BW_SEC);
            assert_null(first(&w, BW_ACTION_ANNOUNCE));
        }
        promise_from(&w, BW_SEC + 5 * BW_MS, 3, 1, BW_SEC);
        promise_from(&w, BW_SEC + 5 * BW_MS, 4, 1, BW_SEC);
        assert_non_null(first(&w, BW_ACTION_ANNOUNCE));
    }
}

/* Three of the five were there when the cluster began: theirs are the promises that count. */
static void only_the_promises_of_voters_count(void **state)
{
    (void)state;
    static const bw_node voters[] = {2, 3, 4};
    struct world w = {0};
    struct bw_elector_config config = config_for(1);
    struct bw_start begin = {0};
    config.voters = voters;
    config.voters_count = 3;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), 0);
    step(&w, &(struct bw_event){.kind = BW_EVENT_START, .start = &begin});
    inner_names(&w, 1, BW_SEC); /* no voter itself */
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    promise_from(&w, BW_SEC + BW_MS, 5, 1, BW_SEC);
    promise_from(&w, BW_SEC + BW_MS, 2, 1, BW_SEC);
    assert_null(first(&w, BW_ACTION_ANNOUNCE));
    step(&w, &(struct bw_event){.kind = BW_EVENT_JOIN, .now = BW_SEC + BW_MS, .member = {.id = 6}});
    inner_names(&w, 1, BW_SEC + 2 * BW_MS);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = BW_SEC + 3 * BW_MS});
    promise_from(&w, BW_SEC + 4 * BW_MS, 2, 1, BW_SEC + 3 * BW_MS);
    assert_null(first(&w, BW_ACTION_ANNOUNCE));
    promise_from(&w, BW_SEC + 4 * BW_MS, 4, 1, BW_SEC + 3 * BW_MS);
    assert_non_null(first(&w, BW_ACTION_ANNOUNCE));
}

/* Refused because of a promise to somebody who is dead: asks again when it hears so. */
static void a_claimant_asks_again_when_it_hears_of_a_death(void **state)
{
    (void)state;
    struct world w = {0};
    struct bw_message refusal = {.kind = BW_MSG_PROMISE, .from = 2, .to = 1, .term = 7};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    refusal.promise.leader = 5;
    refusal.promise.left_ns = T / 2;
    refusal.promise.echo = BW_SEC;
    receive(&w, BW_SEC + BW_MS, &refusal);
    assert_true(bw_elect_guard.deadline(w.memory) > BW_SEC + T / 4);
    step(&w,
         &(struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .node = 5, .now = BW_SEC + 2 * BW_MS});
    assert_true(bw_elect_guard.deadline(w.memory) <= BW_SEC + 2 * BW_MS);
}

static void a_member_promises_to_one_until_its_time_is_over(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    claim_from(&w, BW_SEC, 4, 1);
    assert_true(first(&w, BW_ACTION_PERSIST) < first(&w, BW_ACTION_SEND));
    assert_true(reply(&w)->flags & BW_FLAG_YES);
    claim_from(&w, BW_SEC + T - 1, 5, 9);
    assert_false(reply(&w)->flags & BW_FLAG_YES);
    assert_int_equal(reply(&w)->promise.leader, 4);
    assert_int_equal(reply(&w)->promise.left_ns, 1);
    claim_from(&w, BW_SEC + T, 5, 9);
    assert_true(reply(&w)->flags & BW_FLAG_YES);
}

static void an_epoch_once_promised_goes_to_nobody_else(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    claim_from(&w, BW_SEC, 4, 7);
    claim_from(&w, 3 * BW_SEC, 5, 7);
    assert_false(reply(&w)->flags & BW_FLAG_YES);
    assert_int_equal(reply(&w)->term, 7);
    claim_from(&w, 3 * BW_SEC, 5, 6);
    assert_false(reply(&w)->flags & BW_FLAG_YES);
}

static void a_renewal_costs_no_durable_write(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    claim_from(&w, BW_SEC, 4, 1);
    claim_from(&w, BW_SEC + T / 3, 4, 1);
    assert_null(first(&w, BW_ACTION_PERSIST));
    assert_true(reply(&w)->flags & BW_FLAG_YES);
}

static void a_restarted_member_waits_a_whole_promise(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    claim_from(&w, BW_SEC, 4, 1);
    start(&w, 1, 5 * BW_SEC);
    claim_from(&w, 5 * BW_SEC + T - 1, 5, 2);
    assert_false(reply(&w)->flags & BW_FLAG_YES);
    claim_from(&w, 5 * BW_SEC + T, 5, 2);
    assert_true(reply(&w)->flags & BW_FLAG_YES);
}

static void death_that_is_confirmed_frees_the_promise(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    claim_from(&w, BW_SEC, 4, 1);
    step(&w, &(struct bw_event){.kind = BW_EVENT_CONFIRMED_DEAD, .now = BW_SEC + 1, .node = 4});
    claim_from(&w, BW_SEC + 2, 5, 2);
    assert_true(reply(&w)->flags & BW_FLAG_YES);
}

static void a_holder_without_answers_stops_when_its_window_ends(void **state)
{
    (void)state;
    struct world w = {0};
    make_holder(&w);
    bw_time end = BW_SEC + bw_drift_shorten(T, 10000);
    bw_time now = 0;
    for (int i = 0; i < 200 && now < end; i++) {
        now = bw_elect_guard.deadline(w.memory);
        assert_true(now <= end);
        step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now});
    }
    assert_int_equal(now, end);
    const struct bw_action *announced = first(&w, BW_ACTION_ANNOUNCE);
    assert_non_null(announced);
    assert_int_equal(announced->announce.leader, BW_NODE_NONE);
    assert_int_equal(announced->announce.reason, BW_LOSS_UNREACHABLE);
}

/* On a link that loses much, one lost round must not end a leadership. */
static void
a_claim_is_repeated_to_who_has_not_answered_and_counts_from_its_first_sending(void **state)
{
    (void)state;
    struct world w = {0};
    make_holder(&w);
    bw_time round = bw_elect_guard.deadline(w.memory);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = round});
    promise_from(&w, round + 1, 4, 1, round); /* one more is missing, beside ourselves */
    for (int i = 0; i < 3; i++) {
        bw_time again = bw_elect_guard.deadline(w.memory);
        assert_true(again < round + T / 3);
        step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = again});
        assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 2);
        assert_int_equal(first(&w, BW_ACTION_SEND)->msg.promise.echo, round);
    }
    promise_from(&w, round + T / 4, 5, 1, round);
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.act_until,
                     round + bw_drift_shorten(T, 10000));
    /* The quorum is there: the rest are told a few times more, then not before the next round. */
    uint32_t repeats = 0;
    for (bw_time at; (at = bw_elect_guard.deadline(w.memory)) < round + T / 3; repeats++)
        step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = at});
    assert_true(repeats <= 3);
}

static void late_answers_of_an_older_round_extend_nothing(void **state)
{
    (void)state;
    struct world w = {0};
    make_holder(&w);
    bw_time round = bw_elect_guard.deadline(w.memory);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = round});
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    promise_from(&w, round + 1, 4, 1, BW_SEC);
    promise_from(&w, round + 1, 5, 1, BW_SEC);
    assert_null(first(&w, BW_ACTION_ANNOUNCE));
    promise_from(&w, round + 2, 4, 1, round);
    promise_from(&w, round + 2, 5, 1, round);
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.act_until,
                     round + bw_drift_shorten(T, 10000));
}

static void a_deposed_holder_releases_only_after_its_work_is_dead(void **state)
{
    (void)state;
    struct world w = {0};
    make_holder(&w);
    inner_names(&w, 5, BW_SEC + 20 * BW_MS);
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.reason, BW_LOSS_TAKEN);
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), 0);
    step(&w, &(struct bw_event){
                 .kind = BW_EVENT_CONFIRMED_DEAD, .now = BW_SEC + 30 * BW_MS, .node = 1});
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
}

/* Deposed, named again and deposed once more while the work is told to end: the second claim never
 * had any work, but the first leadership's may still live. */
static void a_claim_in_between_does_not_release_work_that_is_dying(void **state)
{
    (void)state;
    struct world w = {0};
    make_holder(&w);
    inner_names(&w, 5, BW_SEC + 20 * BW_MS);
    inner_names(&w, 1, BW_SEC + 22 * BW_MS);
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    inner_names(&w, 5, BW_SEC + 24 * BW_MS);
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), 0);
    step(&w, &(struct bw_event){
                 .kind = BW_EVENT_CONFIRMED_DEAD, .now = BW_SEC + 30 * BW_MS, .node = 1});
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
}

/* The old work's death comes when the next window is open: that one is not given away. */
static void a_late_death_does_not_release_the_next_leadership(void **state)
{
    (void)state;
    struct world w = {0};
    make_holder(&w);
    inner_names(&w, 5, BW_SEC + 20 * BW_MS);
    inner_names(&w, 1, BW_SEC + 22 * BW_MS);
    bw_term epoch = w.disk.promise_epoch;
    promise_from(&w, BW_SEC + 24 * BW_MS, 2, epoch, BW_SEC + 22 * BW_MS);
    promise_from(&w, BW_SEC + 24 * BW_MS, 3, epoch, BW_SEC + 22 * BW_MS);
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.token, epoch);
    step(&w, &(struct bw_event){
                 .kind = BW_EVENT_CONFIRMED_DEAD, .now = BW_SEC + 30 * BW_MS, .node = 1});
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), 0);
    inner_names(&w, 5, BW_SEC + 40 * BW_MS);
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), 0);
}

static void a_stopping_holder_hands_over_at_once(void **state)
{
    (void)state;
    struct world w = {0};
    make_holder(&w);
    step(&w, &(struct bw_event){.kind = BW_EVENT_STOP, .now = BW_SEC + 30 * BW_MS});
    assert_int_equal(first(&w, BW_ACTION_ANNOUNCE)->announce.reason, BW_LOSS_SHUT_DOWN);
    assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
}

/* Node 1 claims epoch 1, hears of epoch 41 in a refusal, and gives way to node 5. */
static void make_withdrawn(struct world *w)
{
    start(w, 1, 0);
    inner_names(w, 1, BW_SEC);
    struct bw_message no = {.kind = BW_MSG_PROMISE, .from = 2, .to = 1, .term = 41};
    no.promise.leader = 4;
    no.promise.left_ns = 300 * BW_MS;
    receive(w, BW_SEC + 2 * BW_MS, &no);
    inner_names(w, 5, BW_SEC + 4 * BW_MS);
    assert_int_equal(count_sent(w, BW_MSG_RELEASE), MEMBERS - 1);
}

static void a_withdrawn_claimant_is_free_of_its_own_promise(void **state)
{
    (void)state;
    struct world w = {0};
    make_withdrawn(&w);
    claim_from(&w, BW_SEC + 6 * BW_MS, 5, 42);
    assert_true(reply(&w)->flags & BW_FLAG_YES);
}

/* One release may be lost. It is repeated, rarely, for as long as promises may bind. */
static void a_withdrawn_claimant_repeats_its_release(void **state)
{
    (void)state;
    struct world w = {0};
    make_withdrawn(&w);
    uint32_t repeats = 0;
    bw_time now = bw_elect_guard.deadline(w.memory);
    for (; now < BW_TIME_NEVER && repeats < 100; now = bw_elect_guard.deadline(w.memory)) {
        step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now});
        assert_int_equal(count_sent(&w, BW_MSG_RELEASE), MEMBERS - 1);
        assert_true(now <= BW_SEC + 4 * BW_MS + T);
        repeats++;
    }
    assert_true(repeats >= 3 && repeats <= 8);
}

/* What it hears in a refusal is not durable. A release of that epoch would end claims that it makes
 * after a restart: members would ignore them, or be freed by a release that is late. */
static void a_release_never_speaks_of_claims_to_come(void **state)
{
    (void)state;
    struct world w = {0};
    make_withdrawn(&w);
    bw_term given = first(&w, BW_ACTION_SEND)->msg.term;
    assert_true(given >= 1); /* what was claimed */
    step(&w,
         &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = bw_elect_guard.deadline(w.memory)});
    assert_int_equal(first(&w, BW_ACTION_SEND)->msg.kind, BW_MSG_RELEASE);
    assert_int_equal(first(&w, BW_ACTION_SEND)->msg.term, given);
    start(&w, 1, 9 * BW_SEC);
    inner_names(&w, 1, 9 * BW_SEC);
    assert_int_equal(first(&w, BW_ACTION_SEND)->msg.kind, BW_MSG_CLAIM);
    assert_true(first(&w, BW_ACTION_SEND)->msg.term > given);
}

static void a_claimant_that_claims_again_repeats_no_release(void **state)
{
    (void)state;
    struct world w = {0};
    make_withdrawn(&w);
    inner_names(&w, 1, BW_SEC + 6 * BW_MS);
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    for (int i = 0; i < 10; i++) {
        bw_time now = bw_elect_guard.deadline(w.memory);
        step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now});
        assert_int_equal(count_sent(&w, BW_MSG_RELEASE), 0);
    }
}

/* The member that refused hears of the release later than the claimant: the claimant, refused once
 * more, asks again when the release is repeated. */
static void a_repeated_release_makes_a_claimant_ask_again(void **state)
{
    (void)state;
    struct world w = {0};
    struct bw_message no = {.kind = BW_MSG_PROMISE, .from = 2, .to = 1, .term = 7};
    struct bw_message free = {.kind = BW_MSG_RELEASE, .from = 4, .to = 1, .term = 7};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    no.promise.leader = 4;
    no.promise.left_ns = T / 2;
    for (bw_time now = BW_SEC + 2 * BW_MS; now < BW_SEC + 10 * BW_MS; now += 4 * BW_MS) {
        receive(&w, now, &no);
        assert_true(bw_elect_guard.deadline(w.memory) > now + T / 4);
        receive(&w, now + BW_MS, &free);
        step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = now + BW_MS});
        assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
        no.term++; /* our own claim was higher than that */
    }
}

/* A claim that the network doubled, or that a release overtook, is not promised any more. */
static void a_claim_that_was_released_binds_nobody(void **state)
{
    (void)state;
    for (int first_claim = 0; first_claim < 2; first_claim++) {
        struct world w = {0};
        start(&w, 1, 0);
        if (first_claim)
            claim_from(&w, BW_SEC, 4, 7);
        struct bw_message free = {.kind = BW_MSG_RELEASE, .from = 4, .to = 1, .term = 7};
        receive(&w, BW_SEC + BW_MS, &free);
        claim_from(&w, BW_SEC + 2 * BW_MS, 4, 7);
        assert_int_equal(count_sent(&w, BW_MSG_PROMISE), 0);
        claim_from(&w, BW_SEC + 3 * BW_MS, 5, 8);
        assert_true(reply(&w)->flags & BW_FLAG_YES);
        claim_from(&w, BW_SEC + 3 * BW_MS + T, 4, 9); /* a new claim of the same node counts */
        assert_true(reply(&w)->flags & BW_FLAG_YES);
    }
}

static void a_refused_claimant_comes_back_with_a_higher_epoch(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    inner_names(&w, 1, BW_SEC);
    struct bw_message no = {.kind = BW_MSG_PROMISE, .from = 2, .to = 1, .term = 41};
    no.promise.leader = 4;
    no.promise.left_ns = 300 * BW_MS;
    receive(&w, BW_SEC + 2 * BW_MS, &no);
    bw_time again = bw_elect_guard.deadline(w.memory);
    assert_true(again >= BW_SEC + 302 * BW_MS);
    step(&w, &(struct bw_event){.kind = BW_EVENT_TIMEOUT, .now = again});
    assert_int_equal(count_sent(&w, BW_MSG_CLAIM), MEMBERS - 1);
    assert_int_equal(first(&w, BW_ACTION_SEND)->msg.term, 42);
}

static void a_restarted_holder_never_uses_its_old_epoch_again(void **state)
{
    (void)state;
    struct world w = {0};
    make_holder(&w);
    start(&w, 1, 9 * BW_SEC);
    inner_names(&w, 1, 9 * BW_SEC);
    assert_int_equal(first(&w, BW_ACTION_SEND)->msg.term, 2);
}

static void strangers_and_an_impossible_quorum_are_refused(void **state)
{
    (void)state;
    struct world w = {0};
    start(&w, 1, 0);
    claim_from(&w, BW_SEC, 77, 1);
    assert_null(first(&w, BW_ACTION_SEND));
    struct bw_elector_config config = config_for(1);
    config.quorum = MEMBERS + 1;
    assert_int_equal(bw_elect_guard.init(w.memory, &config), BW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_named_node_asks_everybody_after_its_epoch_is_durable),
        cmocka_unit_test(a_majority_opens_a_window_counted_from_sending),
        cmocka_unit_test(two_of_five_or_one_twice_are_no_majority),
        cmocka_unit_test(a_voter_counts_once_across_a_membership_event),
        cmocka_unit_test(only_the_promises_of_voters_count),
        cmocka_unit_test(a_claimant_asks_again_when_it_hears_of_a_death),
        cmocka_unit_test(a_member_promises_to_one_until_its_time_is_over),
        cmocka_unit_test(an_epoch_once_promised_goes_to_nobody_else),
        cmocka_unit_test(a_renewal_costs_no_durable_write),
        cmocka_unit_test(a_restarted_member_waits_a_whole_promise),
        cmocka_unit_test(death_that_is_confirmed_frees_the_promise),
        cmocka_unit_test(a_holder_without_answers_stops_when_its_window_ends),
        cmocka_unit_test(
            a_claim_is_repeated_to_who_has_not_answered_and_counts_from_its_first_sending),
        cmocka_unit_test(late_answers_of_an_older_round_extend_nothing),
        cmocka_unit_test(a_deposed_holder_releases_only_after_its_work_is_dead),
        cmocka_unit_test(a_claim_in_between_does_not_release_work_that_is_dying),
        cmocka_unit_test(a_late_death_does_not_release_the_next_leadership),
        cmocka_unit_test(a_stopping_holder_hands_over_at_once),
        cmocka_unit_test(a_withdrawn_claimant_is_free_of_its_own_promise),
        cmocka_unit_test(a_withdrawn_claimant_repeats_its_release),
        cmocka_unit_test(a_release_never_speaks_of_claims_to_come),
        cmocka_unit_test(a_claimant_that_claims_again_repeats_no_release),
        cmocka_unit_test(a_repeated_release_makes_a_claimant_ask_again),
        cmocka_unit_test(a_claim_that_was_released_binds_nobody),
        cmocka_unit_test(a_refused_claimant_comes_back_with_a_higher_epoch),
        cmocka_unit_test(a_restarted_holder_never_uses_its_old_epoch_again),
        cmocka_unit_test(strangers_and_an_impossible_quorum_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
