/* The record: its content and which requests may change it. */
#include "conformance/conformance.h"

#include <stdio.h>
#include <string.h>

static struct client a, b;

static int open_two(void **state)
{
    (void)state;
    client_open_for_conformance(&a, conformance_url, "ada");
    client_open_for_conformance(&b, conformance_url, "ben");
    return 0;
}

static int close_two(void **state)
{
    (void)state;
    client_close(&a);
    client_close(&b);
    return 0;
}

static bool has(unsigned trait)
{
    return (a.ops->traits & trait) != 0;
}

static void new_election_has_no_holder(void **state)
{
    (void)state;
    struct bw_store_reply reply = client_do(&a, BW_STORE_READ, conformance_election());
    assert_int_equal(reply.outcome, BW_OUTCOME_DONE);
    assert_int_equal(reply.record.version, 0);
    assert_false(reply.record.held);
    assert_true(reply.record.clean);
    assert_int_equal(reply.record.token, 0);
}

static void acquire_succeeds_when_record_is_free(void **state)
{
    (void)state;
    const char *election = conformance_election();
    struct bw_store_request request = client_request(&a, BW_STORE_ACQUIRE, election);
    request.value = "http://ada:80";
    struct bw_store_reply reply = client_ask(&a, &request);
    assert_int_equal(reply.outcome, BW_OUTCOME_DONE);
    assert_true(reply.record.held);
    assert_string_equal(reply.record.holder, "ada");
    assert_string_equal(reply.record.value, "http://ada:80");
    assert_int_equal(reply.record.request, request.id);
    assert_int_equal(reply.record.ttl_ns, request.ttl_ns);
    assert_true(reply.record.version != 0);
    assert_int_equal(reply.record.token != 0, has(BW_STORE_TOKEN));
    assert_false(reply.record.proved_dead);
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, election);
    assert_int_equal(seen.record.version, reply.record.version);
    assert_string_equal(seen.record.holder, "ada");
    assert_string_equal(seen.record.value, "http://ada:80");
}

static void acquire_is_refused_and_names_holder_when_record_is_held(void **state)
{
    (void)state;
    const char *election = conformance_election();
    struct bw_store_reply first = client_acquire(&a, election, 0);
    struct bw_store_reply second = client_acquire(&b, election, 0);
    assert_int_equal(second.outcome, BW_OUTCOME_REFUSED);
    assert_true(second.record.held);
    assert_string_equal(second.record.holder, "ada");
    assert_int_equal(second.record.token, first.record.token);
    assert_int_equal(second.record.version, first.record.version);
    assert_true(second.why[0] != '\0');
    assert_true(second.error < 0);
}

static void acquire_is_refused_when_another_process_holds_with_same_id(void **state)
{
    (void)state;
    const char *election = conformance_election();
    client_acquire(&a, election, 0);
    b.id = "ada";
    struct bw_store_reply again = client_acquire(&b, election, 0);
    b.id = "ben";
    assert_int_equal(again.outcome, BW_OUTCOME_REFUSED);
}

static void a_renewal_keeps_the_token_and_changes_the_version(void **state)
{
    (void)state;
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    struct bw_store_reply renewed = client_renew(&a, election, held.record.token);
    assert_int_equal(renewed.outcome, BW_OUTCOME_DONE);
    assert_true(renewed.record.held);
    assert_int_equal(renewed.record.token, held.record.token);
    assert_int_equal(renewed.record.request, held.record.request);
    if (has(BW_STORE_OBSERVED))
        assert_true(renewed.record.version != held.record.version);
}

static void wall_clock_end_only_grows_within_a_leadership(void **state)
{
    (void)state;
    const char *election = conformance_election();
    if (!has(BW_STORE_WALL))
        skip();
    struct bw_store_request acquire = client_request(&a, BW_STORE_ACQUIRE, election);
    acquire.until_wall_ns = 2000;
    struct bw_store_reply held = client_ask(&a, &acquire);
    assert_int_equal(held.record.until_wall_ns, 2000);
    struct bw_store_request renew = client_request(&a, BW_STORE_RENEW, election);
    renew.token = held.record.token;
    renew.until_wall_ns = 5000;
    assert_int_equal(client_ask(&a, &renew).record.until_wall_ns, 5000);
    renew.id = a.next_id++;
    renew.until_wall_ns = 4000; /* sent earlier, but arrives later */
    assert_int_equal(client_ask(&a, &renew).record.until_wall_ns, 5000);
    assert_int_equal(client_renew(&a, election, held.record.token).record.until_wall_ns, 5000);
    client_release(&a, election, held.record.token, true);
    assert_int_equal(client_acquire(&b, election, 0).record.until_wall_ns, 0);
    assert_int_equal(client_do(&a, BW_STORE_READ, election).record.until_wall_ns, 0);
}

