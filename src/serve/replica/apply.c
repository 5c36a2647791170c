/* Applies committed entries to the registry. */
#include "os/clock.h"
#include "serve/replica/state.h"

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
}
