/* The directory of a peer. A crash at any byte of a write leaves the previous state. A directory
 * that is not this node's own or not complete is rejected with an explanation. */
#include "peer/disk.h"

#include "core/base/error.h"
#include "core/base/rng.h"
#include "system/kit/scratch.h"
#include "unit/unit.h"

#include <fcntl.h>
#include <stdlib.h>

static char dir[SCRATCH_MAX], why[BW_PEER_DISK_WHY_MAX + 1];
static struct bw_peer_item memory[64];

static int setup(void **state)
{
    (void)state;
    scratch_make(dir);
    why[0] = '\0';
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(dir);
    return 0;
}

static int open_as(struct bw_peer_disk **disk, bw_node self, const char *cluster,
                   uint32_t elections)
{
    struct bw_peer_disk_options options = {
        .directory = dir, .self = self, .cluster = cluster, .elections = elections};
    return bw_peer_disk_open(disk, &options, why);
}

static struct bw_peer_disk *open_disk(void)
{
    struct bw_peer_disk *disk;
    int error = open_as(&disk, 3, "blue", 2);
    if (error)
        fail_msg("%s", why);
    return disk;
}

static struct bw_peer_record record(uint64_t n)
{
    struct bw_peer_record made = {.durable = {.term = n,
                                              .vote = (bw_node)(n % 5 + 1),
                                              .token = n,
                                              .promised_to = 2,
                                              .promise_epoch = n,
                                              .promised_ns = 7 * BW_SEC}};
    made.log.snapshot_index = n;
    made.log.snapshot_term = n;
    made.log.voters = 3;
    for (bw_node i = 0; i < 3; i++)
        made.log.members[i] = i + 1;
    made.log.runs_count = 1 + (uint32_t)(n % 7);
    for (uint32_t i = 0; i < made.log.runs_count; i++)
        made.log.runs[i] = (struct bw_term_run){.term = n + i, .count = i + 1};
    made.log.changes_count = 1;
    made.log.changes[0] = (struct bw_raft_change){.index = n + 1, .op = 1, .node = 9};
    return made;
}

static void same_record(const struct bw_peer_record *a, const struct bw_peer_record *b)
{
    unsigned char one[BW_PEER_SLOT_BYTES], other[BW_PEER_SLOT_BYTES];
    size_t length = bw_peer_slot_encode(one, 1, 0, 1, a);
    assert_int_equal(bw_peer_slot_encode(other, 1, 0, 1, b), length);
    assert_memory_equal(one, other, length);
}

static void written_records_are_read_back(void **state)
{
    (void)state;
    struct bw_peer_disk *disk = open_disk();
    uint64_t id = bw_peer_disk_id(disk);
    for (uint64_t n = 1; n < 20; n++) {
        struct bw_peer_record made = record(n);
        assert_int_equal(bw_peer_disk_write_record(disk, (uint32_t)(n % 2), &made), 0);
    }
    bw_peer_disk_close(disk);
    disk = open_disk();
    struct bw_peer_record even = record(18), odd = record(19);
    assert_int_equal(bw_peer_disk_id(disk), id);
    same_record(bw_peer_disk_record(disk, 0), &even);
    same_record(bw_peer_disk_record(disk, 1), &odd);
    bw_peer_disk_close(disk);
}

