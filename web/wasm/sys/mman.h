/* Replaces mmap for WebAssembly, where memory only grows: anonymous memory comes from the heap.
 * Covers what sim/stores/registry.c needs. */
#ifndef BW_WEB_WASM_SYS_MMAN_H
#define BW_WEB_WASM_SYS_MMAN_H

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define PROT_READ     1
#define PROT_WRITE    2
#define MAP_PRIVATE   2
#define MAP_ANONYMOUS 32
#define MAP_NORESERVE 0
#define MAP_FAILED    ((void *)-1)
#define MADV_DONTNEED 4

static inline void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    (void)at, (void)protection, (void)flags, (void)fd, (void)offset;
    void *memory = calloc(1, bytes);
    return memory ? memory : MAP_FAILED;
}

static inline int madvise(void *at, size_t bytes, int advice)
{
    (void)advice;
    memset(at, 0, bytes);
    return 0;
}

static inline int munmap(void *at, size_t bytes)
{
    (void)bytes;
    free(at);
    return 0;
}

#endif