static void renewal_is_refused_when_sender_is_not_the_holder(void **state)
{
    (void)state;
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    struct bw_store_reply theirs = client_renew(&b, election, held.record.token);
    assert_int_equal(theirs.outcome, BW_OUTCOME_REFUSED);
    assert_string_equal(theirs.record.holder, "ada");
    if (has(BW_STORE_TOKEN)) {
        struct bw_store_reply wrong = client_renew(&a, election, held.record.token + 1);
        assert_int_equal(wrong.outcome, BW_OUTCOME_REFUSED);
    }
    struct bw_store_reply now = client_do(&b, BW_STORE_READ, election);
    assert_int_equal(now.record.version, held.record.version);
    assert_int_equal(client_renew(&b, conformance_election(), 1).outcome, BW_OUTCOME_REFUSED);
}

static void record_is_clean_after_clean_release(void **state)
{
    (void)state;
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    struct bw_store_reply released = client_release(&a, election, held.record.token, true);
    assert_int_equal(released.outcome, BW_OUTCOME_DONE);
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, election);
    assert_false(seen.record.held);
    assert_true(seen.record.clean);
    assert_int_equal(client_renew(&a, election, held.record.token).outcome, BW_OUTCOME_REFUSED);
}

static void a_release_without_confirmed_death_is_not_clean(void **state)
{
    (void)state;
    if (!has(BW_STORE_PROVES_DEATH))
        skip();
    const char *election = conformance_election();
    struct bw_store_request request = client_request(&a, BW_STORE_ACQUIRE, election);
    request.containment = "cgroup:/ada";
    struct bw_store_reply held = client_ask(&a, &request);
    client_release(&a, election, held.record.token, false);
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, election);
    assert_false(seen.record.held);
    assert_false(seen.record.clean);
    assert_string_equal(seen.record.holder, "ada");
    assert_string_equal(seen.record.containment, "cgroup:/ada");
}

/* On every store, a new holder must learn which earlier holders to fence. */
static void next_holders_inherit_owed_work_after_unclean_release(void **state)
{
    (void)state;
    const char *election = conformance_election();
    struct bw_store_reply one = client_acquire(&a, election, 0);
    assert_string_equal(one.record.unconfirmed, "");
    client_release(&a, election, one.record.token, false);
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, election);
    assert_false(seen.record.held);
    assert_false(seen.record.clean);
    assert_string_equal(seen.record.holder, "ada");
    struct bw_store_reply two = client_acquire(&b, election, 0);
    assert_int_equal(two.outcome, BW_OUTCOME_DONE);
    assert_string_equal(two.record.unconfirmed, "ada\t\n");
    /* released clean, but `unconfirmed` was not settled */
    client_release(&b, election, two.record.token, true);
    assert_false(client_do(&a, BW_STORE_READ, election).record.clean);
    struct bw_store_reply three = client_acquire(&a, election, 0);
    assert_string_equal(three.record.unconfirmed, "ada\t\n");
    struct bw_store_request request = client_request(&a, BW_STORE_RENEW, election);
    request.token = three.record.token;
    request.settled = true;
    assert_string_equal(client_ask(&a, &request).record.unconfirmed, "");
    client_release(&a, election, three.record.token, true);
    assert_true(client_do(&b, BW_STORE_READ, election).record.clean);
}

