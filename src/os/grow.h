/* Arrays and buffers that grow by doubling, so that n appends copy O(n) bytes. */
#ifndef BW_OS_GROW_H
#define BW_OS_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes an array of elements of `size` bytes hold at least `need` of them. `array` is the address
 * of the pointer to the first element, which may be NULL. The capacity starts at `first` and
 * doubles. Returns false if memory cannot be allocated; the array is then unchanged and still
 * valid.
 *
 *     if (!bw_grow(&list->at, &list->capacity, list->count + 1, 16, sizeof *list->at))
 *         return BW_ENOMEM; */
static inline bool bw_grow(void *array, size_t *capacity, size_t need, size_t first, size_t size)
{
    void *at;
    size_t more = *capacity ? *capacity : first;
    if (need <= *capacity)
        return true;
    while (more < need)
        more = more > SIZE_MAX / 2 ? need : 2 * more;
    memcpy(&at, array, sizeof at);
    at = more > SIZE_MAX / size ? NULL : realloc(at, more * size);
    if (!at)
        return false;
    memcpy(array, &at, sizeof at);
    *capacity = more;
    return true;
}

#endif
