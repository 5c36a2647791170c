/* Keys are read from a file that other users cannot access, and are rotated while frames flow. */
#include "seal_story.h"

static int load(const char *text, char *why)
{
    struct bw_keyring *ring = NULL;
    struct key_file file = key_file(text);
    int error = bw_keyring_load(&ring, file.path, why);
    bw_keyring_free(ring);
    unlink(file.path);
    return error;
}

static void hex_base64_comments_and_blank_lines_are_read(void **state)
{
    (void)state;
    struct bw_keyring *ring = ring_of("# the new one\n\n  " KEY_ONE "  \r\n" KEY_TWO);
    assert_int_equal(bw_keyring_count(ring), 2);
    assert_false(bw_keyring_is_public(ring));
    uint32_t id;
    assert_int_equal(bw_keyring_first(ring, &id)[1], 1);
    assert_ptr_equal(bw_keyring_find(ring, id), bw_keyring_first(ring, &id));
    assert_null(bw_keyring_find(ring, id + 1));
    bw_keyring_free(ring);
}

static void invalid_key_is_refused_and_never_printed(void **state)
{
    (void)state;
    char why[BW_KEYRING_WHY_MAX + 1] = "";
    assert_int_equal(load("", why), BW_EMALFORMED);
    assert_int_equal(load("# nothing\n", why), BW_EMALFORMED);
    assert_int_equal(load("correct horse battery staple\n", why), BW_EMALFORMED);
    assert_null(strstr(why, "horse"));
    assert_non_null(strstr(why, "line 1"));
    assert_int_equal(load(KEY_ONE "0\n", why), BW_EMALFORMED);
    assert_int_equal(load("g" KEY_ONE "\n", why), BW_EMALFORMED);
    assert_int_equal(load("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=", why), BW_EMALFORMED);
    assert_int_equal(load(KEY_ONE "\n" KEY_ONE "\n", why), BW_EMALFORMED);
    assert_non_null(strstr(why, "line 2"));
    assert_int_equal(load("0000000000000000000000000000000000000000000000000000000000000000", why),
                     BW_EMALFORMED);
    struct bw_keyring *ring = NULL;
    assert_int_equal(bw_keyring_load(&ring, "/nonexistent/keys", why), BW_EIO);
}

static void too_many_keys_and_too_long_files_are_refused(void **state)
{
    (void)state;
    char text[10000] = "", why[BW_KEYRING_WHY_MAX + 1] = "", key[BW_KEY_TEXT_MAX + 1];
    for (unsigned i = 0; i < BW_KEYRING_KEYS_MAX + 1; i++) {
        assert_int_equal(bw_keyring_make_key(key), 0);
        strcat(strcat(text, key), "\n");
    }
    assert_int_equal(load(text, why), BW_ELIMIT);
    memset(text, '#', sizeof text - 1);
    assert_int_equal(load(text, why), BW_ELIMIT);
}

static void a_file_that_others_can_read_is_refused(void **state)
{
    (void)state;
    char why[BW_KEYRING_WHY_MAX + 1] = "";
    struct bw_keyring *ring = NULL;
    struct key_file file = key_file(KEY_ONE "\n");
    static const mode_t open_modes[] = {0604, 0602, 0660, 0620, 0601};
    for (unsigned i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
        assert_int_equal(chmod(file.path, open_modes[i]), 0);
        assert_int_equal(bw_keyring_load(&ring, file.path, why), BW_EDENIED);
    }
    assert_non_null(strstr(why, "chmod 600"));
    assert_int_equal(chmod(file.path, 0640), 0);
    assert_int_equal(bw_keyring_load(&ring, file.path, why), 0);
    bw_keyring_free(ring);
    unlink(file.path);
    assert_int_equal(bw_keyring_load(&ring, "/tmp", why), BW_EDENIED);
}

static void the_public_key_is_the_same_for_all_and_no_file_can_hold_it(void **state)
{
    (void)state;
    struct bw_keyring *ring = bw_keyring_public();
    struct bw_seal *one = seal_of(1, ring), *two = seal_of(2, ring);
    char why[BW_KEYRING_WHY_MAX + 1] = "";
    assert_true(bw_keyring_is_public(ring));
    assert_int_equal(bw_keyring_reload(ring, why), 0);
    handshake(one, 2, two);
    struct frame frame = frame_of(one, 2, "on one host");
    assert_received(two, &frame, "on one host");
    bw_seal_free(one);
    bw_seal_free(two);
    bw_keyring_free(ring);
}