/* A leadership that ends before its first renewal confirms the work of its predecessors, too. */
static void settled_release_confirms_the_work_of_lost_leaders(void **state)
{
    (void)state;
    const char *election = conformance_election();
    struct bw_store_reply one = client_acquire(&a, election, 0);
    client_release(&a, election, one.record.token, false);
    struct bw_store_reply two = client_acquire(&b, election, 0);
    assert_string_equal(two.record.unconfirmed, "ada\t\n");
    struct bw_store_request request = client_request(&b, BW_STORE_RELEASE, election);
    request.token = two.record.token;
    request.clean = request.settled = true;
    assert_int_equal(client_ask(&b, &request).outcome, BW_OUTCOME_DONE);
    assert_true(client_do(&a, BW_STORE_READ, election).record.clean);
    assert_string_equal(client_acquire(&a, election, 0).record.unconfirmed, "");
}

static void release_is_refused_when_sender_is_not_the_holder(void **state)
{
    (void)state;
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    assert_int_equal(client_release(&b, election, held.record.token, true).outcome,
                     BW_OUTCOME_REFUSED);
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, election);
    assert_true(seen.record.held);
    assert_int_equal(seen.record.version, held.record.version);
}

static void tokens_grow_from_leadership_to_leadership(void **state)
{
    (void)state;
    if (!has(BW_STORE_TOKEN))
        skip();
    const char *election = conformance_election();
    bw_token last = 0;
    for (int i = 0; i < 200; i++) { /* more than any store reserves in advance */
        struct client *who = i % 2 ? &a : &b;
        struct bw_store_reply held = client_acquire(who, election, 0);
        assert_int_equal(held.outcome, BW_OUTCOME_DONE);
        assert_true(held.record.token > last);
        last = held.record.token;
        client_release(who, election, last, i % 3 != 0);
    }
}

static void a_late_request_of_an_old_leadership_is_refused(void **state)
{
    (void)state;
    if (!has(BW_STORE_TOKEN))
        skip();
    const char *election = conformance_election();
    bw_token old = client_acquire(&a, election, 0).record.token;
    client_release(&a, election, old, true);
    bw_token new = client_acquire(&a, election, 0).record.token;
    assert_int_equal(client_renew(&a, election, old).outcome, BW_OUTCOME_REFUSED);
    assert_int_equal(client_release(&a, election, old, true).outcome, BW_OUTCOME_REFUSED);
    assert_int_equal(client_renew(&a, election, new).outcome, BW_OUTCOME_DONE);
}

static void steal_is_refused_when_version_has_changed(void **state)
{
    (void)state;
    if (!has(BW_STORE_OBSERVED))
        skip();
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    struct bw_store_reply renewed = client_renew(&a, election, held.record.token);
    struct bw_store_reply late = client_acquire(&b, election, held.record.version);
    assert_int_equal(late.outcome, BW_OUTCOME_REFUSED);
    assert_int_equal(late.record.version, renewed.record.version);
    struct bw_store_reply taken = client_acquire(&b, election, renewed.record.version);
    assert_int_equal(taken.outcome, BW_OUTCOME_DONE);
    assert_string_equal(taken.record.holder, "ben");
    assert_true(taken.record.token > held.record.token);
    assert_int_equal(client_renew(&a, election, held.record.token).outcome, BW_OUTCOME_REFUSED);
    assert_int_equal(client_release(&a, election, held.record.token, true).outcome,
                     BW_OUTCOME_REFUSED);
}

static void work_of_lost_leaders_is_unconfirmed_until_settled(void **state)
{
    (void)state;
    if (!has(BW_STORE_PROVES_DEATH))
        skip();
    const char *election = conformance_election();
    struct bw_store_request request = client_request(&a, BW_STORE_ACQUIRE, election);
    request.containment = "cgroup:/ada";
    struct bw_store_reply one = client_ask(&a, &request);
    assert_string_equal(one.record.unconfirmed, "");
    struct bw_store_reply two = client_acquire(&b, election, one.record.version);
    assert_string_equal(two.record.unconfirmed, "ada\tcgroup:/ada\n");
    /* Ben loses his leadership before he clears `unconfirmed`: the next holder inherits both lines.
     * */
    request = client_request(&a, BW_STORE_ACQUIRE, election);
    request.steal = two.record.version;
    struct bw_store_reply three = client_ask(&a, &request);
    assert_string_equal(three.record.unconfirmed, "ada\tcgroup:/ada\nben\t\n");
    client_release(&a, election, three.record.token, true);
    assert_false(client_do(&b, BW_STORE_READ, election).record.clean);
    struct bw_store_reply four = client_acquire(&b, election, 0);
    assert_string_equal(four.record.unconfirmed, "ada\tcgroup:/ada\nben\t\n");
    request = client_request(&b, BW_STORE_RENEW, election);
    request.token = four.record.token;
    request.settled = true;
    assert_string_equal(client_ask(&b, &request).record.unconfirmed, "");
    client_release(&b, election, four.record.token, true);
    assert_true(client_do(&a, BW_STORE_READ, election).record.clean);
}