static void read_file(const char *name, unsigned char *out, size_t size)
{
    char path[SCRATCH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    memset(out, 0, size);
    assert_true(read(fd, out, size) > 0);
    close(fd);
}

static void write_file(const char *name, const unsigned char *bytes, size_t size)
{
    char path[SCRATCH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

/* The write of record 6 is cut after every byte. Record 5 or 6 is found, never anything else; 6 if
 * it is complete. */
static void record_torn_at_any_byte_leaves_the_previous_one(void **state)
{
    (void)state;
    static unsigned char before[4 * BW_PEER_SLOT_BYTES], after[4 * BW_PEER_SLOT_BYTES],
        torn[4 * BW_PEER_SLOT_BYTES];
    struct bw_peer_record five = record(5), six = record(6);
    struct bw_peer_disk *disk = open_disk();
    for (uint64_t n = 1; n <= 5; n++) {
        struct bw_peer_record made = record(n);
        bw_peer_disk_write_record(disk, 0, &made);
    }
    read_file("elections", before, sizeof before);
    bw_peer_disk_write_record(disk, 0, &six);
    bw_peer_disk_close(disk);
    read_file("elections", after, sizeof after);
    /* Both slots now hold record 6. The one written first has the higher sequence number. */
    struct bw_peer_record found;
    uint64_t first, second;
    uint64_t id;
    disk = open_disk();
    id = bw_peer_disk_id(disk);
    bw_peer_disk_close(disk);
    assert_true(bw_peer_slot_decode(after, id, 0, &first, &found));
    assert_true(bw_peer_slot_decode(after + BW_PEER_SLOT_BYTES, id, 0, &second, &found));
    size_t slot = first > second ? 0 : BW_PEER_SLOT_BYTES;
    size_t length = bw_peer_slot_encode(torn, id, 0, 1, &six), step = getenv("TEST_SIZE") ? 7 : 1;
    for (size_t cut = 0; cut <= length; cut += step) {
        memcpy(torn, before, sizeof torn);
        memcpy(torn + slot, after + slot, cut);
        write_file("elections", torn, sizeof torn);
        disk = open_disk();
        const struct bw_peer_record *kept = bw_peer_disk_record(disk, 0);
        assert_true(kept->durable.term == 5 || kept->durable.term == 6);
        same_record(kept, kept->durable.term == 5 ? &five : &six);
        bw_peer_disk_close(disk);
    }
    write_file("elections", after, sizeof after);
    disk = open_disk();
    assert_int_equal(bw_peer_disk_record(disk, 0)->durable.term, 6);
    bw_peer_disk_close(disk);
}

/* Once both slots have the record, no single flipped bit destroys it. */
static void flipped_bit_is_detected(void **state)
{
    (void)state;
    static unsigned char whole[4 * BW_PEER_SLOT_BYTES], broken[4 * BW_PEER_SLOT_BYTES];
    struct bw_peer_disk *disk = open_disk();
    struct bw_peer_record five = record(5);
    struct bw_rng rng;
    bw_rng_init(&rng, 1);
    bw_peer_disk_write_record(disk, 0, &five);
    bw_peer_disk_close(disk);
    read_file("elections", whole, sizeof whole);
    for (int i = 0; i < 200; i++) {
        memcpy(broken, whole, sizeof broken);
        broken[bw_rng_below(&rng, 2 * BW_PEER_SLOT_BYTES)] ^=
            (unsigned char)(1u << bw_rng_below(&rng, 8));
        write_file("elections", broken, sizeof broken);
        disk = open_disk();
        same_record(bw_peer_disk_record(disk, 0), &five);
        bw_peer_disk_close(disk);
    }
    memcpy(broken, whole, sizeof broken);
    broken[30] ^= 1;
    broken[BW_PEER_SLOT_BYTES + 30] ^= 1;
    write_file("elections", broken, sizeof broken);
    assert_int_equal(open_as(&disk, 3, "blue", 2), BW_EDAMAGED);
    assert_non_null(strstr(why, "damaged"));
}

static void members_are_replaced_as_a_whole(void **state)
{
    (void)state;
    struct bw_peer_disk *disk = open_disk();
    struct bw_peer_roster roster;
    struct bw_peer_found_saved found = {
        .founded = true, .proposer = 1, .round = 3, .own_round = 2, .count = 2, .set = {1, 3}};
    struct bw_peer_found_saved again;
    uint32_t starts = 9;
    bw_peer_roster_init(&roster, memory, 64);
    assert_int_equal(bw_peer_disk_read_members(disk, &starts, &again, &roster), 0);
    assert_int_equal(starts, 0);
    for (bw_node id = 1; id <= 60; id++) {
        struct bw_peer_row row = {.id = id, .incarnation = id, .directory = id, .name = "name"};
        bw_peer_roster_take(&roster, &row, true);
    }
    uint64_t digest = bw_peer_roster_digest(&roster);
    assert_int_equal(bw_peer_disk_write_members(disk, 4, &found, &roster), 0);
    bw_peer_disk_close(disk);
    disk = open_disk();
    bw_peer_roster_init(&roster, memory, 64);
    assert_int_equal(bw_peer_disk_read_members(disk, &starts, &again, &roster), 0);
    assert_int_equal(starts, 4);
    assert_int_equal(again.round, 3);
    assert_memory_equal(again.set, found.set, sizeof found.set);
    assert_int_equal(bw_peer_roster_digest(&roster), digest);
    static unsigned char bytes[8192];
    read_file("members", bytes, sizeof bytes);
    bytes[100] ^= 4;
    write_file("members", bytes, sizeof bytes);
    assert_int_equal(bw_peer_disk_read_members(disk, &starts, &again, &roster), BW_EDAMAGED);
    bw_peer_disk_close(disk);
}

static void directory_belongs_to_one_process_and_one_node(void **state)
{
    (void)state;
    struct bw_peer_disk *disk = open_disk(), *other;
    assert_int_equal(open_as(&other, 3, "blue", 2), BW_EBUSY);
    bw_peer_disk_close(disk);
    assert_int_equal(open_as(&other, 4, "blue", 2), BW_EDAMAGED);
    assert_non_null(strstr(why, "node 3"));
    assert_int_equal(open_as(&other, 3, "red", 2), BW_EDAMAGED);
    assert_non_null(strstr(why, "blue"));
    assert_int_equal(open_as(&disk, 3, "blue", 5), 0); /* more elections than before */
    assert_int_equal(bw_peer_disk_record(disk, 4)->durable.term, 0);
    bw_peer_disk_close(disk);
}

static void copied_directory_is_refused_and_moved_one_accepted(void **state)
{
    (void)state;
    char command[3 * SCRATCH_MAX];
    struct bw_peer_disk *disk = open_disk();
    bw_peer_disk_close(disk);
    snprintf(command, sizeof command, "cd %s && mkdir x && mv identity elections x && mv x/* .",
             dir);
    assert_int_equal(system(command), 0);
    bw_peer_disk_close(open_disk());
    snprintf(command, sizeof command, "cd %s && cp identity y && mv y identity", dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(open_as(&disk, 3, "blue", 2), BW_EDAMAGED);
    assert_non_null(strstr(why, "copy"));
}

/* Killed while the directory was created: it still counts as new. */
static void half_created_directory_counts_as_new(void **state)
{
    (void)state;
    char path[SCRATCH_MAX + 32];
    struct bw_peer_disk *disk = open_disk();
    struct bw_peer_record five = record(5);
    uint64_t id = bw_peer_disk_id(disk);
    bw_peer_disk_write_record(disk, 0, &five);
    bw_peer_disk_close(disk);
    snprintf(path, sizeof path, "%s/identity", dir);
    assert_int_equal(unlink(path), 0);
    disk = open_disk();
    assert_int_not_equal(bw_peer_disk_id(disk), id);
    assert_int_equal(bw_peer_disk_record(disk, 0)->durable.term, 0);
    bw_peer_disk_close(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(written_records_are_read_back, setup, teardown),
        cmocka_unit_test_setup_teardown(record_torn_at_any_byte_leaves_the_previous_one, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(flipped_bit_is_detected, setup, teardown),
        cmocka_unit_test_setup_teardown(members_are_replaced_as_a_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(directory_belongs_to_one_process_and_one_node, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(copied_directory_is_refused_and_moved_one_accepted, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(half_created_directory_counts_as_new, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
