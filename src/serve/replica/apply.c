/* Allocates the registry's memory and applies committed entries to the registry. */
#include "core/base/error.h"
#include "core/base/heap.h"
#include "os/clock.h"
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

/* Most of the registry's memory is only address space. It is large, so limits that count address
 * space forbid it. */
static void explain(const struct bw_replica *r, int error, char *why)
{
    snprintf(why, BW_REPLICA_WHY_MAX + 1,
             "cannot reserve %zu GiB of address space for the data: %s; most of it is never used, "
             "but a limit forbids it: raise `ulimit -v` or LimitAS= of systemd, or set "
             "vm.overcommit_memory to 0 or 1",
             (r->memory_bytes >> 30) + 1, strerror(error));
}

int replica_registry_make(struct bw_replica *r, char *why)
{
    if (r->memory)
        munmap(r->memory, r->memory_bytes);
    r->memory_bytes = bw_registry_bytes(&r->options.registry);
    r->memory = mmap(NULL, r->memory_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->memory == MAP_FAILED) {
        explain(r, errno, why);
        r->memory = NULL;
        return BW_ENOMEM;
    }
    if (!r->router.scratch) {
        r->router.scratch = malloc(sizeof *r->router.scratch);
        r->router.results.ops = malloc(BW_TXN_ALL_MAX * sizeof *r->router.results.ops);
        r->router.results.kvs = malloc(RESULT_KVS * sizeof(const struct bw_kv *));
        r->router.results.op_cap = BW_TXN_ALL_MAX;
        r->router.results.kv_cap = RESULT_KVS;
    }
    if (!r->router.scratch || !r->router.results.ops || !r->router.results.kvs)
        return BW_ENOMEM;
    return bw_registry_init(&r->router.registry, r->memory, r->memory_bytes, &r->options.registry);
}

void replica_release_memory(struct bw_replica *r)
{
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    struct bw_heap_pages pages;
    for (uint32_t i = 0; i < RELEASED_PER_TURN; i++) {
        if (!bw_registry_release(r->router.registry, &pages.at, &pages.length))
            return;
        bw_heap_keep_whole(&pages, page_size);
        if (pages.length)
            madvise(pages.at, pages.length, MADV_DONTNEED);
    }
    replica_turn(r);
}

void replica_apply(struct bw_replica *r, bw_index until)
{
    struct bw_router *s = &r->router;
    bw_index before = s->applied;
    bw_time begun = bw_clock_boot();
    r->commit = until > r->commit ? until : r->commit;
    while (s->applied < until) {
        const struct bw_log_entry *entry = bw_log_at(&r->log, s->applied + 1);
        if (!entry)
            return; /* a snapshot that covers it is being installed */
        r->applied_term = entry->term;
        bool member = replica_is_member_entry(entry);
        r->changed |= bw_router_apply(s, entry->bytes, member ? 0 : entry->length);
        if (member)
            replica_member_applied(r, entry);
    }
    if (s->applied > before)
        bw_histogram_add(&r->applies, &bw_bounds_disk, bw_clock_boot() - begun);
    bw_router_serve_reads(s);
    replica_snapshot_expire(r);
    replica_snapshot_consider(r);
}