static void a_value_can_be_changed_by_a_renewal(void **state)
{
    (void)state;
    const char *election = conformance_election();
    struct bw_store_request request = client_request(&a, BW_STORE_ACQUIRE, election);
    request.value = "one";
    bw_token token = client_ask(&a, &request).record.token;
    client_renew(&a, election, token); /* no value: unchanged */
    assert_string_equal(client_do(&b, BW_STORE_READ, election).record.value, "one");
    request = client_request(&a, BW_STORE_RENEW, election);
    request.token = token;
    request.value = "two 'quoted' \"twice\" \xc3\xa4";
    assert_int_equal(client_ask(&a, &request).outcome, BW_OUTCOME_DONE);
    assert_string_equal(client_do(&b, BW_STORE_READ, election).record.value, request.value);
}

static void value_of_maximum_length_is_stored(void **state)
{
    (void)state;
    char value[BW_VALUE_MAX + 2];
    memset(value, 'v', sizeof value);
    value[BW_VALUE_MAX] = '\0';
    const char *election = conformance_election();
    struct bw_store_request request = client_request(&a, BW_STORE_ACQUIRE, election);
    request.value = value;
    assert_int_equal(client_ask(&a, &request).outcome, BW_OUTCOME_DONE);
    assert_string_equal(client_do(&b, BW_STORE_READ, election).record.value, value);
}

static void lost_acquire_reply_is_recognised_by_request_id(void **state)
{
    (void)state;
    const char *election = conformance_election();
    struct bw_store_request request = client_request(&a, BW_STORE_ACQUIRE, election);
    uint64_t id = client_send(&a, &request);
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, election);
    for (int i = 0; i < 200 && seen.record.request != id; i++) {
        client_idle(&a, 20); /* the reply arrives, but is not fetched */
        seen = client_do(&b, BW_STORE_READ, election);
    }
    assert_true(seen.record.held);
    assert_int_equal(seen.record.request, id);
    struct bw_store_reply unused; /* other clients may see the record before the reply arrives */
    assert_true(client_wait(&a, id, 60000, &unused));
    assert_int_equal(client_renew(&a, election, seen.record.token).outcome, BW_OUTCOME_DONE);
}

static void notes_are_numbered_and_seen_by_all(void **state)
{
    (void)state;
    if (!has(BW_STORE_NOTES))
        skip();
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    struct bw_store_reply asked = client_note(&b, election, BW_NOTE_TRANSFER, "ben");
    assert_int_equal(asked.outcome, BW_OUTCOME_DONE);
    struct bw_store_reply seen = client_do(&a, BW_STORE_READ, election);
    assert_int_equal(seen.record.note.kind, BW_NOTE_TRANSFER);
    assert_string_equal(seen.record.note.from, "ben");
    assert_string_equal(seen.record.note.to, "ben");
    assert_true(seen.record.version != held.record.version);
    assert_true(seen.record.held); /* a note does not take the record */
    struct bw_store_reply answer = client_note(&a, election, BW_NOTE_PREPARE, "ben");
    assert_true(answer.record.note.serial > asked.record.note.serial);
    client_renew(&a, election, held.record.token);
    seen = client_do(&b, BW_STORE_READ, election);
    assert_int_equal(seen.record.note.serial, answer.record.note.serial);
    client_release(&a, election, held.record.token, true);
    client_acquire(&b, election, 0);
    assert_true(client_note(&a, election, BW_NOTE_RESIGN, "").record.note.serial >
                answer.record.note.serial);
}

/* An old note must not stay: a waiting candidate would yield to the successor of a transfer that is
 * long over. */
