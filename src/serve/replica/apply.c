/* The registry's memory, and committed entries into it. */
#include "core/base/error.h"
#include "serve/replica/state.h"

#include <stdlib.h>
#include <sys/mman.h>

#define RESULT_KVS 65536u

int replica_registry_make(struct bw_replica *r)
{
    if (r->memory)
        munmap(r->memory, r->memory_bytes);
    r->memory_bytes = bw_registry_bytes(&r->options.registry);
    r->memory = mmap(NULL, r->memory_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->memory == MAP_FAILED) {
        r->memory = NULL;
        return BW_ENOMEM;
    }
    if (!r->session.room) {
        r->session.room = malloc(sizeof *r->session.room);
        r->session.results.ops = malloc(BW_TXN_ALL_MAX * sizeof *r->session.results.ops);
        r->session.results.kvs = malloc(RESULT_KVS * sizeof(const struct bw_kv *));
        r->session.results.op_cap = BW_TXN_ALL_MAX;
        r->session.results.kv_cap = RESULT_KVS;
    }
    if (!r->session.room || !r->session.results.ops || !r->session.results.kvs)
        return BW_ENOMEM;
    return bw_registry_init(&r->session.registry, r->memory, r->memory_bytes, &r->options.registry);
}

void replica_apply(struct bw_replica *r, bw_index until)
{
    struct bw_session *s = &r->session;
    r->commit = until > r->commit ? until : r->commit;
    while (s->applied < until) {
        const struct bw_log_entry *entry = bw_log_at(&r->log, s->applied + 1);
        if (!entry)
            return; /* behind a snapshot that is being installed */
        r->applied_term = entry->term;
        bool member = replica_is_member_entry(entry);
        r->changed |= bw_session_apply(s, entry->bytes, member ? 0 : entry->length);
        if (member)
            replica_member_applied(r, entry);
    }
    bw_session_reads(s);
    replica_snapshot_consider(r);
}
