/* The options of `bellwether peer`. They become the URL of a peer store (store/peer/settings.h),
 * which is then used as `bellwether run` uses any store. */
#ifndef BW_CLI_PEER_PEER_H
#define BW_CLI_PEER_PEER_H

#include "cli/run/run.h"
#include "core/peer/times.h"

struct bw_peer_cli {
    struct bw_job_options job; /* first: the offsets in work_options.inc start here */
    uint32_t id, expect, priority;
    const char *name, *listen, *advertise, *join, *data, *members;
    const char *key_file, *tls_cert, *tls_key, *tls_ca;
    const char *algorithm, *detector;
    bool quorum, ordinary, leave;
    struct bw_peer_times times;
};

extern const struct bw_option bw_peer_option_rows[];

void bw_peer_cli_init(struct bw_peer_cli *options);
/* Checks and completes the options and builds the URL. Returns BW_GO_ON, or an exit code after one
 * line on stderr. */
int bw_peer_cli_finish(const struct bw_cli_command *command, struct bw_peer_cli *options,
                       const struct bw_parsed *parsed);

#endif
