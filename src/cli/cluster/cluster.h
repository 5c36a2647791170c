/* The commands of `bellwether cluster`, and access to the member list. */
#ifndef BW_CLI_CLUSTER_CLUSTER_H
#define BW_CLI_CLUSTER_CLUSTER_H

#include "cli/cluster/client.h"

extern const struct bw_cli_command bw_command_cluster_status, bw_command_cluster_add,
    bw_command_cluster_remove, bw_command_cluster_promote, bw_command_cluster_transfer,
    bw_command_cluster_snapshot, bw_command_cluster_restore;

/* Returns the members, or NULL after an error message; *code is then the exit code. */
Api__MemberListResponse *bw_cluster_members_of(struct bw_cluster_client *client, int *code);
/* Returns the member's client URL if it has exactly one, else "". */
const char *bw_cluster_url(const Api__Member *member);

#endif
