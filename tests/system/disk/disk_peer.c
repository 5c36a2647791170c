/* The directory of a peer (src/peer/disk.c) on a disk that loses power, against two numbers per
 * file: what was reported durable, and what was written since.
 *
 * After each crash the directory opens again, has the same id, and each election has its durable
 * record or a later one that was written, byte by byte. The members are those of the last write
 * that succeeded, or of a later one. */
#include "peer/disk.h"

#include "core/base/error.h"
#include "system/disk/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define ELECTIONS_MAX 4u
#define ROWS          3u

enum kind { PUT, SYNC, WRITE, MEMBERS, REOPEN, GROW, CRASH };
static const char *const kinds[] = {"put", "sync", "write", "members", "reopen", "grow", "crash"};

static struct {
    struct bw_peer_disk *disk;
    uint32_t elections; /* of this process */
    uint64_t id;        /* 0: no open succeeded yet */
    uint64_t durable[ELECTIONS_MAX], written[ELECTIONS_MAX];
    uint32_t members_durable, members_written;
    uint64_t next;
    char why[BW_PEER_DISK_WHY_MAX + 1];
    struct bw_peer_item memory[ROWS + 1];
} w;

/* A record that follows from its number; its length reaches from one sector to a whole slot. */
static void make_record(struct bw_peer_record *made, uint64_t n)
{
    memset(made, 0, sizeof *made);
    if (n == 0)
        return;
    made->durable = (struct bw_durable){.term = n,
                                        .vote = (bw_node)(n % 5 + 1),
                                        .token = n * 3,
                                        .promised_to = 2,
                                        .promise_epoch = n,
                                        .promised_ns = 7 * BW_SEC};
    made->log.snapshot_index = made->log.snapshot_term = n;
    made->log.voters = 3;
    for (bw_node i = 0; i < 3; i++)
        made->log.members[i] = i + 1;
    made->log.runs_count = (uint32_t)(n * 37 % (BW_RAFT_TERM_RUNS_MAX + 1));
    for (uint32_t i = 0; i < made->log.runs_count; i++)
        made->log.runs[i] = (struct bw_term_run){.term = n + i, .count = i + 1};
}

static bool is_record(const struct bw_peer_record *found, uint64_t n)
{
    static unsigned char one[BW_PEER_SLOT_BYTES], other[BW_PEER_SLOT_BYTES];
    static struct bw_peer_record made;
    make_record(&made, n);
    size_t length = bw_peer_slot_encode(one, 1, 0, 1, &made);
    return bw_peer_slot_encode(other, 1, 0, 1, found) == length && memcmp(one, other, length) == 0;
}

static void check_members(void)
{
    struct bw_peer_roster roster;
    struct bw_peer_found_saved found;
    uint32_t starts;
    bw_peer_roster_init(&roster, w.memory, ROWS + 1);
    int error = bw_peer_disk_read_members(w.disk, &starts, &found, &roster);
    if (error)
        plan_violation("the members cannot be read: %s", bw_error_text(error));
    if (starts < w.members_durable || starts > w.members_written)
        plan_violation("members %u found, %u are durable and %u written", starts, w.members_durable,
                       w.members_written);
    const struct bw_peer_row *row = starts ? bw_peer_roster_find(&roster, 1 + starts % ROWS) : NULL;
    if (starts && (found.round != starts || !row || row->incarnation != starts))
        plan_violation("members %u are not those that were written", starts);
    w.members_durable = w.members_written = starts;
}

static void check_records(void)
{
    for (uint32_t e = 0; e < w.elections; e++) {
        const struct bw_peer_record *found = bw_peer_disk_record(w.disk, e);
        uint64_t n = found->durable.term;
        if (n < w.durable[e] || n > w.written[e])
            plan_violation("election %u has record %" PRIu64 ", %" PRIu64 " is durable, %" PRIu64
                           " written",
                           e, n, w.durable[e], w.written[e]);
        if (!is_record(found, n))
            plan_violation("record %" PRIu64 " of election %u has other bytes", n, e);
        w.durable[e] = w.written[e] = n;
    }
}

