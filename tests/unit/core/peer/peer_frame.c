/* Frames between peers: decoding restores the encoded frame. A changed frame is rejected, or is
 * another valid frame with exactly one encoding. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/peer/frame.h"

static void text(struct bw_rng *rng, char *out, size_t max)
{
    size_t length = (size_t)bw_rng_below(rng, max + 1);
    for (size_t i = 0; i < length; i++)
        out[i] = (char)(1 + bw_rng_below(rng, 255));
    out[length] = '\0';
}

static void random_row(struct bw_rng *rng, struct bw_peer_row *row)
{
    static const uint8_t families[] = {0, 4, 6};
    memset(row, 0, sizeof *row);
    row->id = 1 + (bw_node)bw_rng_below(rng, UINT32_MAX);
    row->incarnation = (uint32_t)bw_rng_next(rng);
    row->directory = bw_rng_next(rng);
    row->priority = (uint32_t)bw_rng_next(rng);
    row->ordinary = bw_rng_chance(rng, 0.5);
    row->left = bw_rng_chance(rng, 0.5);
    row->address.family = families[bw_rng_below(rng, 3)];
    if (row->address.family)
        row->address.port = (uint16_t)bw_rng_next(rng);
    for (int i = 0; i < (row->address.family == 6 ? 16 : row->address.family); i++)
        row->address.bytes[i] = (unsigned char)bw_rng_next(rng);
    if (row->address.family == 6)
        row->address.scope = (uint32_t)bw_rng_next(rng);
    text(rng, row->name, BW_PEER_NAME_MAX);
    text(rng, row->value, BW_PEER_VALUE_MAX);
}

static void random_rules(struct bw_rng *rng, struct bw_peer_rules *rules)
{
    rules->elections = (uint16_t)bw_rng_next(rng);
    rules->quorum = bw_rng_chance(rng, 0.5);
    rules->formed = bw_rng_chance(rng, 0.5);
    rules->age_ms = bw_rng_next(rng);
    rules->promise_ns = bw_rng_next(rng);
    text(rng, rules->algorithm, BW_PEER_ALGORITHM_MAX);
}

static void random_founding(struct bw_rng *rng, struct bw_peer_founding *f)
{
    f->op = (enum bw_peer_found_op)(1 + bw_rng_below(rng, 5));
    f->proposer = 1 + (bw_node)bw_rng_below(rng, 100);
    f->round = bw_rng_next(rng);
    if (f->op != BW_PEER_FOUND_PROPOSE && f->op != BW_PEER_FOUND_FOUNDED)
        return;
    f->count = 1 + (uint32_t)bw_rng_below(rng, BW_PEER_FOUNDERS_MAX);
    bw_node last = 0;
    for (uint32_t i = 0; i < f->count; i++)
        f->set[i] = last += 1 + (bw_node)bw_rng_below(rng, 1000);
}

static void random_view(struct bw_rng *rng, struct bw_peer_view *v)
{
    v->request = bw_rng_next(rng);
    v->what = (enum bw_peer_question)(1 + bw_rng_below(rng, 2));
    v->formed = bw_rng_chance(rng, 0.5);
    v->count = (uint32_t)bw_rng_below(rng, 4);
    v->total = v->count + (uint32_t)bw_rng_below(rng, 9);
    v->first = v->total - v->count;
    for (uint32_t i = 0; i < v->count; i++) {
        if (v->what == BW_PEER_ASK_MEMBERS) {
            random_row(rng, &v->seen[i].row);
            v->seen[i].status = (enum bw_member_status)bw_rng_below(rng, 3);
            v->seen[i].since_ms = bw_rng_next(rng);
        } else {
            v->standing[i].leader = (bw_node)bw_rng_next(rng);
            v->standing[i].leading = bw_rng_chance(rng, 0.5);
            v->standing[i].busy = bw_rng_chance(rng, 0.5);
            v->standing[i].held = bw_rng_chance(rng, 0.5);
            v->standing[i].term = bw_rng_next(rng);
            text(rng, v->standing[i].state, BW_PEER_STATE_MAX);
        }
    }
}

static void random_frame(struct bw_rng *rng, struct bw_peer_frame *f)
{
    memset(f, 0, sizeof *f);
    f->kind = (enum bw_peer_frame_kind)(BW_PEER_JOIN + bw_rng_below(rng, BW_PEER_ORDER - 1));
    switch (f->kind) {
    case BW_PEER_JOIN:
        f->rows.count = 1;
        random_row(rng, &f->rows.at[0]);
        random_rules(rng, &f->rows.rules);
        break;
    case BW_PEER_ROSTER:
        f->rows.count = (uint32_t)bw_rng_below(rng, BW_PEER_ROWS_MAX + 1);
        for (uint32_t i = 0; i < f->rows.count; i++)
            random_row(rng, &f->rows.at[i]);
        break;
    case BW_PEER_SYNC:
        f->sync.answer = bw_rng_chance(rng, 0.5);
        f->sync.members = (uint32_t)bw_rng_next(rng);
        f->sync.digest = bw_rng_next(rng);
        random_rules(rng, &f->sync.rules);
        break;
    case BW_PEER_FOUND:
        random_founding(rng, &f->founding);
        break;
    case BW_PEER_DEAD:
    case BW_PEER_HANDED:
        f->death.node = 1 + (bw_node)bw_rng_below(rng, 99);
        f->death.term = bw_rng_next(rng);
        break;
    case BW_PEER_CLAIM:
        f->lead.node = 1 + (bw_node)bw_rng_below(rng, 1000);
        f->lead.since_ms = bw_rng_next(rng);
        f->lead.ago_ms = bw_rng_next(rng);
        f->lead.term = bw_rng_next(rng);
        f->lead.token = bw_rng_next(rng);
        f->lead.ended = bw_rng_chance(rng, 0.5);
        break;
    case BW_PEER_QUERY:
        f->query.request = bw_rng_next(rng);
        f->query.what = (enum bw_peer_question)(1 + bw_rng_below(rng, 2));
        break;
    case BW_PEER_VIEW:
        random_view(rng, &f->view);
        break;
    default:
        f->order.kind = (uint8_t)(1 + bw_rng_below(rng, 2));
        f->order.answer = bw_rng_chance(rng, 0.5);
        f->order.error = f->order.answer ? (uint8_t)bw_rng_next(rng) : 0;
        f->order.node = (bw_node)bw_rng_next(rng);
    }
}

static void encoded_frame_decodes_to_the_same_frame(void **state)
{
    (void)state;
    static unsigned char bytes[16384], again[16384];
    static struct bw_peer_frame frame, read;
    struct bw_rng rng;
    bw_rng_init(&rng, 3);
    for (int i = 0; i < 20000; i++) {
        random_frame(&rng, &frame);
        int length = bw_peer_frame_encode(&frame, bytes, sizeof bytes);
        assert_true(length > 0);
        memset(&read, 0, sizeof read);
        read.kind = frame.kind;
        assert_int_equal(bw_peer_frame_decode(&read, bytes, (size_t)length), 0);
        assert_int_equal(bw_peer_frame_encode(&read, again, sizeof again), length);
        assert_memory_equal(bytes, again, (size_t)length);
        assert_memory_equal(&read, &frame, sizeof frame);
    }
}

static void frames_of_wrong_length_are_rejected(void **state)
{
    (void)state;
    static unsigned char bytes[16384];
    static struct bw_peer_frame frame, read;
    struct bw_rng rng;
    bw_rng_init(&rng, 4);
    for (int i = 0; i < 300; i++) {
        random_frame(&rng, &frame);
        int length = bw_peer_frame_encode(&frame, bytes, sizeof bytes - 1);
        read.kind = frame.kind;
        for (int cut = 0; cut < length; cut += 1 + length / 50)
            assert_true(bw_peer_frame_decode(&read, bytes, (size_t)cut) < 0);
        bytes[length] = 0;
        assert_true(bw_peer_frame_decode(&read, bytes, (size_t)length + 1) < 0);
        assert_int_equal(bw_peer_frame_encode(&frame, bytes, (size_t)length - 1), BW_ELIMIT);
    }
}

static void changed_bytes_are_rejected_or_encode_another_frame(void **state)
{
    (void)state;
    static unsigned char bytes[16384], again[16384];
    static struct bw_peer_frame frame, read;
    struct bw_rng rng;
    bw_rng_init(&rng, 5);
    for (int i = 0; i < 20000; i++) {
        random_frame(&rng, &frame);
        size_t length = (size_t)bw_peer_frame_encode(&frame, bytes, sizeof bytes);
        bytes[bw_rng_below(&rng, length)] ^= (unsigned char)(1u << bw_rng_below(&rng, 8));
        memset(&read, 0, sizeof read);
        read.kind = frame.kind;
        if (bw_peer_frame_decode(&read, bytes, length) != 0)
            continue;
        assert_int_equal(bw_peer_frame_encode(&read, again, sizeof again), length);
        assert_memory_equal(bytes, again, length);
    }
}

static void frames_that_no_correct_peer_sends_are_rejected(void **state)
{
    (void)state;
    unsigned char bytes[64];
    struct bw_peer_frame frame = {.kind = BW_PEER_FOUND};
    frame.founding = (struct bw_peer_founding){
        .op = BW_PEER_FOUND_PROPOSE, .proposer = 1, .count = 2, .set = {3, 3}};
    assert_int_equal(bw_peer_frame_encode(&frame, bytes, sizeof bytes), BW_EMALFORMED);
    frame.founding.set[1] = 2;
    assert_int_equal(bw_peer_frame_encode(&frame, bytes, sizeof bytes), BW_EMALFORMED);
    frame.founding = (struct bw_peer_founding){.op = BW_PEER_FOUND_ACCEPT};
    assert_int_equal(bw_peer_frame_encode(&frame, bytes, sizeof bytes), BW_EMALFORMED);
    frame.kind = BW_PEER_INSTANCE;
    assert_int_equal(bw_peer_frame_encode(&frame, bytes, sizeof bytes), BW_EMALFORMED);
    assert_int_equal(bw_peer_frame_decode(&frame, bytes, 4), BW_EMALFORMED);
}

static void frames_of_other_kinds_are_rejected(void **state)
{
    (void)state;
    static const unsigned kinds[] = {0, BW_PEER_INSTANCE, BW_PEER_BATCH, BW_PEER_FRAME_KINDS, 99};
    unsigned char bytes[64] = {0};
    for (unsigned i = 0; i < 5; i++) {
        struct bw_peer_frame frame = {.kind = (enum bw_peer_frame_kind)kinds[i]};
        assert_int_equal(bw_peer_frame_encode(&frame, bytes, sizeof bytes), BW_EMALFORMED);
        assert_int_equal(bw_peer_frame_decode(&frame, bytes, sizeof bytes), BW_EMALFORMED);
    }
}

static void death_with_a_named_successor_is_a_frame_of_its_own(void **state)
{
    (void)state;
    unsigned char bytes[64];
    struct bw_peer_frame frame = {.kind = BW_PEER_HANDED,
                                  .death = {.election = 2, .node = 3, .term = 7}},
                         read = {.kind = BW_PEER_HANDED};
    int length = bw_peer_frame_encode(&frame, bytes, SIZE_MAX); /* however large the buffer is */
    assert_true(length > 0);
    assert_int_equal(bw_peer_frame_decode(&read, bytes, (size_t)length), 0);
    assert_memory_equal(&frame.death, &read.death, sizeof read.death);
}

