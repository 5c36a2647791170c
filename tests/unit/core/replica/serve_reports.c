/* A node reports its incarnation to a follower while the leader's log brings the same number. Every
 * order of delivery is tried within bounds: the follower must never refuse a healthy process, and
 * must refuse every old copy that connects after the follower learned its number.
 *
 * Model: a directory has one running process, or a copy of an earlier directory runs in its place.
 * A process dials, the follower accepts, the process learns that and reports. It may report again,
 * lose its connection, and end at any time; the follower still reads what an ended connection had
 * delivered, until a new one replaces it. A healthy process publishes after it has dialled; a copy
 * does not, because the leader refuses it. A refusal reaches the process that runs when it
 * arrives. */
#include "core/replica/membership.h"

#include "unit/unit.h"

#include <string.h>

#define NODE    3u
#define REPORTS 3u
#define DEPTH   15u

enum wire_state { WIRE_NONE, WIRE_DIALLED, WIRE_ACCEPTED, WIRE_UP };

struct report {
    uint16_t starts;
    bool published, copy;
};

struct wire {
    uint8_t state, count;
    struct report at[REPORTS];
};

struct process {
    bool runs, copy, published;
    uint16_t starts;
};

struct world {
    uint16_t published, learned; /* by the node; by the follower */
    struct process process;
    struct wire now, before; /* the connection, and one that ended but was not read to its end */
    struct bw_peer_check check;
    bool refusal_sent;
    struct report refusal;
    uint8_t restarts, breaks, copies;
};

static struct bw_membership follower;
static uint64_t worlds, refused_copies, overtaken;

static void set_known(uint16_t starts)
{
    follower.applied.at[0].starts = follower.member_list.at[0].starts = starts;
}

/* ── what can happen ── */

static void send_report(struct world *w)
{
    if (w->now.count < REPORTS)
        w->now.at[w->now.count++] =
            (struct report){w->process.starts, w->process.published, w->process.copy};
}

static bool dial(struct world *w)
{
    if (!w->process.runs || w->now.state != WIRE_NONE)
        return false;
    w->now.state = WIRE_DIALLED;
    return true;
}

static bool accept(struct world *w)
{
    if (w->now.state != WIRE_DIALLED)
        return false;
    w->before = (struct wire){0};
    w->now.state = WIRE_ACCEPTED;
    set_known(w->learned);
    bw_membership_accepted(&follower, NODE, &w->check);
    return true;
}

static bool open(struct world *w)
{
    if (w->now.state != WIRE_ACCEPTED)
        return false;
    w->now.state = WIRE_UP;
    send_report(w);
    return true;
}

static bool report_again(struct world *w)
{
    if (w->now.state != WIRE_UP || w->now.count != 1)
        return false;
    send_report(w);
    return true;
}

static bool publish(struct world *w)
{
    struct process *p = &w->process;
    if (!p->runs || p->copy || p->published)
        return false;
    p->published = true;
    w->published = p->starts;
    return true;
}

static bool learn(struct world *w)
{
    if (w->learned == w->published)
        return false;
    w->learned = w->published;
    return true;
}

static bool read_report(struct world *w, struct wire *wire)
{
    if (wire->count == 0)
        return false;
    struct report report = wire->at[0];
    memmove(wire->at, wire->at + 1, --wire->count * sizeof *wire->at);
    set_known(w->learned);
    switch (bw_membership_reported(&follower, NODE, &w->check, report.starts, report.published)) {
    case BW_INCARNATION_CURRENT:
        /* an old copy is accepted only while the follower did not know its number */
        assert_true(!report.copy || w->check.accepted_at < report.starts);
        break;
    case BW_INCARNATION_OVERTAKEN:
        overtaken++;
        *wire = (struct wire){0};
        break;
    case BW_INCARNATION_STALE:
        refused_copies += report.copy;
        w->refusal_sent = true;
        w->refusal = (struct report){w->check.starts, w->check.published, false};
        break;
    }
    return true;
}

static bool read_now(struct world *w)
{
    return read_report(w, &w->now);
}

static bool read_before(struct world *w)
{
    return read_report(w, &w->before);
}

static bool deliver_refusal(struct world *w)
{
    if (!w->refusal_sent || !w->process.runs)
        return false;
    w->refusal_sent = false;
    follower.starts = w->process.starts;
    follower.published = w->process.published;
    if (!bw_membership_is_refused(&follower, w->refusal.starts, w->refusal.published))
        return true;
    assert_true(w->process.copy); /* a healthy process must not be refused */
    w->process.runs = false;
    w->now = (struct wire){0};
    return true;
}

