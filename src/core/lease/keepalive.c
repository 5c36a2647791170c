/* A short queue of sending times; see keepalive.h. */
#include "core/lease/keepalive.h"

#include "core/base/bug.h"
#include "core/base/error.h"

#include <string.h>

void bw_keepalive_reset(struct bw_keepalive *self)
{
    self->count = 0;
}

int bw_keepalive_send(struct bw_keepalive *self, bw_time now)
{
    if (self->count == BW_LEASE_UNANSWERED_MAX)
        return BW_ELIMIT;
    self->sent[self->count++] = now;
    return 0;
}

bool bw_keepalive_answer(struct bw_keepalive *self, bw_time *sent)
{
    if (self->count == 0)
        return false;
    self->count--;
    if (BW_BUG(keepalive_counts_for_the_newest)) {
        *sent = self->sent[self->count];
        return true;
    }
    *sent = self->sent[0];
    memmove(&self->sent[0], &self->sent[1], self->count * sizeof self->sent[0]);
    return true;
}
