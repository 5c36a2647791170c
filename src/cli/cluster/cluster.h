/* The commands of `bellwether cluster`, and the members they speak of. */
#ifndef BW_CLI_CLUSTER_H
#define BW_CLI_CLUSTER_H

#include "cli/cluster/client.h"

extern const struct bw_cli_command bw_command_cluster_status, bw_command_cluster_add,
    bw_command_cluster_remove, bw_command_cluster_promote, bw_command_cluster_transfer,
    bw_command_cluster_snapshot, bw_command_cluster_restore;

/* NULL: it was said why, *code is what to leave with. */
Api__MemberListResponse *bw_cluster_members_of(struct bw_cluster_client *client, int *code);
/* Of a client's URL and nothing else, or "". */
const char *bw_cluster_url(const Api__Member *member);

#endif
