/* See tally.h. */
#include "run/status/tally.h"

#include <stdio.h>
#include <string.h>

void bw_tally_leader(struct bw_tally *tally, const char *leader, bw_time now)
{
    if (!leader[0]) {
        if (tally->leader[0] && !tally->vacant_since)
            tally->vacant_since = now;
        return;
    }
    if (tally->vacant_since)
        bw_histogram_add(&tally->gaps, &bw_bounds_gap, now - tally->vacant_since);
    tally->vacant_since = 0;
    tally->leader_changes += tally->leader[0] && strcmp(tally->leader, leader) != 0;
    snprintf(tally->leader, sizeof tally->leader, "%s", leader);
}

void bw_tally_elected(struct bw_tally *tally, bw_time now)
{
    tally->failed_over_since = tally->vacant_since ? tally->vacant_since : now;
    tally->renewed = now;
}

void bw_tally_started(struct bw_tally *tally, bw_time now)
{
    if (tally->failed_over_since)
        bw_histogram_add(&tally->failovers, &bw_bounds_gap, now - tally->failed_over_since);
    tally->failed_over_since = 0;
}

void bw_tally_asked(struct bw_tally *tally, const struct bw_store_request *request, bw_time now)
{
    if (request->op != BW_STORE_ACQUIRE && request->op != BW_STORE_RENEW &&
        request->op != BW_STORE_RELEASE)
        return;
    tally->request = request->id;
    tally->asked = now;
}

void bw_tally_answered(struct bw_tally *tally, const struct bw_store_reply *reply, bw_time now)
{
    if (tally->request == 0 || reply->id != tally->request)
        return;
    tally->request = 0;
    bw_histogram_add(&tally->answers, &bw_bounds_disk, now - tally->asked);
}
