/* The size-class allocator: blocks do not overlap, are reused, and end when the memory does. */
#include "unit/unit.h"

#include "core/base/heap.h"

#include <stdlib.h>

static void sizes_are_rounded_up_by_at_most_a_quarter(void **state)
{
    (void)state;
    assert_int_equal(bw_heap_cost(0), BW_HEAP_UNIT);
    assert_int_equal(bw_heap_cost(1), BW_HEAP_UNIT);
    assert_int_equal(bw_heap_cost(17), 2 * BW_HEAP_UNIT);
    for (size_t bytes = 129; bytes < 100000; bytes += 7) {
        assert_true(bw_heap_cost(bytes) >= bytes);
        assert_true(bw_heap_cost(bytes) <= bytes + bytes / 4);
    }
}

static void blocks_larger_than_the_maximum_are_refused(void **state)
{
    (void)state;
    struct bw_heap heap;
    bw_heap_init(&heap, NULL, (size_t)100 << 30); /* more than references can address */
    assert_true(heap.size == (size_t)UINT32_MAX * BW_HEAP_UNIT);
    assert_int_equal(bw_heap_take(&heap, BW_HEAP_BLOCK_MAX + 1), 0);
    assert_int_not_equal(bw_heap_take(&heap, BW_HEAP_BLOCK_MAX), 0);
}

/* The end of the memory is used up; a larger block that was freed serves instead. */
static void full_heap_uses_larger_free_blocks(void **state)
{
    (void)state;
    struct bw_heap heap;
    void *memory = aligned_alloc(16, 1024);
    bw_heap_init(&heap, memory, 1024);
    bw_ref large = bw_heap_take(&heap, 512);
    assert_int_not_equal(large, 0);
    while (bw_heap_take(&heap, 16))
        ;
    assert_int_equal(bw_heap_take(&heap, 64), 0);
    bw_heap_give(&heap, large, 512);
    size_t taken = heap.taken;
    assert_int_equal(bw_heap_take(&heap, 64), large);
    assert_int_equal(heap.taken, taken + 64);
    assert_int_equal(bw_heap_take(&heap, 64), 0);
    bw_heap_give(&heap, large, 64); /* from now on it is a small block */
    assert_int_equal(bw_heap_take(&heap, 64), large);
    free(memory);
}

static void released_pages_lie_inside_a_free_block(void **state)
{
    (void)state;
    struct bw_heap heap;
    struct bw_heap_pages pages;
    unsigned char *memory = aligned_alloc(4096, 1 << 20);
    bw_heap_init(&heap, memory, 1 << 20);
    bw_ref small = bw_heap_take(&heap, 4000), first = bw_heap_take(&heap, 8192),
           second = bw_heap_take(&heap, 100000), used = bw_heap_take(&heap, 100000);
    memset(bw_heap_at(&heap, used), 7, 100000);
    bw_heap_give(&heap, small, 4000);
    assert_false(bw_heap_release(&heap, &pages));
    bw_heap_give(&heap, first, 8192);
    bw_heap_give(&heap, second, 100000);
    assert_int_equal(heap.free_large, bw_heap_cost(8192) + bw_heap_cost(100000));
    const bw_ref blocks[] = {second, first};
    const size_t sizes[] = {bw_heap_cost(100000), bw_heap_cost(8192)};
    for (unsigned i = 0; i < 2; i++) { /* the largest first */
        assert_true(bw_heap_release(&heap, &pages));
        unsigned char *block = bw_heap_at(&heap, blocks[i]), *at = pages.at;
        assert_true(at > block && at + pages.length <= block + sizes[i]);
        assert_true((uintptr_t)at % 4096 == 0 && pages.length % 4096 == 0);
        assert_true(pages.length >= sizes[i] - 2 * 4096 && pages.length >= 4096);
        memset(pages.at, 0, pages.length); /* what the system does */
    }
    assert_false(bw_heap_release(&heap, &pages));
    assert_int_equal(heap.free_large, 0);
    assert_int_equal(bw_heap_take(&heap, 100000), second); /* released blocks are used again */
    assert_int_equal(bw_heap_take(&heap, 8192), first);
    for (unsigned i = 0; i < 100000; i++)
        assert_int_equal(((unsigned char *)bw_heap_at(&heap, used))[i], 7);
    free(memory);
}

/* The system discards whole pages of its own size: it refuses an address inside a page, and rounds
 * the length up. */
static void larger_pages_of_the_system_are_kept_unless_whole(void **state)
{
    (void)state;
    const size_t sizes[] = {4096, 16384, 65536};
    unsigned char *memory = aligned_alloc(65536, 4 << 20);
    size_t discarded = 0;
    for (unsigned s = 0; s < 3; s++)
        for (size_t bytes = 8192; bytes <= 262144; bytes += 12345) {
            struct bw_heap heap;
            struct bw_heap_pages pages;
            bw_heap_init(&heap, memory, 4 << 20);
            bw_heap_take(&heap, 4000);
            bw_ref dropped = bw_heap_take(&heap, bytes), next = bw_heap_take(&heap, 100);
            bw_heap_give(&heap, dropped, bytes);
            assert_true(bw_heap_release(&heap, &pages));
            bw_heap_keep_whole(&pages, sizes[s]);
            if (pages.length == 0)
                continue;
            unsigned char *at = pages.at;
            size_t rounded = (pages.length + sizes[s] - 1) / sizes[s] * sizes[s];
            assert_int_equal((uintptr_t)at % sizes[s], 0);
            assert_true(at > (unsigned char *)bw_heap_at(&heap, dropped));
            assert_true(at + rounded <= (unsigned char *)bw_heap_at(&heap, next));
            discarded += s > 0;
        }
    assert_true(discarded > 10);
    free(memory);
}

static void block_with_its_pages_is_used_before_a_released_one(void **state)
{
    (void)state;
    struct bw_heap heap;
    struct bw_heap_pages pages;
    void *memory = aligned_alloc(4096, 1 << 20);
    bw_heap_init(&heap, memory, 1 << 20);
    bw_ref a = bw_heap_take(&heap, 9000), b = bw_heap_take(&heap, 9000);
    bw_heap_give(&heap, a, 9000);
    assert_true(bw_heap_release(&heap, &pages));
    bw_heap_give(&heap, b, 9000);
    assert_int_equal(bw_heap_take(&heap, 9000), b);
    assert_int_equal(heap.free_large, 0);
    assert_int_equal(bw_heap_take(&heap, 9000), a);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_rounded_up_by_at_most_a_quarter),
        cmocka_unit_test(blocks_larger_than_the_maximum_are_refused),
        cmocka_unit_test(full_heap_uses_larger_free_blocks),
        cmocka_unit_test(released_pages_lie_inside_a_free_block),
        cmocka_unit_test(larger_pages_of_the_system_are_kept_unless_whole),
        cmocka_unit_test(block_with_its_pages_is_used_before_a_released_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
