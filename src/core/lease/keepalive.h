/* Which request does a keep-alive's answer count for?
 *
 * Stores that renew over a stream (etcd's LeaseKeepAlive) answer without saying which request they
 * answer. An answer is therefore counted for the OLDEST request still unanswered on that stream: if
 * an answer was dropped on the way, the holder believes in less than it has, never in more. For the
 * same reason no unanswered request is ever forgotten while the stream lives, however old: its
 * answer may still come and would then be taken for a younger one's.
 *
 * Model: one stream, answers in the order of the requests, any of them late or missing. A closed
 * stream brings no more answers. */
#ifndef BW_LEASE_KEEPALIVE_H
#define BW_LEASE_KEEPALIVE_H

#include "core/base/limits.h"
#include "core/base/types.h"

struct bw_keepalive {
    bw_time sent[BW_LEASE_UNANSWERED_MAX]; /* oldest first */
    uint32_t count;
};

/* A new stream: nothing is unanswered on it. */
void bw_keepalive_reset(struct bw_keepalive *self);

/* A request is about to be sent at `now`. Returns 0, or BW_ELIMIT: too many are unanswered, do not
 * send it (open a new stream instead). */
int bw_keepalive_send(struct bw_keepalive *self, bw_time now);

/* An answer came. True: *sent is when the request it counts for was sent; the lease is counted from
 * there. False: nothing was asked; the answer means nothing. */
bool bw_keepalive_answer(struct bw_keepalive *self, bw_time *sent);

#endif
