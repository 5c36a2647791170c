/* Matches keep-alive answers with requests, for stores that renew over a stream.
 *
 * Such an answer (etcd's LeaseKeepAlive) does not name its request. It is therefore counted for the
 * OLDEST unanswered request of the stream. If an answer was lost, the holder underestimates its
 * lease, and never overestimates it. For the same reason an unanswered request is kept while the
 * stream is open, however old: its answer may still arrive, and must not count for a newer request.
 *
 * Model. One stream. Answers arrive in the order of the requests; any of them may be late or
 * missing. A closed stream delivers no more answers. */
#ifndef BW_CORE_LEASE_KEEPALIVE_H
#define BW_CORE_LEASE_KEEPALIVE_H

#include "core/base/limits.h"
#include "core/base/types.h"

struct bw_keepalive {
    bw_time sent[BW_LEASE_UNANSWERED_MAX]; /* oldest first */
    uint32_t count;
};

/* A new stream without unanswered requests. */
void bw_keepalive_reset(struct bw_keepalive *self);

/* Records a request that is sent at `now`. Returns 0, or BW_ELIMIT if too many are unanswered: do
 * not send it, open a new stream instead. */
int bw_keepalive_send(struct bw_keepalive *self, bw_time now);

/* Records an answer. Returns true and the sending time of its request, from which the lease counts.
 * Returns false if no request is unanswered: ignore the answer. */
bool bw_keepalive_answer(struct bw_keepalive *self, bw_time *sent);

#endif
