/* Tests the disk: writes are in order, and a crash keeps only a prefix of the writes in
 * progress. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "sim/world/disk.h"

struct bench {
    struct bw_sim_queue queue;
    struct bw_sim_disk disk;
    struct bw_durable records[1];
    struct bw_sim_log logs[1];
};

static void set_up(struct bench *b)
{
    memset(b, 0, sizeof *b);
    bw_sim_queue_reset(&b->queue);
    bw_sim_disk_init(&b->disk, b->records, b->logs, 1);
}

static void tear_down(struct bench *b)
{
    bw_sim_log_deinit(&b->logs[0]);
    bw_sim_queue_deinit(&b->queue);
}

static void begin(struct bench *b, struct bw_sim_disk_write write, const void *data, size_t bytes)
{
    struct bw_sim_slot *slot = bw_sim_queue_take(&b->queue);
    memcpy(slot->body, &write, sizeof write);
    if (bytes)
        bw_sim_slot_block(&b->queue, slot, data, bytes);
    bw_sim_fifo_put(&b->queue, &b->disk.writes, slot);
}

static void begin_record(struct bench *b, bw_term term)
{
    begin(b, (struct bw_sim_disk_write){.op = BW_DISK_RECORD, .record = {.term = term}}, NULL, 0);
}

static void begin_append(struct bench *b, bw_index first, uint32_t count)
{
    struct bw_sim_entry entries[16];
    memset(entries, 0, sizeof entries);
    for (uint32_t i = 0; i < count; i++)
        entries[i] = (struct bw_sim_entry){.hash = first + i, .term = 1};
    begin(b, (struct bw_sim_disk_write){.op = BW_DISK_APPEND, .first = first, .count = count},
          entries, count * sizeof *entries);
}

static void finish_oldest(struct bench *b)
{
    struct bw_sim_slot *slot = bw_sim_fifo_get(&b->queue, &b->disk.writes);
    assert_int_equal(bw_sim_disk_apply(&b->disk, slot), 0);
    bw_sim_queue_give(&b->queue, slot);
}

static void writes_become_durable_in_order(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b);
    assert_int_equal(bw_sim_disk_due(&b.disk, 100, 50), 150);
    assert_int_equal(bw_sim_disk_due(&b.disk, 110, 5), 150);
    b.disk.slow_ns = 1000;
    assert_int_equal(bw_sim_disk_due(&b.disk, 120, 5), 1120);
    tear_down(&b);
}

static void crash_keeps_a_prefix_of_pending_writes_and_may_tear_one(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 11);
    unsigned kept[10] = {0};
    for (int i = 0; i < 2000; i++) {
        struct bench b;
        set_up(&b);
        begin_append(&b, 1, 2);
        begin_append(&b, 3, 4);
        begin_append(&b, 7, 3);
        finish_oldest(&b);
        assert_int_equal(bw_sim_disk_crash(&b.disk, &b.queue, &rng), 0);
        bw_index last = bw_sim_log_last(&b.logs[0]);
        assert_in_range(last, 2, 9); /* durable writes are never lost */
        for (bw_index index = 1; index <= last; index++)
            assert_int_equal(bw_sim_log_at(&b.logs[0], index)->hash, index);
        kept[last]++;
        tear_down(&b);
    }
    for (unsigned last = 2; last <= 9; last++)
        assert_true(kept[last] > 20); /* every length occurs: nothing, torn, all */
}

static void pending_record_is_lost_or_kept_whole_after_crash(void **state)
{
    (void)state;
    struct bw_rng rng;
    bw_rng_init(&rng, 12);
    unsigned seen[3] = {0};
    for (int i = 0; i < 300; i++) {
        struct bench b;
        set_up(&b);
        begin_record(&b, 1);
        finish_oldest(&b);
        begin_record(&b, 2);
        bw_sim_disk_crash(&b.disk, &b.queue, &rng);
        assert_in_range(b.records[0].term, 1, 2);
        seen[b.records[0].term]++;
        tear_down(&b);
    }
    assert_true(seen[1] > 50 && seen[2] > 50);
}

static void truncation_and_snapshots_change_the_durable_log(void **state)
{
    (void)state;
    struct bench b;
    struct bw_sim_snapshot snapshot = {.index = 4, .term = 1, .state = 99};
    set_up(&b);
    begin_append(&b, 1, 8);
    begin(&b, (struct bw_sim_disk_write){.op = BW_DISK_TRUNCATE, .first = 7}, NULL, 0);
    begin(&b, (struct bw_sim_disk_write){.op = BW_DISK_SNAPSHOT, .first = 4}, &snapshot,
          sizeof snapshot);
    for (int i = 0; i < 3; i++)
        finish_oldest(&b);
    assert_int_equal(bw_sim_log_last(&b.logs[0]), 6);
    assert_null(bw_sim_log_at(&b.logs[0], 4));
    assert_int_equal(bw_sim_log_at(&b.logs[0], 5)->hash, 5);
    assert_int_equal(b.logs[0].snapshot.state, 99);
    snapshot.index = 20;
    begin(&b, (struct bw_sim_disk_write){.op = BW_DISK_RESTORE, .first = 20}, &snapshot,
          sizeof snapshot);
    finish_oldest(&b);
    assert_int_equal(bw_sim_log_last(&b.logs[0]), 20);
    assert_null(bw_sim_log_at(&b.logs[0], 5));
    tear_down(&b);
}

static void log_refuses_an_append_that_leaves_a_gap(void **state)
{
    (void)state;
    struct bw_sim_log log = {0};
    struct bw_sim_entry entry = {.hash = 1, .term = 1};
    assert_int_equal(bw_sim_log_append(&log, 2, &entry, 1), BW_EINVAL);
    assert_int_equal(bw_sim_log_append(&log, 1, &entry, 1), 0);
    assert_int_equal(bw_sim_log_append(&log, 0, &entry, 1), BW_EINVAL);
    assert_int_equal(bw_sim_log_append(&log, 2, &entry, 1), 0);
    entry.hash = 5;
    assert_int_equal(bw_sim_log_append(&log, 1, &entry, 1), 0); /* also replaces what follows */
    assert_int_equal(bw_sim_log_last(&log), 1);
    bw_sim_log_deinit(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_become_durable_in_order),
        cmocka_unit_test(crash_keeps_a_prefix_of_pending_writes_and_may_tear_one),
        cmocka_unit_test(pending_record_is_lost_or_kept_whole_after_crash),
        cmocka_unit_test(truncation_and_snapshots_change_the_durable_log),
        cmocka_unit_test(log_refuses_an_append_that_leaves_a_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
