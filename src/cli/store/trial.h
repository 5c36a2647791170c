/* Runs one trial election on a store with two candidates of this process, and so shows each
 * guarantee once. This is not a proof; the conformance suite tests far more. */
#ifndef BW_CLI_STORE_TRIAL_H
#define BW_CLI_STORE_TRIAL_H

#include "cli/store/client.h"

struct bw_trial {
    bw_token first, second;       /* tokens of the two leaderships */
    bw_time acquire_ns, renew_ns; /* renew_ns: the median of several renewals */
    /* release to notification of the waiting candidate; -1: the store does not notify */
    bw_time notified_ns;
    bw_time handover_ns; /* release sent to new leadership acquired */
};

/* Runs in the election of the client's `look` and releases everything. Returns BW_GO_ON, or an exit
 * code after one line on stderr: BW_EXIT_FAILED if the store broke a guarantee. */
int bw_trial_election(struct bw_client *client, bw_time ttl_ns, struct bw_trial *trial);

#endif
