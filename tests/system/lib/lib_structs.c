/* Option structs of every size that an older program can have. Each one ends where readable memory
 * ends, so a read past its size raises SIGSEGV. */
#include "system/lib/lib_common.h"

#include <unistd.h>

#define E "nightly"

static char *page_end; /* the first byte that is not readable */

static int set_up_pages(void **state)
{
    (void)state;
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + size, size, PROT_NONE) != 0)
        return -1;
    page_end = pages + size;
    return 0;
}

/* Returns a struct of `size` bytes at the end of the page, zero except for its size. */
static void *at_the_end(size_t size)
{
    char *at = page_end - size;
    memset(at, 0, size);
    memcpy(at, &size, sizeof size);
    return at;
}

/* The size of a struct is a multiple of its alignment. */
#define every_size(size, type)                                                                     \
    for (size_t size = sizeof(size_t); size <= sizeof(type); size += _Alignof(type))

static int end_at_once(struct bw_cancel *cancel, void *arg)
{
    (void)cancel;
    (void)arg;
    return 0;
}

static void open_does_not_read_past_the_option_struct(void **state)
{
    (void)state;
    struct bw_handle *h;
    every_size(size, struct bw_options)
    {
        assert_int_equal(bw_open(path, at_the_end(size), &h), 0);
        assert_int_equal(bw_close(h), 0);
    }
}

static void campaign_does_not_read_past_the_option_struct(void **state)
{
    (void)state;
    struct bw_handle *h = open_as("ada", HANG_MS);
    struct bw_leadership *l;
    every_size(size, struct bw_campaign_options)
    {
        assert_int_equal(bw_campaign(h, E, at_the_end(size), HANG_MS, &l), 0);
        assert_int_equal(bw_resign(l), 0);
        assert_int_equal(bw_contend(h, E, at_the_end(size), &l), 0);
        assert_int_equal(bw_resign(l), 0);
    }
    assert_int_equal(bw_close(h), 0);
}

static void task_does_not_read_past_the_option_struct(void **state)
{
    (void)state;
    struct bw_handle *h = open_as("ada", HANG_MS);
    struct bw_run_options options = bw_run_options_default();
    every_size(size, struct bw_campaign_options)
    {
        options.campaign = at_the_end(size);
        assert_int_equal(bw_run_while_leader(h, E, end_at_once, NULL, &options), 0);
    }
    every_size(size, struct bw_run_options)
        assert_int_equal(bw_run_while_leader(h, E, end_at_once, NULL, at_the_end(size)), 0);
    assert_int_equal(bw_close(h), 0);
}

static void leader_does_not_write_past_the_info_struct(void **state)
{
    (void)state;
    struct bw_handle *h = open_as("ada", HANG_MS);
    struct bw_campaign_options campaign = bw_campaign_options_default();
    struct bw_leadership *l;
    campaign.value = "here:80";
    assert_int_equal(bw_campaign(h, E, &campaign, HANG_MS, &l), 0);
    every_size(size, struct bw_leader_info)
    {
        struct bw_leader_info *info = at_the_end(size);
        assert_int_equal(bw_leader(h, E, info), 0);
        assert_int_equal(info->size, size);
        if (size >= offsetof(struct bw_leader_info, token))
            assert_string_equal(info->id, "ada");
    }
    assert_int_equal(bw_resign(l), 0);
    assert_int_equal(bw_close(h), 0);
}

static void unset_struct_size_is_refused(void **state)
{
    (void)state;
    struct bw_handle *h;
    struct bw_options options = {.size = 0};
    struct bw_campaign_options campaign = {.size = 0};
    struct bw_run_options run = {.size = 0};
    struct bw_leader_info info = {.size = 0};
    struct bw_leadership *l;
    assert_int_equal(bw_open(path, &options, &h), BW_EINVAL);
    h = open_as("ada", HANG_MS);
    assert_int_equal(bw_campaign(h, E, &campaign, 0, &l), BW_EINVAL);
    assert_null(l);
    assert_int_equal(bw_contend(h, E, &campaign, &l), BW_EINVAL);
    assert_null(l);
    assert_int_equal(bw_run_while_leader(h, E, end_at_once, NULL, &run), BW_EINVAL);
    run = bw_run_options_default();
    run.campaign = &campaign;
    assert_int_equal(bw_run_while_leader(h, E, end_at_once, NULL, &run), BW_EINVAL);
    assert_non_null(strstr(bw_why(), "size"));
    assert_int_equal(bw_leader(h, E, &info), BW_EINVAL);
    assert_int_equal(bw_close(h), 0);
}

/* The exported functions equal the inline ones, and write only into the caller's struct. */
static void exported_defaults_equal_the_inline_ones(void **state)
{
    (void)state;
#define same(name)                                                                                 \
    do {                                                                                           \
        struct name inlined = name##_default(), exported;                                          \
        memset(&exported, 0xff, sizeof exported);                                                  \
        assert_int_equal(name##_init(&exported, sizeof exported), 0);                              \
        assert_memory_equal(&inlined, &exported, sizeof exported);                                 \
        every_size(size, struct name)                                                              \
        {                                                                                          \
            struct name *given = memset(page_end - size, 0xff, size);                              \
            assert_int_equal(name##_init(given, size), 0);                                         \
            assert_int_equal(given->size, size);                                                   \
        }                                                                                          \
        assert_int_equal(name##_init(NULL, sizeof inlined), BW_EINVAL);                            \
        assert_int_equal(name##_init(&exported, sizeof(size_t) - 1), BW_EINVAL);                   \
        assert_memory_equal(&inlined, &exported, sizeof exported);                                 \
    } while (0)
    same(bw_options);
    same(bw_campaign_options);
    same(bw_run_options);
    same(bw_leader_info);
#undef same
}

static void version_of_the_header_is_that_of_the_library(void **state)
{
    char version[32];
    (void)state;
    snprintf(version, sizeof version, "%d.%d.%d", BW_LIBRARY_MAJOR, BW_LIBRARY_MINOR,
             BW_LIBRARY_PATCH);
    assert_string_equal(version, bw_version());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scratch(open_does_not_read_past_the_option_struct),
        in_scratch(campaign_does_not_read_past_the_option_struct),
        in_scratch(task_does_not_read_past_the_option_struct),
        in_scratch(leader_does_not_write_past_the_info_struct),
        in_scratch(unset_struct_size_is_refused),
        cmocka_unit_test(exported_defaults_equal_the_inline_ones),
        cmocka_unit_test(version_of_the_header_is_that_of_the_library),
    };
    return cmocka_run_group_tests(tests, set_up_pages, NULL);
}