struct host {
    struct key_file file;
    struct bw_keyring *ring;
    struct bw_seal *seal;
};

static struct host host(bw_node self, const char *keys)
{
    char why[BW_KEYRING_WHY_MAX + 1] = "";
    struct host new = {.file = key_file(keys)};
    assert_int_equal(bw_keyring_load(&new.ring, new.file.path, why), 0);
    new.seal = seal_of(self, new.ring);
    return new;
}

static void change_keys(struct host *host, const char *keys)
{
    char why[BW_KEYRING_WHY_MAX + 1] = "";
    write_keys(&host->file, keys);
    assert_int_equal(bw_keyring_reload(host->ring, why), 0);
}

static void leave(struct host *host)
{
    bw_seal_free(host->seal);
    bw_keyring_free(host->ring);
    unlink(host->file.path);
}

static void assert_talking(struct host *one, struct host *two)
{
    struct frame there = frame_of(one->seal, 2, "there"), back = frame_of(two->seal, 1, "and back");
    assert_received(two->seal, &there, "there");
    assert_received(one->seal, &back, "and back");
    assert_dropped(two->seal, &there, BW_SEAL_DROP_REPLAY);
    assert_dropped(one->seal, &back, BW_SEAL_DROP_REPLAY);
}

static void key_rotation_loses_no_frame_and_no_replay_window(void **state)
{
    (void)state;
    struct host one = host(1, KEY_ONE "\n"), two = host(2, KEY_ONE "\n");
    handshake(one.seal, 2, two.seal);
    assert_talking(&one, &two);
    struct frame before = frame_of(one.seal, 2, "before"), late = frame_of(one.seal, 2, "late");
    assert_received(two.seal, &before, "before");

    change_keys(&one, KEY_ONE "\n" KEY_TWO "\n");
    assert_talking(&one, &two);
    change_keys(&two, KEY_ONE "\n" KEY_TWO "\n");
    change_keys(&one, KEY_TWO "\n" KEY_ONE "\n");
    assert_talking(&one, &two); /* each seals with another key */
    assert_dropped(two.seal, &before, BW_SEAL_DROP_REPLAY);
    assert_received(two.seal, &late, "late");
    change_keys(&two, KEY_TWO "\n" KEY_ONE "\n");
    change_keys(&one, KEY_TWO "\n");
    assert_talking(&one, &two);
    change_keys(&two, KEY_TWO "\n");
    assert_talking(&one, &two);
    assert_dropped(two.seal, &before, BW_SEAL_DROP_REPLAY);
    leave(&one);
    leave(&two);
}

static void removed_key_opens_nothing(void **state)
{
    (void)state;
    struct host one = host(1, KEY_ONE "\n"), two = host(2, KEY_ONE "\n" KEY_TWO "\n");
    handshake(one.seal, 2, two.seal);
    struct frame old = frame_of(one.seal, 2, "old");
    change_keys(&two, KEY_TWO "\n");
    assert_dropped(two.seal, &old, BW_SEAL_DROP_KEY);
    leave(&one);
    leave(&two);
}

static void a_file_that_cannot_be_used_leaves_the_keys_as_they_were(void **state)
{
    (void)state;
    char why[BW_KEYRING_WHY_MAX + 1] = "";
    struct host one = host(1, KEY_ONE "\n"), two = host(2, KEY_ONE "\n");
    handshake(one.seal, 2, two.seal);
    uint32_t generation = bw_keyring_generation(one.ring);
    write_keys(&one.file, "half a ke");
    assert_int_equal(bw_keyring_reload(one.ring, why), BW_EMALFORMED);
    unlink(one.file.path);
    assert_int_equal(bw_keyring_reload(one.ring, why), BW_EIO);
    assert_int_equal(bw_keyring_generation(one.ring), generation);
    assert_talking(&one, &two);
    leave(&one);
    leave(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hex_base64_comments_and_blank_lines_are_read),
        cmocka_unit_test(invalid_key_is_refused_and_never_printed),
        cmocka_unit_test(too_many_keys_and_too_long_files_are_refused),
        cmocka_unit_test(a_file_that_others_can_read_is_refused),
        cmocka_unit_test(the_public_key_is_the_same_for_all_and_no_file_can_hold_it),
        cmocka_unit_test(key_rotation_loses_no_frame_and_no_replay_window),
        cmocka_unit_test(removed_key_opens_nothing),
        cmocka_unit_test(a_file_that_cannot_be_used_leaves_the_keys_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
