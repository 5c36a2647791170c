/* Notes to and from the holder: which of them a holder, a candidate or an observer obeys. */
#include "lease_story.h"

/* Leads with token 5 and returns the watch. */
static struct bw_store_request lead_with(struct story *s, struct bw_lease_config config)
{
    begin_with(s, config);
    happens(s, BW_LEASE_START);
    answer(s, asks(s, BW_STORE_READ), BW_OUTCOME_DONE, (struct bw_store_record){.clean = true});
    const struct bw_store_request request = *asks(s, BW_STORE_ACQUIRE);
    struct bw_store_record record = held_by("a", 5, 9);
    record.request = request.id;
    answer(s, &request, BW_OUTCOME_DONE, record);
    return *asks(s, BW_STORE_WATCH);
}

static struct bw_store_request lead(struct story *s)
{
    return lead_with(s, config_for("a", 7));
}

static bool leads(const struct story *s)
{
    struct bw_lease_status status;
    bw_lease_status(s->lease, &status);
    return status.leading;
}

/* The holder's watch shows a note; returns the next watch. */
static struct bw_store_request note(struct story *s, const struct bw_store_request *watch,
                                    enum bw_note_kind kind, const char *from, uint64_t serial)
{
    struct bw_store_record record = held_by("a", 5, 9 + serial);
    record.note = (struct bw_note){.kind = kind, .serial = serial, .to = "a"};
    snprintf(record.note.from, sizeof record.note.from, "%s", from);
    answer(s, watch, BW_OUTCOME_DONE, record);
    return asks(s, BW_STORE_WATCH) ? *asks(s, BW_STORE_WATCH) : (struct bw_store_request){0};
}

static void only_the_successor_confirms_or_refuses_a_transfer(void **state)
{
    (void)state;
    struct story s;
    struct bw_store_request watch = lead(&s);
    watch = note(&s, &watch, BW_NOTE_READY, "b", 1); /* nobody was asked */
    assert_true(leads(&s));
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_RESIGN, .to = "b"});
    watch = note(&s, &watch, BW_NOTE_READY, "c", 2);
    assert_true(leads(&s));
    watch = note(&s, &watch, BW_NOTE_REFUSE, "c", 3);
    watch = note(&s, &watch, BW_NOTE_PREPARE, "a", 4); /* its own */
    assert_true(leads(&s));
    note(&s, &watch, BW_NOTE_READY, "b", 5); /* the refusal of "c" cancelled nothing */
    assert_int_equal(wants(&s, BW_LEASE_STEP_DOWN)->reason, BW_LEASE_TRANSFERRED);
    free(s.lease);
}

static void a_transfer_without_an_answer_is_cancelled_after_one_ttl(void **state)
{
    (void)state;
    struct story s;
    struct bw_store_request watch = lead(&s);
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_RESIGN, .to = "b"});
    bw_time until = s.now + TTL;
    uint64_t version = 20;
    while (s.now < until) {
        time_passes(&s);
        if (asks(&s, BW_STORE_RENEW))
            answer(&s, asks(&s, BW_STORE_RENEW), BW_OUTCOME_DONE, held_by("a", 5, version++));
    }
    assert_int_equal(s.now, until);
    struct bw_store_record late = held_by("a", 5, version);
    late.note = (struct bw_note){.kind = BW_NOTE_READY, .serial = 2, .from = "b", .to = "a"};
    answer(&s, &watch, BW_OUTCOME_DONE, late);
    assert_true(leads(&s));
    free(s.lease);
}

static void impossible_transfers_are_not_begun(void **state)
{
    (void)state;
    char name[BW_CANDIDATE_ID_MAX + 2];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    struct story s;
    lead(&s);
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_RESIGN, .to = name});
    assert_null(asks(&s, BW_STORE_NOTE));
    name[BW_CANDIDATE_ID_MAX] = 0;
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_RESIGN, .to = name});
    assert_non_null(asks(&s, BW_STORE_NOTE));
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_RESIGN, .to = "a"}); /* to itself */
    assert_null(asks(&s, BW_STORE_NOTE));
    assert_true(leads(&s));
    free(s.lease);
    struct bw_lease_config config = config_for("a", 7);
    config.traits &= ~(unsigned)BW_STORE_NOTES;
    lead_with(&s, config);
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_RESIGN, .to = "b"});
    assert_null(asks(&s, BW_STORE_NOTE));
    assert_true(leads(&s));
    free(s.lease);
}

static void an_empty_successor_means_to_resign(void **state)
{
    (void)state;
    struct story s;
    begin(&s);
    happens(&s, BW_LEASE_RESIGN); /* not leading: ignored */
    assert_int_equal(s.actions.count, 0);
    free(s.lease);
    lead(&s);
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_RESIGN, .to = ""});
    assert_int_equal(wants(&s, BW_LEASE_STEP_DOWN)->reason, BW_LEASE_RESIGNED);
    free(s.lease);
}