static void open_directory(void)
{
    struct bw_peer_disk_options options = {
        .directory = disk_directory(), .self = 3, .cluster = "blue", .elections = w.elections};
    int error = bw_peer_disk_open(&w.disk, &options, w.why);
    if (error == BW_EIO && plan_has_failed())
        plan_died();
    if (error)
        plan_violation("the directory does not open: %s", w.why);
    if (w.id && bw_peer_disk_id(w.disk) != w.id)
        plan_violation("the directory counts as new");
    w.id = bw_peer_disk_id(w.disk);
    check_records();
    check_members();
}

/* Returns after a success; a failure ends the process. */
static void must(int error)
{
    if (error && !plan_has_failed())
        plan_violation("a write fails although the disk works");
    if (error)
        plan_died();
}

static void put(uint32_t election)
{
    static struct bw_peer_record made;
    w.written[election] = ++w.next;
    make_record(&made, w.next);
    must(bw_peer_disk_put_record(w.disk, election, &made));
}

static void sync_records(void)
{
    must(bw_peer_disk_sync(w.disk));
    memcpy(w.durable, w.written, sizeof w.durable);
}

/* After a failure the peer goes on with the members in memory. */
static void write_members(void)
{
    struct bw_peer_roster roster;
    uint32_t n = ++w.members_written;
    struct bw_peer_found_saved found = {
        .founded = true, .proposer = 1, .round = n, .count = 2, .set = {1, 3}};
    bw_peer_roster_init(&roster, w.memory, ROWS + 1);
    for (bw_node id = 1; id <= ROWS; id++) {
        struct bw_peer_row row = {.id = id, .incarnation = n, .directory = id, .name = "name"};
        bw_peer_roster_take(&roster, &row, true);
    }
    if (bw_peer_disk_write_members(w.disk, n, &found, &roster) == 0)
        w.members_durable = n;
    else if (!plan_has_failed())
        plan_violation("members cannot be written although the disk works");
}

static void reopen(void)
{
    bw_peer_disk_close(w.disk);
    open_directory();
}

static void take(const struct plan_step *step)
{
    uint32_t election = (uint32_t)(step->draw[0] % w.elections);
    switch ((enum kind)step->kind) {
    case PUT:
        put(election);
        break;
    case SYNC:
        sync_records();
        break;
    case WRITE:
        put(election);
        sync_records();
        break;
    case MEMBERS:
        write_members();
        break;
    case REOPEN:
        reopen();
        break;
    case GROW:
        w.elections += w.elections < ELECTIONS_MAX;
        reopen();
        break;
    case CRASH:
        plan_crash(step->draw[0]);
    }
}

static void draw_step(struct plan_step *step, struct bw_rng *rng)
{
    static const enum kind often[] = {PUT,    PUT,  SYNC,    SYNC,    WRITE, WRITE,
                                      REOPEN, GROW, MEMBERS, MEMBERS, CRASH};
    step->kind = often[bw_rng_below(rng, sizeof often / sizeof often[0])];
    for (unsigned i = 0; i < 4; i++)
        step->draw[i] = bw_rng_next(rng);
}

static void draw(struct plan *plan, struct bw_rng *rng)
{
    static const int errors[] = {EIO, ENOSPC, DISK_SHORT};
    plan->steps = 3 + (uint32_t)bw_rng_below(rng, 30);
    for (uint32_t i = 0; i < plan->steps; i++)
        draw_step(&plan->step[i], rng);
    plan->check_one_in = 1 + (uint32_t)bw_rng_below(rng, 3);
    if (bw_rng_below(rng, 2) == 0) {
        plan->fail_at = 1 + bw_rng_below(rng, 40);
        plan->fail_with = errors[bw_rng_below(rng, 3)];
    }
}

static void begin(const struct plan *plan)
{
    w.elections = 1 + (uint32_t)(plan->seed % 2);
    open_directory();
}

static void go_on(struct bw_rng *rng)
{
    struct plan_step step;
    for (uint64_t steps = bw_rng_below(rng, 5); steps > 0; steps--) {
        draw_step(&step, rng);
        if (step.kind != CRASH)
            take(&step);
    }
}

static void end(void)
{
    sync_records();
    reopen();
    bw_peer_disk_close(w.disk);
}

int main(int argc, char **argv)
{
    static const struct plan_model model = {.name = "what a peer has promised survives every crash",
                                            .kinds = kinds,
                                            .draw = draw,
                                            .begin = begin,
                                            .take = take,
                                            .recover = open_directory,
                                            .go_on = go_on,
                                            .end = end};
    return plan_main(argc, argv, &model, 80, 0);
}
