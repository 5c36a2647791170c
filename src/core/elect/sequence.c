/* The sequential-node recipe; see sequence.h. */
#include "core/elect/sequence.h"

#include "core/base/bug.h"
#include "core/base/error.h"

void bw_sequence_init(struct bw_sequence *self, uint64_t own)
{
    *self = (struct bw_sequence){.own = own, .verdict = BW_SEQUENCE_LIST};
}

/* Index of the first entry whose number is not below `number`. */
static uint32_t place(const struct bw_sequence_entry *list, uint32_t count, uint64_t number)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool sorted(const struct bw_sequence_entry *list, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (list[i - 1].number >= list[i].number)
            return false;
    return true;
}

int bw_sequence_listed(struct bw_sequence *self, const struct bw_sequence_entry *list,
                       uint32_t count)
{
    self->watch = (struct bw_sequence_entry){0};
    self->verdict = BW_SEQUENCE_LIST;
    if (!sorted(list, count))
        return BW_EINVAL;
    self->leader = count ? list[0] : (struct bw_sequence_entry){0};
    uint32_t i = place(list, count, self->own);
    if (i == count || list[i].number != self->own) {
        self->verdict = BW_SEQUENCE_GONE;
    } else if (i == 0) {
        self->verdict = BW_SEQUENCE_LEAD;
    } else {
        self->verdict = BW_SEQUENCE_WATCH;
        /* Planted bug: all candidates watch the leader, so its death notifies all of them. */
        self->watch = list[BW_BUG(sequence_watches_leader) ? 0 : i - 1];
    }
    return 0;
}

bool bw_sequence_vanished(struct bw_sequence *self, uint64_t number)
{
    if (number == self->own) {
        self->verdict = BW_SEQUENCE_GONE;
        self->watch = (struct bw_sequence_entry){0};
        return false;
    }
    if (self->verdict != BW_SEQUENCE_WATCH || number != self->watch.number)
        return false;
    /* Planted bug: leads as soon as the predecessor is gone, even if that one was not the
     * leader. */
    self->verdict = BW_BUG(sequence_leads_unlisted) ? BW_SEQUENCE_LEAD : BW_SEQUENCE_LIST;
    self->watch = (struct bw_sequence_entry){0};
    return true;
}