static void note_is_removed_when_next_leadership_begins(void **state)
{
    (void)state;
    if (!has(BW_STORE_NOTES))
        skip();
    const char *election = conformance_election();
    struct bw_store_reply held = client_acquire(&a, election, 0);
    struct bw_store_reply ready = client_note(&b, election, BW_NOTE_READY, held.record.holder);
    client_release(&a, election, held.record.token, true);
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, election);
    assert_int_equal(seen.record.note.kind, BW_NOTE_READY);
    assert_int_equal(client_acquire(&b, election, 0).outcome, BW_OUTCOME_DONE);
    seen = client_do(&a, BW_STORE_READ, election);
    assert_int_equal(seen.record.note.kind, BW_NOTE_NONE);
    assert_true(seen.record.note.serial >= ready.record.note.serial);
    assert_int_equal(client_note(&a, election, BW_NOTE_RESIGN, "ben").record.note.kind,
                     BW_NOTE_RESIGN);
}

static void enter(struct client *client, const char *election, const char *id, int priority)
{
    struct bw_store_request request = client_request(client, BW_STORE_ENTER, election);
    request.candidate = id;
    request.value = id;
    request.priority = priority;
    assert_int_equal(client_ask(client, &request).outcome, BW_OUTCOME_DONE);
}

/* Two candidates with the same id, as after a mistake in the configuration. */
static void a_candidate_stays_listed_when_another_with_its_id_leaves(void **state)
{
    (void)state;
    if (!has(BW_STORE_LISTS))
        skip();
    const char *election = conformance_election();
    struct bw_store_request request = client_request(&b, BW_STORE_ENTER, election);
    enter(&a, election, "zoe", 3);
    request.candidate = request.value = "zoe";
    struct bw_store_reply entered = client_ask(&b, &request);
    if (entered.outcome != BW_OUTCOME_DONE) {
        assert_int_equal(entered.outcome, BW_OUTCOME_REFUSED);
        assert_int_equal(entered.error, BW_EBUSY);
    }
    request = client_request(&b, BW_STORE_LEAVE, election);
    request.candidate = "zoe";
    client_ask(&b, &request);
    assert_int_equal(client_do(&b, BW_STORE_LIST, election).count, 1);
    assert_string_equal(b.listed[0].id, "zoe");
    assert_int_equal(b.listed[0].priority, 3);
    request = client_request(&a, BW_STORE_LEAVE, election);
    request.candidate = "zoe";
    client_ask(&a, &request);
    assert_int_equal(client_do(&b, BW_STORE_LIST, election).count, 0);
}

static void candidates_are_listed_in_order_of_entry(void **state)
{
    (void)state;
    if (!has(BW_STORE_LISTS))
        skip();
    const char *election = conformance_election();
    assert_int_equal(client_do(&a, BW_STORE_LIST, election).count, 0);
    enter(&a, election, "zoe", 0);
    enter(&b, election, "ben", -5);
    enter(&a, election, "ada", 7);
    enter(&a, election, "zoe", 3); /* enters again and keeps her position */
    /* on a store with a queue, only the first candidate can lead: zoe; else any: ben */
    bool in_order = has(BW_STORE_QUEUE);
    struct bw_store_request lead = client_request(&a, BW_STORE_ACQUIRE, election);
    lead.candidate = "zoe";
    assert_int_equal((in_order ? client_ask(&a, &lead) : client_acquire(&b, election, 0)).outcome,
                     BW_OUTCOME_DONE);
    assert_int_equal(client_do(&b, BW_STORE_LIST, election).count, 3);
    assert_string_equal(b.listed[0].id, "zoe");
    assert_string_equal(b.listed[1].id, "ben");
    assert_string_equal(b.listed[2].id, "ada");
    assert_string_equal(b.listed[2].value, "ada");
    assert_int_equal(b.listed[0].priority, 3);
    assert_int_equal(b.listed[1].priority, -5);
    assert_int_equal(b.listed[0].holder, in_order);
    assert_int_equal(b.listed[1].holder, !in_order);
    assert_false(b.listed[2].holder);
    struct bw_store_request request = client_request(&a, BW_STORE_LEAVE, election);
    request.candidate = in_order ? "ada" : "zoe";
    client_ask(&a, &request);
    assert_int_equal(client_do(&b, BW_STORE_LIST, election).count, 2);
    assert_string_equal(b.listed[in_order ? 1 : 0].id, "ben");
}

