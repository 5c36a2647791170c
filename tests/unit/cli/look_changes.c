/* Tests the changes that an observer derives from records, the states of a transfer, and the
 * comparison of sides. */
#include "cli/election/change.h"
#include "cli/election/sides.h"

#include "unit/unit.h"

#include <stdio.h>

static struct bw_store_record held(uint64_t version, const char *holder, bw_token token)
{
    struct bw_store_record record = {
        .version = version, .held = true, .token = token, .request = token * 100};
    snprintf(record.holder, sizeof record.holder, "%s", holder);
    return record;
}

static struct bw_store_record released(struct bw_store_record record, bool clean)
{
    record.version++;
    record.held = false;
    record.clean = clean;
    return record;
}

static void put_note(struct bw_store_record *record, enum bw_note_kind kind, const char *from,
                     const char *to)
{
    record->version++;
    record->note.kind = kind;
    record->note.serial++;
    snprintf(record->note.from, sizeof record->note.from, "%s", from);
    snprintf(record->note.to, sizeof record->note.to, "%s", to);
}

/* Returns "event:leader:reason" of each change, separated by blanks. */
static const char *story(struct bw_observer *observer, const struct bw_store_record *record)
{
    static char text[1024];
    struct bw_election_change seen[BW_ELECTION_CHANGES_MAX];
    unsigned count = bw_observer_update(observer, record, seen);
    text[0] = '\0';
    for (unsigned i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s:%s:%s", i ? " " : "",
                 seen[i].event, seen[i].leader, seen[i].reason);
    return text;
}

static void first_record_is_reported_as_found(void **state)
{
    struct bw_observer observer = {0}, other = {0};
    struct bw_store_record record = held(1, "a", 5), gone = released(record, true);
    (void)state;
    assert_string_equal(story(&observer, &record), "found:a:");
    assert_string_equal(story(&other, &gone), "found::no leader");
}

static void renewal_is_not_a_change(void **state)
{
    struct bw_observer observer = {0};
    struct bw_store_record record = held(1, "a", 5);
    (void)state;
    story(&observer, &record);
    record.version++;
    record.left_ns = 7;
    assert_string_equal(story(&observer, &record), "");
}

static void release_reason_is_what_the_record_proves(void **state)
{
    struct bw_observer observer = {0};
    struct bw_store_record record = held(1, "a", 5), gone;
    (void)state;
    story(&observer, &record);
    gone = released(record, true);
    assert_string_equal(story(&observer, &gone), "lost:a:released");
    record = held(3, "b", 6);
    assert_string_equal(story(&observer, &record), "elected:b:");
    put_note(&record, BW_NOTE_RESIGN, "ops", "b");
    assert_string_equal(story(&observer, &record), "note:b:resign");
    gone = released(record, true);
    assert_string_equal(story(&observer, &gone), "lost:b:resigned");
    struct bw_note old = record.note;
    record = held(9, "c", 7); /* the old note is still there, but does not concern c */
    record.note = old;
    assert_string_equal(story(&observer, &record), "elected:c:");
    gone = released(record, true);
    assert_string_equal(story(&observer, &gone), "lost:c:released");
}

static void transfer_is_reported_when_the_free_record_was_missed(void **state)
{
    struct bw_observer observer = {0};
    struct bw_store_record record = held(1, "a", 5), next;
    (void)state;
    story(&observer, &record);
    put_note(&record, BW_NOTE_READY, "b", "a");
    next = held(9, "b", 6);
    next.note = record.note;
    assert_string_equal(story(&observer, &next), "lost:a:transferred elected:b: note:b:ready");
}

static void takeover_is_distinguished_from_a_proved_death(void **state)
{
    struct bw_observer observer = {0};
    struct bw_store_record record = held(1, "a", 5), next = held(2, "b", 6);
    (void)state;
    story(&observer, &record);
    snprintf(next.unconfirmed, sizeof next.unconfirmed, "x\t\na\tcgroup:/a\n");
    assert_string_equal(story(&observer, &next),
                        "lost:a:taken elected:b:work of earlier leaders is not confirmed dead");
    next.version++;
    next.unconfirmed[0] = '\0';
    assert_string_equal(story(&observer, &next),
                        "settled:b:work of earlier leaders is confirmed dead");
    next.proved_dead = true;
    assert_string_equal(story(&observer, &next), "dead:b:proved dead");
    assert_string_equal(story(&observer, &next), ""); /* reported once */
    record = held(9, "c", 7);
    assert_string_equal(story(&observer, &record), "lost:b:proved dead elected:c:");
}

static void same_holder_elected_again_is_a_change(void **state)
{
    struct bw_observer observer = {0};
    struct bw_store_record record = held(1, "a", 5), next = held(4, "a", 6);
    (void)state;
    story(&observer, &record);
    assert_string_equal(story(&observer, &next), "lost:a:followed elected:a:");
    snprintf(next.value, sizeof next.value, "10.0.0.1:80");
    next.version++;
    assert_string_equal(story(&observer, &next), "value:a:");
}

static void unclean_end_is_not_reported_as_release(void **state)
{
    struct bw_observer observer = {0};
    struct bw_store_record record = held(1, "a", 5), gone;
    (void)state;
    story(&observer, &record);
    gone = released(record, false);
    assert_string_equal(story(&observer, &gone), "lost:a:its work is not confirmed dead");
}

