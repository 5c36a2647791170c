/* Which modes of a file with a secret are refused. */
#include "os/secret_file.h"

#include "unit/unit.h"

static bool exposed(uid_t owner, mode_t mode)
{
    struct stat file = {.st_uid = owner, .st_mode = S_IFREG | mode};
    return bw_secret_file_is_exposed(&file);
}

static void file_of_its_owner_alone_is_private(void **state)
{
    (void)state;
    for (uid_t owner = 0; owner < 2000; owner += 1000) {
        assert_false(exposed(owner, 0400));
        assert_false(exposed(owner, 0600));
        assert_false(exposed(owner, 0700));
    }
}

static void systemd_credential_is_private(void **state)
{
    (void)state;
    assert_false(exposed(0, 0440)); /* of root, with an ACL entry for the user of the service */
    assert_false(exposed(0, 0640));
    assert_false(exposed(1000, 0400)); /* where the file system has no ACLs */
}

static void file_that_the_group_of_a_user_can_read_is_exposed(void **state)
{
    (void)state;
    assert_true(exposed(1000, 0440));
    assert_true(exposed(1000, 0640));
    assert_true(exposed(1000, 0610));
}

static void file_that_others_can_write_or_read_is_exposed(void **state)
{
    (void)state;
    for (uid_t owner = 0; owner < 2000; owner += 1000) {
        assert_true(exposed(owner, 0644));
        assert_true(exposed(owner, 0604));
        assert_true(exposed(owner, 0602));
        assert_true(exposed(owner, 0601));
        assert_true(exposed(owner, 0620));
        assert_true(exposed(owner, 0610));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_of_its_owner_alone_is_private),
        cmocka_unit_test(systemd_credential_is_private),
        cmocka_unit_test(file_that_the_group_of_a_user_can_read_is_exposed),
        cmocka_unit_test(file_that_others_can_write_or_read_is_exposed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
