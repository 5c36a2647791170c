/* `bellwether peer`: its options, and what follows from them: the URL of a peer store
 * (store/peer/settings.h) and what `bellwether run` does with any store. */
#ifndef BW_CLI_PEER_H
#define BW_CLI_PEER_H

#include "cli/run/run.h"

struct bw_peer_cli {
    struct bw_job_options job; /* first: run_rows.inc counts from here */
    uint32_t id, expect, priority;
    const char *name, *listen, *advertise, *join, *data, *members;
    const char *key_file, *tls_cert, *tls_key, *tls_ca;
    const char *algorithm, *detector;
    bool quorum, ordinary, leave;
    bw_time period_ns, detect_ns, latency_ns;
};

extern const struct bw_option bw_peer_option_rows[];

void bw_peer_cli_init(struct bw_peer_cli *options);
/* Checks, completes, and makes the URL. BW_GO_ON, or an exit code after one line. */
int bw_peer_cli_finish(const struct bw_cli_command *command, struct bw_peer_cli *options,
                       const struct bw_parsed *parsed);

#endif