static void elections_do_not_touch_each_other(void **state)
{
    (void)state;
    const char *one = conformance_election(), *two = conformance_election();
    bw_token first = client_acquire(&a, one, 0).record.token;
    struct bw_store_reply other = client_acquire(&b, two, 0);
    assert_int_equal(other.outcome, BW_OUTCOME_DONE);
    client_release(&a, one, first, true);
    struct bw_store_reply seen = client_do(&a, BW_STORE_READ, two);
    assert_true(seen.record.held);
    assert_int_equal(seen.record.version, other.record.version);
}

static void election_names_may_contain_any_printable_character(void **state)
{
    (void)state;
    char name[BW_ELECTION_NAME_MAX + 1];
    const char *unique = conformance_election();
    const char *signs[] = {" %s", ".", "..%2e", "'\";--", "\xe2\x82\xac", "a:b@c?d#e&f=g+h,i"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        snprintf(name, sizeof name, "%s%s", signs[i], unique);
        assert_int_equal(client_acquire(&a, name, 0).outcome, BW_OUTCOME_DONE);
        assert_int_equal(client_acquire(&b, name, 0).outcome, BW_OUTCOME_REFUSED);
    }
    memset(name, '%', BW_ELECTION_NAME_MAX);
    memcpy(name, unique, strlen(unique));
    name[BW_ELECTION_NAME_MAX] = '\0';
    assert_int_equal(client_acquire(&a, name, 0).outcome, BW_OUTCOME_DONE);
    assert_int_equal(client_acquire(&b, name, 0).outcome, BW_OUTCOME_REFUSED);
}

static void refuse(struct bw_store_request request)
{
    assert_int_equal(a.ops->request(a.store, &request), BW_EINVAL);
}

static void invalid_requests_are_rejected(void **state)
{
    (void)state;
    char huge[2048];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    struct bw_store_request good = client_request(&a, BW_STORE_ACQUIRE, "name");
    struct bw_store_request bad = good;
    const char *elections[] = {"", "a/b", "a\nb", "\x7f", huge, NULL};
    for (size_t i = 0; i < 6; i++) {
        bad.election = elections[i];
        refuse(bad);
    }
    const char *candidates[] = {"", "a\tb", huge, NULL};
    bad = good;
    for (size_t i = 0; i < 4; i++) {
        bad.candidate = candidates[i];
        refuse(bad);
    }
    bw_time spans[] = {0, -1, INT64_MIN, INT64_MAX, a.ops->ttl_min_ns - 1};
    bad = good;
    for (size_t i = 0; i < 5; i++) {
        bad.ttl_ns = spans[i];
        refuse(bad);
    }
    bad = good;
    bad.value = huge;
    refuse(bad);
    bad = good;
    bad.containment = huge;
    refuse(bad);
    bad = good;
    bad.op = (enum bw_store_op)99;
    refuse(bad);
    client_idle(&a, 20);
    assert_int_equal(a.count, 0);
}

static void a_cancelled_request_is_not_answered(void **state)
{
    (void)state;
    const char *election = conformance_election();
    struct bw_store_request request = client_request(&a, BW_STORE_READ, election);
    uint64_t id = client_send(&a, &request);
    a.ops->cancel(a.store, id);
    a.ops->cancel(a.store, id + 12345); /* unknown id */
    client_idle(&a, 50);
    assert_int_equal(a.count, 0);
    assert_int_equal(client_do(&a, BW_STORE_READ, election).outcome, BW_OUTCOME_DONE);
}

static void no_reply_comes_after_close(void **state)
{
    (void)state;
    struct client c;
    const char *election = conformance_election();
    client_open(&c, conformance_url, "cleo");
    for (int i = 0; i < 50; i++) {
        struct bw_store_request request =
            client_request(&c, i % 2 ? BW_STORE_READ : BW_STORE_ACQUIRE, election);
        client_send(&c, &request);
        if (i == 25)
            uv_run(&c.loop, UV_RUN_NOWAIT);
    }
    if (c.ops->traits & BW_STORE_NOTIFIES)
        client_watch(&c, conformance_election(), 0);
    client_close(&c); /* the client asserts that no reply follows */
}

