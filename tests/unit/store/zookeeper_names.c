/* The pure parts of the ZooKeeper store: node names, and the check of server frames. */
#include "store/zookeeper/frame.h"
#include "store/zookeeper/names.h"
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

static const char *latch(const char *base, const char *election)
{
    static struct bw_zk_paths paths;
    bw_zk_paths_make(&paths, base, election);
    return paths.latch;
}

static void plain_names_give_the_paths_that_foreign_clients_use(void **state)
{
    (void)state;
    assert_string_equal(latch("/app", "nightly"), "/app/nightly");
    assert_string_equal(latch("", "nightly job #7"), "/nightly job #7");
    assert_string_equal(latch("/a/b", "\xe2\x82\xac"), "/a/b/\xe2\x82\xac");
}

static void reserved_and_rejected_names_are_escaped(void **state)
{
    (void)state;
    assert_string_equal(latch("/a", "."), "/a/%2E");
    assert_string_equal(latch("/a", ".."), "/a/%2E.");
    assert_string_equal(latch("/a", ".bellwether"), "/a/%2Ebellwether");
    assert_string_equal(latch("", "zookeeper"), "/%7Aookeeper");
    assert_string_equal(latch("/a", "zookeeper"), "/a/zookeeper");
    assert_string_equal(latch("/a", "50%"), "/a/50%25");
    assert_string_equal(latch("/a", "\xff"), "/a/%FF");               /* not valid UTF-8 */
    assert_string_equal(latch("/a", "\xc2\x80"), "/a/%C2%80");        /* control character */
    assert_string_equal(latch("/a", "\xee\x80\x80"), "/a/%EE%80%80"); /* private use */
    assert_string_equal(latch("/a", "\xf0\x9f\x90\x91"), "/a/%F0%9F%90%91");
    assert_string_equal(latch("/a", "\xc0\xaf"), "/a/%C0%AF"); /* overlong encoding */
}

static void election_is_found_again_by_its_node(void **state)
{
    static const char *const elections[] = {
        "nightly",   ".",        "..",       ".bellwether",
        "zookeeper", "50% done", "\xc3\xbc", "\xf0\x9f\x8e\x89"};
    static const char *const others[] = {"",    ".bellwether", "%",   "%2",  "%zz",   "%2F",
                                         "%00", "%01",         "a/b", "%6E", "50%25%"};
    char found[BW_ELECTION_NAME_MAX + 1], longest[BW_ELECTION_NAME_MAX + 2];
    struct bw_zk_paths paths;
    (void)state;
    for (unsigned i = 0; i < sizeof elections / sizeof elections[0]; i++) {
        bw_zk_paths_make(&paths, "", elections[i]);
        assert_true(bw_zk_election_of(found, "", strrchr(paths.latch, '/') + 1));
        assert_string_equal(found, elections[i]);
    }
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(bw_zk_election_of(found, "/base", others[i]));
    assert_false(
        bw_zk_election_of(found, "", "zookeeper")); /* reserved by the server at the root */
    assert_true(bw_zk_election_of(found, "/base", "zookeeper"));
    memset(longest, 'x', sizeof longest);
    longest[BW_ELECTION_NAME_MAX + 1] = '\0';
    assert_false(bw_zk_election_of(found, "/base", longest));
    longest[BW_ELECTION_NAME_MAX] = '\0';
    assert_true(bw_zk_election_of(found, "/base", longest));
}

static void longest_names_fit_into_the_response(void **state)
{
    (void)state;
    char base[BW_ZK_BASE_MAX + 1], election[BW_ELECTION_NAME_MAX + 1], id[BW_CANDIDATE_ID_MAX + 1];
    char path[BW_ZK_PATH_MAX + 1];
    struct bw_zk_paths paths;
    memset(base, 'b', sizeof base);
    base[0] = '/';
    base[BW_ZK_BASE_MAX] = '\0';
    memset(election, '%', sizeof election);
    election[BW_ELECTION_NAME_MAX] = '\0';
    memset(id, '/', sizeof id);
    id[BW_CANDIDATE_ID_MAX] = '\0';
    bw_zk_paths_make(&paths, base, election);
    bw_zk_side_path(path, &paths, "mail-", id);
    size_t side = BW_ZK_BASE_MAX + strlen("/.bellwether/") + 3 * BW_ELECTION_NAME_MAX;
    assert_int_equal(strlen(paths.side), side);
    assert_int_equal(strlen(path), side + strlen("/mail-") + 3 * BW_CANDIDATE_ID_MAX);
    assert_string_equal(path + strlen(path) - 3, "%2F");
}