static void unclean_end_is_not_reported_as_release_when_other_work_is_unconfirmed(void **state)
{
    struct bw_observer killed = {0}, clean = {0};
    struct bw_store_record record = held(1, "b", 5), gone;
    (void)state;
    snprintf(record.unconfirmed, sizeof record.unconfirmed, "a\tcgroup:/a\n");
    snprintf(record.containment, sizeof record.containment, "cgroup:/b");
    story(&killed, &record);
    story(&clean, &record);
    gone = released(record, false); /* the store ended its lease */
    assert_string_equal(story(&killed, &gone), "lost:b:its work is not confirmed dead");
    gone.containment[0] = '\0'; /* b released by itself; the work of a is still unconfirmed */
    assert_string_equal(story(&clean, &gone), "lost:b:released");
}

/* ---- transfer ---- */

static void transfer_passes_through_its_states(void **state)
{
    struct bw_store_record record = held(1, "a", 5);
    (void)state;
    put_note(&record, BW_NOTE_TRANSFER, "ops", "b");
    struct bw_transfer t = {.to = "b", .holder = "a", .token = 5, .serial = record.note.serial};
    assert_false(bw_transfer_update(&t, &record));
    assert_int_equal(t.state, BW_TRANSFER_ASKED);
    put_note(&record, BW_NOTE_PREPARE, "a", "b");
    assert_false(bw_transfer_update(&t, &record));
    assert_int_equal(t.state, BW_TRANSFER_PREPARING);
    put_note(&record, BW_NOTE_READY, "b", "a");
    assert_false(bw_transfer_update(&t, &record));
    assert_int_equal(t.state, BW_TRANSFER_READY);
    struct bw_store_record gone = released(record, true);
    assert_false(bw_transfer_update(&t, &gone));
    assert_int_equal(t.state, BW_TRANSFER_FREE);
    struct bw_store_record next = held(9, "b", 6);
    assert_true(bw_transfer_update(&t, &next));
    assert_int_equal(t.state, BW_TRANSFER_DONE);
}

static void transfer_can_be_refused_or_superseded(void **state)
{
    struct bw_store_record record = held(1, "a", 0), other = held(2, "c", 0);
    struct bw_transfer t = {.to = "b", .holder = "a"};
    (void)state;
    assert_true(bw_transfer_update(&t, &other)); /* also for stores without tokens */
    assert_int_equal(t.state, BW_TRANSFER_ELSEWHERE);
    t.state = BW_TRANSFER_ASKED;
    put_note(&record, BW_NOTE_REFUSE, "b", "a");
    assert_true(bw_transfer_update(&t, &record));
    assert_int_equal(t.state, BW_TRANSFER_REFUSED);
    t.state = BW_TRANSFER_ASKED;
    put_note(&record, BW_NOTE_TRANSFER, "ops", "c");
    assert_true(bw_transfer_update(&t, &record));
    assert_int_equal(t.state, BW_TRANSFER_SUPERSEDED);
}

/* ---- sides ---- */

static void sides_are_parsed_line_by_line(void **state)
{
    static struct bw_sides sides;
    uint32_t wrong;
    (void)state;
    assert_int_equal(
        bw_sides_parse("# sides\ndb1 41 9f86\n\n db2\t0  9f86 \ndb3 42 9f86", &sides, &wrong), 0);
    assert_int_equal(sides.count, 3);
    assert_string_equal(sides.at[1].name, "db2");
    assert_true(bw_sides_agree(&sides));
    assert_int_equal(bw_sides_highest(&sides), 42);
    assert_int_equal(bw_sides_parse("a 1 x\nb 1 y\n", &sides, &wrong), 0);
    assert_false(bw_sides_agree(&sides));
}

static void invalid_hook_line_is_reported_by_number(void **state)
{
    static struct bw_sides sides;
    static char many[4096];
    const char *const bad[] = {"a 1 x\nb\n", "a 1 x\nb 1\n", "a 1 x\nb one x\n", "a 1 x\nb 1 x y\n",
                               "a 1 x\nb -1 x\n"};
    uint32_t wrong;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(bw_sides_parse(bad[i], &sides, &wrong), BW_EMALFORMED);
        assert_int_equal(wrong, 2);
    }
    for (unsigned i = 0; i <= BW_SIDES_MAX; i++)
        strcat(many, "a 1 x\n");
    assert_int_equal(bw_sides_parse(many, &sides, &wrong), BW_ELIMIT);
    assert_int_equal(bw_sides_parse("", &sides, &wrong), 0);
    assert_true(bw_sides_agree(&sides));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_record_is_reported_as_found),
        cmocka_unit_test(renewal_is_not_a_change),
        cmocka_unit_test(release_reason_is_what_the_record_proves),
        cmocka_unit_test(transfer_is_reported_when_the_free_record_was_missed),
        cmocka_unit_test(takeover_is_distinguished_from_a_proved_death),
        cmocka_unit_test(same_holder_elected_again_is_a_change),
        cmocka_unit_test(unclean_end_is_not_reported_as_release),
        cmocka_unit_test(unclean_end_is_not_reported_as_release_when_other_work_is_unconfirmed),
        cmocka_unit_test(transfer_passes_through_its_states),
        cmocka_unit_test(transfer_can_be_refused_or_superseded),
        cmocka_unit_test(sides_are_parsed_line_by_line),
        cmocka_unit_test(invalid_hook_line_is_reported_by_number),
    };
    return cmocka_run_group_tests_name("look changes", tests, NULL, NULL);
}
