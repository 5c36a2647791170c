/* The files of the local history: their size, and lines of several writers. */
#include "unit/unit.h"

#include "run/history/history_log.h"
#include "system/kit/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIMIT_NS (60 * BW_SEC)
#define LINES    4000u
#define LENGTH   400u

/* Counts the lines, and checks that each is whole: one letter of its writer, LENGTH times. */
static unsigned whole_lines(const char *directory, const char *name, long *size)
{
    char path[PATH_MAX], line[2 * LENGTH];
    struct stat st;
    unsigned count = 0;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    *size = (long)st.st_size;
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); count++) {
        assert_int_equal(strlen(line), LENGTH + 1);
        for (unsigned i = 1; i < LENGTH; i++)
            assert_int_equal(line[i], line[0]);
    }
    fclose(file);
    return count;
}

static void two_writers_keep_their_lines_whole_and_the_files_bounded(void **state)
{
    char scratch[SCRATCH_MAX], directory[SCRATCH_MAX + 16], lines[2][LENGTH + 1];
    struct bw_history_log *logs[2];
    long size[2];
    (void)state;
    scratch_make(scratch);
    snprintf(directory, sizeof directory, "%s/a/b", scratch); /* created with the first line */
    for (int i = 0; i < 2; i++) {
        memset(lines[i], 'a' + i, LENGTH);
        lines[i][LENGTH] = '\0';
        logs[i] = bw_history_log_new(directory);
        assert_non_null(logs[i]);
    }
    umask(077);
    for (unsigned k = 0; k < LINES; k++) {
        bw_history_log_append(logs[k % 2], lines[k % 2]);
        if (k % 64 == 63) { /* so that few lines are dropped */
            bw_history_log_free(logs[0], LIMIT_NS);
            bw_history_log_free(logs[1], LIMIT_NS);
            logs[0] = bw_history_log_new(directory);
            logs[1] = bw_history_log_new(directory);
        }
    }
    bw_history_log_free(logs[0], LIMIT_NS);
    bw_history_log_free(logs[1], LIMIT_NS);
    assert_true(whole_lines(directory, BW_HISTORY_FILE, &size[0]) > 0);
    assert_true(whole_lines(directory, BW_HISTORY_OLD_FILE, &size[1]) > 2000);
    assert_true(size[0] <= BW_HISTORY_FILE_MAX && size[1] <= BW_HISTORY_FILE_MAX);
    scratch_remove(scratch);
}

static void directory_that_cannot_be_created_costs_nothing(void **state)
{
    struct bw_history_log *log = bw_history_log_new("/dev/null/history");
    (void)state;
    assert_non_null(log);
    bw_history_log_append(log, "line");
    bw_history_log_free(log, LIMIT_NS);
    bw_history_log_free(NULL, LIMIT_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_writers_keep_their_lines_whole_and_the_files_bounded),
        cmocka_unit_test(directory_that_cannot_be_created_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