static void invalid_base_path_is_rejected(void **state)
{
    (void)state;
    char why[BW_WHY_MAX + 1];
    assert_true(bw_zk_base_check("", why));
    assert_true(bw_zk_base_check("/a/.b/c..d", why));
    const char *bad[] = {"/a//b", "/a/./b", "/a/..", "/.", "/a\x01", "/a\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        why[0] = '\0';
        assert_false(bw_zk_base_check(bad[i], why));
        assert_true(why[0] != '\0');
    }
}

static void node_names_follow_the_curator_and_kazoo_recipes(void **state)
{
    (void)state;
    const unsigned char random[16] = {0xff, 1, 2,  3,  4,  5,  0xff, 7,
                                      0xff, 9, 10, 11, 12, 13, 14,   15};
    char guid[BW_ZK_GUID_MAX + 1], prefix[BW_ZK_NODE_MAX + 1], name[2 * BW_ZK_NODE_MAX];
    struct bw_zk_node node;
    bw_zk_guid_make(guid, random);
    assert_string_equal(guid, "ff0102030405"
                              "8f07"
                              "bf09"
                              "0a0b0c0d0e0f");
    for (int recipe = BW_ZK_CURATOR; recipe <= BW_ZK_KAZOO; recipe++) {
        bw_zk_node_prefix(prefix, (enum bw_zk_recipe)recipe, guid);
        snprintf(name, sizeof name, "%s0000000012", prefix);
        assert_true(bw_zk_node_parse(&node, (enum bw_zk_recipe)recipe, name));
        assert_int_equal(node.sequence, 12);
        assert_string_equal(node.guid, guid);
        assert_true(node.ours);
        assert_false(bw_zk_node_parse(&node, recipe ? BW_ZK_CURATOR : BW_ZK_KAZOO, name));
    }
    bw_zk_node_prefix(prefix, BW_ZK_CURATOR, guid);
    assert_string_equal(prefix, "_c_ff010203-0405-8f07-bf09-0a0b0c0d0e0f-latch-");
}