#define MANY     1000u
#define FEW      20u
#define ATTEMPTS 8u /* of a test that counts only if the machine did not stall */

static struct bw_store_request one_of_many(unsigned round, const char *name, bw_token token)
{
    struct bw_store_request request =
        client_request(&a, round ? BW_STORE_RENEW : BW_STORE_ACQUIRE, name);
    request.token = token;
    return request;
}

/* Sends all requests of a round at once. Returns whether all succeeded, or explains the first that
 * did not in why[BW_WHY_MAX + 1]. */
static bool ask_many(unsigned round, const char *unique, bw_token *tokens, unsigned count,
                     char *why)
{
    char name[128];
    struct bw_store_reply reply;
    uint64_t first = a.next_id;
    bool good = true;
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s-%u", unique, i);
        struct bw_store_request request = one_of_many(round, name, tokens[i]);
        client_send(&a, &request);
    }
    for (unsigned i = 0; i < count; i++) {
        assert_true(client_wait(&a, first + i, 60000, &reply));
        tokens[i] = reply.record.token;
        if (good && reply.outcome != BW_OUTCOME_DONE)
            snprintf(why, BW_WHY_MAX + 1, "request %u of round %u: outcome %d, %.150s", i, round,
                     (int)reply.outcome, reply.why);
        good &= reply.outcome == BW_OUTCOME_DONE;
    }
    return good;
}

/* Acquires and renews `count` elections, named `unique`-0 and so on. */
static bool hold_many(const char *unique, unsigned count, char *why)
{
    static bw_token tokens[MANY];
    memset(tokens, 0, sizeof tokens);
    return ask_many(0, unique, tokens, count, why) && ask_many(1, unique, tokens, count, why);
}

/* Chooses a number that can be acquired in a quarter of a lease, from how long a few take. */
static unsigned how_many(void)
{
    char why[BW_WHY_MAX + 1];
    bw_time ttl = one_of_many(0, "", 0).ttl_ns;
    uint64_t begun = uv_hrtime();
    if (!hold_many(conformance_election(), FEW, why))
        fail_msg("%s", why);
    uint64_t each = (uv_hrtime() - begun) / FEW + 1, count = (uint64_t)ttl / 4 / each;
    return count > MANY ? MANY : count < FEW ? FEW : (unsigned)count;
}

static void one_client_holds_many_elections(void **state)
{
    (void)state;
    char name[128], why[BW_WHY_MAX + 1];
    unsigned count = how_many();
    const char *unique = conformance_election();
    client_measure_stalls();
    for (unsigned i = 1; !hold_many(unique, count, why); i++) {
        if (i == ATTEMPTS || !client_was_stalled(why))
            fail_msg("%s", why);
        unique = conformance_election();
        client_measure_stalls();
    }
    print_message("# %u elections at once\n", count);
    snprintf(name, sizeof name, "%s-%u", unique, count / 2);
    assert_int_equal(client_acquire(&b, name, 0).outcome, BW_OUTCOME_REFUSED);
}

#define QUEUED 500u
/* more than the requests that any store has in flight, but fewer than QUEUED */
#define BEFORE_MOST 350u

static void send_reads(struct client *client, const char *election, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct bw_store_request read = client_request(client, BW_STORE_READ, election);
        client_send(client, &read);
    }
}

/* Waits for the reply to request `id`. Returns how many replies came before it. */
static uint32_t came_before(struct client *client, uint64_t id)
{
    for (uint32_t i = 0;; i++) {
        while (i == client->count)
            uv_run(&client->loop, UV_RUN_ONCE);
        if (client->kept[i].id == id)
            return i;
    }
}

/* A store that limits the number of requests in flight queues the others; a renewal must not wait
 * behind them. Reads are used because they change nothing. The first reads open the connections,
 * because a busy server may take long to accept a new one. */
