/* The memory of a registry: reserves it, and returns it to the system.
 *
 * Most of it is only address space. A pool thread uses these functions too (snapshot_receive.c), so
 * bw_registry_memory_make and bw_registry_memory_drop touch nothing of the replica. */
#include "core/base/error.h"
#include "core/base/heap.h"
#include "serve/replica/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RESULT_KVS 65536u
/* Dropped versions whose memory is returned in one turn of the loop. Each is a system call. */
#define RELEASED_PER_TURN 64u
/* Versions that one turn of the loop moves: some milliseconds. */
#define MOVED_PER_TURN ((uint64_t)4 << 20)
/* Memory returned with one system call. Meanwhile no other thread can map memory. */
#define UNMAP_BYTES ((size_t)16 << 20)

/* The memory is large, so limits that count address space forbid it. */
static void explain(size_t bytes, int error, char *why)
{
    snprintf(why, BW_REPLICA_WHY_MAX + 1,
             "cannot reserve %zu GiB of address space for the data: %s; most of it is never used, "
             "but a limit forbids it: raise `ulimit -v` or LimitAS= of systemd, or set "
             "vm.overcommit_memory to 0 or 1",
             (bytes >> 30) + 1, strerror(error));
}

int bw_registry_memory_make(struct bw_registry_memory *memory,
                            const struct bw_registry_config *config, char *why)
{
    size_t bytes = bw_registry_bytes(config);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *memory = (struct bw_registry_memory){0};
    if (at == MAP_FAILED) {
        explain(bytes, errno, why);
        return BW_ENOMEM;
    }
    *memory = (struct bw_registry_memory){.at = at, .bytes = bytes};
    int error = bw_registry_init(&memory->registry, at, bytes, config);
    if (error)
        bw_registry_memory_drop(memory);
    return error;
}

void bw_registry_memory_drop(struct bw_registry_memory *memory)
{
    for (size_t done = 0; done < memory->bytes; done += UNMAP_BYTES) {
        size_t left = memory->bytes - done;
        munmap((char *)memory->at + done, left < UNMAP_BYTES ? left : UNMAP_BYTES);
    }
    *memory = (struct bw_registry_memory){0};
}

int replica_registry_make(struct bw_replica *r, char *why)
{
    bw_registry_memory_drop(&r->memory);
    if (!r->router.scratch) {
        r->router.scratch = malloc(sizeof *r->router.scratch);
        r->router.results.ops = malloc(BW_TXN_ALL_MAX * sizeof *r->router.results.ops);
        r->router.results.kvs = malloc(RESULT_KVS * sizeof(const struct bw_kv *));
        r->router.results.op_cap = BW_TXN_ALL_MAX;
        r->router.results.kv_cap = RESULT_KVS;
    }
    if (!r->router.scratch || !r->router.results.ops || !r->router.results.kvs)
        return BW_ENOMEM;
    int error = bw_registry_memory_make(&r->memory, &r->options.registry, why);
    r->router.registry = r->memory.registry;
    return error;
}

struct drop { /* memory that a pool thread returns */
    uv_work_t work;
    struct bw_replica *replica;
    struct bw_registry_memory memory;
};

static void carry_out(uv_work_t *work)
{
    struct drop *drop = work->data;
    bw_registry_memory_drop(&drop->memory);
}

static void on_dropped(uv_work_t *work, int status)
{
    struct drop *drop = work->data;
    struct bw_replica *r = drop->replica;
    (void)status;
    bw_registry_memory_drop(&drop->memory); /* the thread did not run */
    free(drop);
    replica_release(r);
}

void replica_registry_drop(struct bw_replica *r, struct bw_registry_memory *memory)
{
    struct drop *drop = memory->bytes ? malloc(sizeof *drop) : NULL;
    if (!drop) {
        bw_registry_memory_drop(memory);
        return;
    }
    *drop = (struct drop){.replica = r, .memory = *memory};
    *memory = (struct bw_registry_memory){0};
    drop->work.data = drop;
    r->handles++;
    if (uv_queue_work(r->options.loop, &drop->work, carry_out, on_dropped) != 0)
        on_dropped(&drop->work, 0);
}

void replica_release_memory(struct bw_replica *r)
{
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    struct bw_heap_pages pages;
    if (bw_registry_move(r->router.registry, MOVED_PER_TURN)) {
        replica_turn(r);
        return;
    }
    for (uint32_t i = 0; i < RELEASED_PER_TURN; i++) {
        if (!bw_registry_release(r->router.registry, &pages.at, &pages.length))
            return;
        bw_heap_keep_whole(&pages, page_size);
        if (pages.length)
            madvise(pages.at, pages.length, MADV_DONTNEED);
    }
    replica_turn(r);
}
