/* One election played on a store by two candidates of this process: what a store promises, seen
 * once with own eyes. Not a proof; the conformance suite is closer to one. */
#ifndef BW_CLI_STORE_PLAY_H
#define BW_CLI_STORE_PLAY_H

#include "cli/store/client.h"

struct bw_play {
    bw_token first, second;       /* of the two leaderships */
    bw_time acquire_ns, renew_ns; /* of several renewals the median */
    bw_time heard_ns;    /* the release, by the waiting candidate; -1: the store does not notify */
    bw_time handover_ns; /* from sending the release until the waiting candidate leads */
};

/* Plays in the election of the client's `look` and lets go of all it took. BW_GO_ON, or an exit
 * code after one line: BW_EXIT_FAILED when the store did not do as it must. */
int bw_play_election(struct bw_client *client, struct bw_play *play);

#endif