static void parser_accepts_foreign_candidates_and_ignores_other_nodes(void **state)
{
    (void)state;
    struct bw_zk_node node, later;
    assert_true(bw_zk_node_parse(&node, BW_ZK_CURATOR,
                                 "_c_1b9c6a2e-6b8e-4c9d-9b6e-0a1b2c3d4e5f-latch-0000000003"));
    assert_false(node.ours);
    assert_true(bw_zk_node_parse(&later, BW_ZK_CURATOR, "latch-0000000010"));
    assert_false(later.ours);
    assert_true(bw_zk_node_compare(&node, &later) < 0);
    assert_true(bw_zk_node_parse(&later, BW_ZK_CURATOR, "latch--2147483648"));
    assert_true(later.sequence == INT32_MIN);
    const char *others[] = {
        "", "latch-", "latch-12", "0000000012", "lock-0000000012", "latch-0000000012x", "record"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(bw_zk_node_parse(&node, BW_ZK_CURATOR, others[i]));
}

/* ---- frames ---- */

static size_t put(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
    return 4;
}

/* Writes a header and `length` bytes of body. */
static size_t frame(unsigned char *out, int32_t xid, int32_t error, const char *body, size_t length)
{
    memset(out, 0, BW_ZK_HEADER);
    put(out, (uint32_t)xid);
    put(out + 12, (uint32_t)error);
    memcpy(out + BW_ZK_HEADER, body, length);
    return BW_ZK_HEADER + length;
}

static void frame_is_rejected_when_its_body_does_not_match_the_call(void **state)
{
    (void)state;
    unsigned char out[256];
    char body[200] = {0, 0, 0, 3, 'a', 'b', 'c'};
    const struct {
        enum bw_zk_shape shape;
        size_t least;
    } shapes[] = {{BW_ZK_NOTHING, 0},
                  {BW_ZK_TEXT, 7},
                  {BW_ZK_STAT, 68},
                  {BW_ZK_DATA, 7 + 68},
                  {BW_ZK_TEXT_STAT, 7 + 68}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct bw_zk_expected expected = {.any = true, .shape = shapes[i].shape};
        size_t length = frame(out, 5, 0, body, shapes[i].least);
        assert_true(bw_zk_frame_is_good(out, length, &expected));
        if (shapes[i].least > 0)
            assert_false(bw_zk_frame_is_good(out, length - 1, &expected));
        length = frame(out, 5, -101, body, 0); /* an error has no body */
        assert_true(bw_zk_frame_is_good(out, length, &expected));
    }
}

static void frame_is_rejected_when_a_count_or_length_exceeds_it(void **state)
{
    (void)state;
    unsigned char out[256];
    struct bw_zk_expected names = {.any = true, .shape = BW_ZK_NAMES};
    const char two[] = {0, 0, 0, 2, 0, 0, 0, 1, 'a', 0, 0, 0, 0};
    const char many[] = {0x7f, 0, 0, 0, 0, 0, 0, 1, 'a'};
    const char negative[] = {0, 0, 0, 1, (char)0xff, 0, 0, 0};
    assert_true(bw_zk_frame_is_good(out, frame(out, 5, 0, two, sizeof two), &names));
    assert_false(bw_zk_frame_is_good(out, frame(out, 5, 0, many, sizeof many), &names));
    assert_false(bw_zk_frame_is_good(out, frame(out, 5, 0, negative, sizeof negative), &names));
    assert_false(bw_zk_frame_begins(out, BW_ZK_FRAME_MAX + 1, &names));
    assert_false(bw_zk_frame_begins(out, BW_ZK_HEADER - 1, &names));
}

static void multi_reply_is_rejected_when_its_part_count_differs(void **state)
{
    (void)state;
    unsigned char out[256];
    const char check[] = {0, 0, 0, 13, 0, (char)0xff, (char)0xff, (char)0xff, (char)0xff};
    const char end[] = {(char)0xff, (char)0xff, (char)0xff, (char)0xff, 1, 0, 0, 0, 0};
    char body[64];
    memcpy(body, check, 9);
    memcpy(body + 9, check, 9);
    memcpy(body + 18, end, 9);
    for (unsigned parts = 0; parts < 4; parts++) {
        struct bw_zk_expected expected = {.any = true, .shape = BW_ZK_MULTI, .parts = parts};
        assert_int_equal(bw_zk_frame_is_good(out, frame(out, 5, 0, body, 27), &expected),
                         parts == 2);
    }
}

static void frame_without_a_pending_call_is_rejected_unless_it_is_an_event(void **state)
{
    (void)state;
    unsigned char out[256];
    struct bw_zk_expected nothing = {.any = false};
    const char event[] = {0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2, '/', 'a'};
    assert_true(bw_zk_frame_is_good(out, frame(out, -1, 0, event, sizeof event), &nothing));
    assert_false(bw_zk_frame_is_good(out, frame(out, -1, 0, event, sizeof event - 1), &nothing));
    assert_true(bw_zk_frame_is_good(out, frame(out, -2, 0, "", 0), &nothing));
    assert_false(bw_zk_frame_is_good(out, frame(out, 7, 0, "", 0), &nothing));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_names_give_the_paths_that_foreign_clients_use),
        cmocka_unit_test(reserved_and_rejected_names_are_escaped),
        cmocka_unit_test(election_is_found_again_by_its_node),
        cmocka_unit_test(longest_names_fit_into_the_response),
        cmocka_unit_test(invalid_base_path_is_rejected),
        cmocka_unit_test(node_names_follow_the_curator_and_kazoo_recipes),
        cmocka_unit_test(parser_accepts_foreign_candidates_and_ignores_other_nodes),
        cmocka_unit_test(frame_is_rejected_when_its_body_does_not_match_the_call),
        cmocka_unit_test(frame_is_rejected_when_a_count_or_length_exceeds_it),
        cmocka_unit_test(multi_reply_is_rejected_when_its_part_count_differs),
        cmocka_unit_test(frame_without_a_pending_call_is_rejected_unless_it_is_an_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
