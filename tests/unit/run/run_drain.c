/* A candidate's lock and its look for `drained`, with a host that is drained between two of its
 * system calls. */
#include "unit/unit.h"

#include "run/drain/drain.h"
#include "system/kit/scratch.h"

#include <fcntl.h>

static const char *drained_after; /* directory that is drained after the next look into it */

/* Instead of the C library's. */
int lstat(const char *restrict path, struct stat *restrict out)
{
    char why[BW_DRAIN_WHY];
    bw_time unseen_ns;
    const char *directory = drained_after;
    int result = fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
    if (directory && strstr(path, "/drained")) {
        drained_after = NULL;
        assert_int_equal(bw_drain_set(directory, "root", "", &unseen_ns, why), 0);
    }
    return result;
}

static int candidates(const char *directory)
{
    static pid_t pids[BW_DRAIN_CANDIDATES_MAX];
    char why[BW_DRAIN_WHY];
    return bw_drain_candidates(directory, pids, why);
}

static void undrained_candidate_locks_before_its_last_look(void **state)
{
    char directory[SCRATCH_MAX], why[BW_DRAIN_WHY];
    char path[SCRATCH_MAX + 16];
    const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    struct bw_drain drain;
    bw_time unseen_ns;
    (void)state;
    scratch_make(directory);
    bw_drain_init(&drain, directory);
    assert_int_equal(bw_drain_set(directory, "root", "", &unseen_ns, why), 0);
    assert_true(unseen_ns > 0); /* the directory existed, the lock file did not */
    assert_true(bw_drain_watch(&drain));
    bw_drain_unlock(&drain);
    assert_true(bw_drain_watch(&drain));
    assert_int_equal(candidates(directory), 0);

    assert_int_equal(bw_drain_clear(directory, why), 0);
    drained_after = directory;
    assert_true(bw_drain_watch(&drain)); /* the first look saw no file, the second one does */
    assert_null(drained_after);

    assert_int_equal(bw_drain_clear(directory, why), 0);
    assert_false(bw_drain_watch(&drain));
    assert_int_equal(candidates(directory), 1);
    assert_int_equal(bw_drain_set(directory, "root", "", &unseen_ns, why), 0);
    assert_true(unseen_ns > 0); /* the lock file is still new */
    assert_true(snprintf(path, sizeof path, "%s/candidates", directory) < (int)sizeof path);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    assert_int_equal(bw_drain_set(directory, "root", "", &unseen_ns, why), 0);
    assert_int_equal(unseen_ns, 0);
    bw_drain_deinit(&drain);
    assert_int_equal(candidates(directory), 0);
    scratch_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undrained_candidate_locks_before_its_last_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
