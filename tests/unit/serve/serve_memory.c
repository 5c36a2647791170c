/* When a node returns free memory of the heap to the system (src/serve/replica/measure.c). */
#include "serve/replica/state.h"

#include "unit/unit.h"

#include <malloc.h>

#define ENTRIES 20u
#define BYTES   (1u << 20)

static unsigned trims;
static struct bw_replica r;

/* Replaces the function of libc. */
int malloc_trim(size_t pad)
{
    (void)pad;
    trims++;
    return 1;
}

static void append_entries(void)
{
    static unsigned char bytes[BYTES];
    const struct bw_log_entry entry = {.term = 1, .length = BYTES, .bytes = bytes};
    for (unsigned i = 0; i < ENTRIES; i++)
        assert_int_equal(bw_log_append(&r.log, &entry), 0);
}

static void becomes_quiet(unsigned expected)
{
    unsigned before = trims;
    replica_return_memory(&r);
    assert_int_equal(trims, before); /* the changes may go on */
    replica_return_memory(&r);
    assert_int_equal(trims, expected);
    replica_return_memory(&r);
    assert_int_equal(trims, expected);
}

static void memory_is_returned_once_after_large_changes(void **state)
{
    (void)state;
    append_entries();
    becomes_quiet(1);
}

static void memory_is_returned_again_after_the_log_is_compacted(void **state)
{
    (void)state;
    bw_log_compact(&r.log, ENTRIES);
    becomes_quiet(2);
    append_entries();
    becomes_quiet(3);
    bw_log_free(&r.log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_returned_once_after_large_changes),
        cmocka_unit_test(memory_is_returned_again_after_the_log_is_compacted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