static void renewal_is_answered_before_queued_reads(void **state)
{
    (void)state;
    const char *scheme = a.ops->scheme;
    if (strncmp(scheme, "redis", 5) == 0 || strcmp(scheme, "zookeeper") == 0)
        skip(); /* these stores send everything immediately, and the server answers in order */
    const char *election = conformance_election();
    bw_token token = client_acquire(&a, election, 0).record.token;
    a.count = 0;
    send_reads(&a, election, QUEUED / 4);
    while (a.count < QUEUED / 4)
        uv_run(&a.loop, UV_RUN_ONCE);
    struct bw_store_request renew = client_request(&a, BW_STORE_RENEW, election);
    renew.token = token;
    a.count = 0;
    send_reads(&a, election, QUEUED);
    uint32_t before = came_before(&a, client_send(&a, &renew)), done = 0;
    for (uint32_t i = 0; i < before; i++) /* reads that timed out were not sent */
        done += a.kept[i].outcome == BW_OUTCOME_DONE;
    print_message("# %u of %u reads were answered before the renewal\n", done, QUEUED);
    assert_int_equal(a.kept[before].outcome, BW_OUTCOME_DONE);
    assert_true(done < BEFORE_MOST);
}

static void lease_expires_as_the_traits_declare(void **state)
{
    (void)state;
    const char *election = conformance_election();
    struct bw_store_request request = client_request(&a, BW_STORE_ACQUIRE, election);
    request.ttl_ns = bw_time_max(a.ops->ttl_min_ns, 200 * BW_MS);
    struct bw_store_reply held = client_ask(&a, &request);
    unsigned ms = (unsigned)(request.ttl_ns / BW_MS);
    client_idle(&b, ms + ms / 2 + 500);
    struct bw_store_reply seen = client_do(&b, BW_STORE_READ, election);
    assert_int_equal(seen.record.held, has(BW_STORE_OBSERVED));
    /* the record stays held: a candidate that saw no change for a TTL may take it */
    if (has(BW_STORE_OBSERVED)) {
        assert_int_equal(seen.record.version, held.record.version);
        assert_int_equal(client_acquire(&b, election, 0).outcome, BW_OUTCOME_REFUSED);
        assert_int_equal(client_acquire(&b, election, seen.record.version).outcome,
                         BW_OUTCOME_DONE);
    } else {
        assert_int_equal(client_acquire(&b, election, 0).outcome, BW_OUTCOME_DONE);
    }
}

#define with_two(test) cmocka_unit_test_setup_teardown(test, open_two, close_two)

const struct CMUnitTest *conformance_records(size_t *count)
{
    static const struct CMUnitTest tests[] = {
        with_two(new_election_has_no_holder),
        with_two(acquire_succeeds_when_record_is_free),
        with_two(acquire_is_refused_and_names_holder_when_record_is_held),
        with_two(acquire_is_refused_when_another_process_holds_with_same_id),
        with_two(a_renewal_keeps_the_token_and_changes_the_version),
        with_two(wall_clock_end_only_grows_within_a_leadership),
        with_two(renewal_is_refused_when_sender_is_not_the_holder),
        with_two(record_is_clean_after_clean_release),
        with_two(a_release_without_confirmed_death_is_not_clean),
        with_two(next_holders_inherit_owed_work_after_unclean_release),
        with_two(settled_release_confirms_the_work_of_lost_leaders),
        with_two(release_is_refused_when_sender_is_not_the_holder),
        with_two(tokens_grow_from_leadership_to_leadership),
        with_two(a_late_request_of_an_old_leadership_is_refused),
        with_two(steal_is_refused_when_version_has_changed),
        with_two(work_of_lost_leaders_is_unconfirmed_until_settled),
        with_two(a_value_can_be_changed_by_a_renewal),
        with_two(value_of_maximum_length_is_stored),
        with_two(lost_acquire_reply_is_recognised_by_request_id),
        with_two(notes_are_numbered_and_seen_by_all),
        with_two(note_is_removed_when_next_leadership_begins),
        with_two(a_candidate_stays_listed_when_another_with_its_id_leaves),
        with_two(candidates_are_listed_in_order_of_entry),
        with_two(elections_do_not_touch_each_other),
        with_two(election_names_may_contain_any_printable_character),
        with_two(invalid_requests_are_rejected),
        with_two(a_cancelled_request_is_not_answered),
        with_two(no_reply_comes_after_close),
        with_two(one_client_holds_many_elections),
        with_two(renewal_is_answered_before_queued_reads),
        with_two(lease_expires_as_the_traits_declare),
    };
    *count = sizeof tests / sizeof tests[0];
    return tests;
}