static void lose_connection(struct world *w)
{
    if (w->now.count)
        w->before = w->now;
    w->now = (struct wire){0};
}

static bool lose(struct world *w)
{
    if (w->now.state == WIRE_NONE || w->breaks == 0)
        return false;
    w->breaks--;
    lose_connection(w);
    return true;
}

static bool start(struct world *w, bool copy)
{
    if (copy ? w->copies == 0 || w->published == 0 : w->restarts == 0)
        return false;
    lose_connection(w);
    (*(copy ? &w->copies : &w->restarts))--;
    /* a copy begins with a number that the node has published */
    w->process = (struct process){
        .runs = true, .copy = copy, .starts = (uint16_t)(w->published + (copy ? 0 : 1))};
    return true;
}

static bool start_again(struct world *w)
{
    return start(w, false);
}

static bool start_copy(struct world *w)
{
    return start(w, true);
}

static bool (*const acts[])(struct world *w) = {learn,  read_before,  read_now,    deliver_refusal,
                                                accept, open,         dial,        publish,
                                                lose,   report_again, start_again, start_copy};
#define QUIET 7u /* the first ones happen without anybody's decision */

/* ── every order ── */

/* What is on its way arrives: a healthy process is connected and not refused; a copy that the
 * follower can tell has ended. */
static void check_end(struct world w)
{
    for (unsigned i = 0; i < QUIET; i++)
        if (acts[i](&w))
            i = UINT32_MAX; /* from the beginning */
    if (!w.process.runs)
        return;
    assert_int_equal(w.now.state, WIRE_UP);
    if (!w.process.copy)
        assert_false(w.check.refused);
    else
        assert_true(w.check.accepted_at < w.process.starts);
}

static void explore(const struct world *w, unsigned depth)
{
    worlds++;
    check_end(*w);
    for (unsigned i = 0; depth > 0 && i < sizeof acts / sizeof *acts; i++) {
        struct world next = *w;
        if (acts[i](&next))
            explore(&next, depth - 1);
    }
}

static void follower_refuses_only_old_copies_in_every_order(void **state)
{
    (void)state;
    struct bw_replica_member third = {.id = NODE, .port = 3, .host = "10.0.0.1", .name = "c"};
    struct world w = {.published = 1,
                      .learned = 1,
                      .process = {.runs = true, .starts = 1, .published = true},
                      .restarts = 2,
                      .breaks = 1,
                      .copies = 1};
    bw_membership_init(&follower, 2, false, &third, 1);
    explore(&w, DEPTH);
    print_message("%llu orders, %llu copies refused, %llu reports overtaken\n",
                  (unsigned long long)worlds, (unsigned long long)refused_copies,
                  (unsigned long long)overtaken);
    assert_true(refused_copies > 0 && overtaken > 0);
}

/* Only the first report shows that a disk lost data: a new connection does not end the refusal. */
static void refusal_for_lost_data_outlives_the_connection(void **state)
{
    (void)state;
    struct bw_replica_member third = {.id = NODE, .starts = 2};
    struct bw_peer_check check = {0};
    bw_membership_init(&follower, 2, false, &third, 1);
    set_known(2);
    bw_membership_lost_data(&check);
    bw_membership_accepted(&follower, NODE, &check);
    assert_true(check.refused);
    assert_int_equal(bw_membership_reported(&follower, NODE, &check, 3, false),
                     BW_INCARNATION_CURRENT);
    set_known(
        3); /* the log overtakes the report, and the refusal must not end with the connection */
    assert_int_equal(bw_membership_reported(&follower, NODE, &check, 3, false),
                     BW_INCARNATION_STALE);
    assert_true(check.refused);
    assert_int_equal(check.starts, 0);
    bw_membership_begin(&follower, 7);
    assert_true(bw_membership_is_refused(&follower, 0, false));
    assert_true(bw_membership_is_refused(&follower, 7, false));
    assert_false(bw_membership_is_refused(&follower, 7, true));
    assert_false(bw_membership_is_refused(&follower, 6, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follower_refuses_only_old_copies_in_every_order),
        cmocka_unit_test(refusal_for_lost_data_outlives_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