static void text_without_an_end_is_not_encoded(void **state)
{
    (void)state;
    static unsigned char bytes[4096];
    struct bw_peer_frame frame = {.kind = BW_PEER_ROSTER};
    frame.rows.count = 1;
    frame.rows.at[0].id = 1;
    memset(frame.rows.at[0].name, 'n', sizeof frame.rows.at[0].name);
    assert_int_equal(bw_peer_frame_encode(&frame, bytes, sizeof bytes), BW_EMALFORMED);
}

static void size_of_a_row_is_what_it_occupies(void **state)
{
    (void)state;
    static unsigned char bytes[4096];
    static const uint8_t families[] = {0, 4, 6};
    for (unsigned i = 0; i < 3; i++) {
        struct bw_peer_frame frame = {.kind = BW_PEER_ROSTER};
        frame.rows.count = 1;
        frame.rows.at[0] = (struct bw_peer_row){
            .id = 1, .name = "n", .value = "val", .address = {.family = families[i]}};
        int length = bw_peer_frame_encode(&frame, bytes, sizeof bytes);
        assert_int_equal(length, 1 + bw_peer_row_bytes(&frame.rows.at[0]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoded_frame_decodes_to_the_same_frame),
        cmocka_unit_test(frames_of_wrong_length_are_rejected),
        cmocka_unit_test(changed_bytes_are_rejected_or_encode_another_frame),
        cmocka_unit_test(frames_that_no_correct_peer_sends_are_rejected),
        cmocka_unit_test(frames_of_other_kinds_are_rejected),
        cmocka_unit_test(death_with_a_named_successor_is_a_frame_of_its_own),
        cmocka_unit_test(text_without_an_end_is_not_encoded),
        cmocka_unit_test(size_of_a_row_is_what_it_occupies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