static void a_transferred_leader_yields_like_one_that_resigned(void **state)
{
    (void)state;
    struct story s;
    struct bw_store_request watch = lead(&s);
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_RESIGN, .to = "b"});
    note(&s, &watch, BW_NOTE_READY, "b", 1);
    happens(&s, BW_LEASE_WORK_DEAD);
    struct bw_store_record freed = {.version = 30, .clean = true};
    answer(&s, asks(&s, BW_STORE_RELEASE), BW_OUTCOME_DONE, freed);
    bw_time released = s.now;
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, freed);
    assert_null(asks(&s, BW_STORE_ACQUIRE));
    assert_int_equal(bw_lease_deadline(s.lease), released + BW_SEC);
    free(s.lease);
}

/* A candidate that waits behind "b" sees a PREPARE for `to`. */
static bool is_prepared(struct bw_lease_config config, const char *to, bool stopping)
{
    struct story s;
    begin_with(&s, config);
    happens(&s, BW_LEASE_START);
    const struct bw_store_request read = *asks(&s, BW_STORE_READ);
    if (stopping)
        happens(&s, BW_LEASE_STOP);
    struct bw_store_record record = held_by("b", 4, 77);
    record.note = (struct bw_note){.kind = BW_NOTE_PREPARE, .serial = 3, .from = "b"};
    snprintf(record.note.to, sizeof record.note.to, "%s", to);
    answer(&s, &read, BW_OUTCOME_DONE, record);
    bool prepares = wants(&s, BW_LEASE_PREPARE) != NULL;
    free(s.lease);
    return prepares;
}

static void only_the_named_candidate_prepares(void **state)
{
    (void)state;
    struct bw_lease_config config = config_for("a", 7);
    assert_true(is_prepared(config, "a", false));
    assert_false(is_prepared(config, "c", false));
    assert_false(is_prepared(config, "a", true));
    config.observer = true;
    assert_false(is_prepared(config, "a", false));
}

/* What the candidate writes when its --on-prepare ends. */
static enum bw_note_kind prepared(struct bw_lease_config config, bool ready, bool healthy)
{
    struct story s;
    begin_with(&s, config);
    happens(&s, BW_LEASE_START);
    answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, held_by("b", 4, 77));
    if (!healthy)
        step(&s, (struct bw_lease_event){.kind = BW_LEASE_HEALTH, .yes = false});
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_PREPARED, .yes = ready});
    const struct bw_store_request *ask = asks(&s, BW_STORE_NOTE);
    enum bw_note_kind kind = ask ? ask->note.kind : BW_NOTE_NONE;
    if (ask)
        assert_string_equal(ask->note.to, "b");
    free(s.lease);
    return kind;
}

static void a_prepared_candidate_confirms_only_if_it_is_ready_and_healthy(void **state)
{
    (void)state;
    struct bw_lease_config config = config_for("a", 7);
    assert_int_equal(prepared(config, true, true), BW_NOTE_READY);
    assert_int_equal(prepared(config, false, true), BW_NOTE_REFUSE);
    assert_int_equal(prepared(config, true, false), BW_NOTE_REFUSE);
    config.observer = true;
    assert_int_equal(prepared(config, true, true), BW_NOTE_NONE);
    struct story s;
    lead(&s); /* it already leads: there is nothing to confirm */
    step(&s, (struct bw_lease_event){.kind = BW_LEASE_PREPARED, .yes = true});
    assert_null(asks(&s, BW_STORE_NOTE));
    free(s.lease);
}

static void the_successor_itself_does_not_yield(void **state)
{
    (void)state;
    for (int ours = 0; ours < 2; ours++) {
        struct story s;
        begin(&s);
        happens(&s, BW_LEASE_START);
        struct bw_store_record freed = held_by("b", 4, 77);
        freed.held = false;
        freed.clean = true;
        freed.note = (struct bw_note){.kind = BW_NOTE_READY, .serial = 3, .to = "b"};
        snprintf(freed.note.from, sizeof freed.note.from, "%s", ours ? "a" : "c");
        answer(&s, asks(&s, BW_STORE_READ), BW_OUTCOME_DONE, freed);
        assert_int_equal(asks(&s, BW_STORE_ACQUIRE) != NULL, ours);
        free(s.lease);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_successor_confirms_or_refuses_a_transfer),
        cmocka_unit_test(a_transfer_without_an_answer_is_cancelled_after_one_ttl),
        cmocka_unit_test(impossible_transfers_are_not_begun),
        cmocka_unit_test(an_empty_successor_means_to_resign),
        cmocka_unit_test(a_transferred_leader_yields_like_one_that_resigned),
        cmocka_unit_test(only_the_named_candidate_prepares),
        cmocka_unit_test(a_prepared_candidate_confirms_only_if_it_is_ready_and_healthy),
        cmocka_unit_test(the_successor_itself_does_not_yield),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
