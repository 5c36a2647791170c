/* The table of all methods: paths, message types and handlers. */
#include "serve/api/service.h"

#include <string.h>

#define UNARY(path, json, request, response, function)                                             \
    {                                                                                              \
        path, json, &api__##request##__descriptor, &api__##response##__descriptor, BW_UNARY,       \
            function, NULL, NULL, NULL                                                             \
    }

/* A unary method that keeps state while it waits. */
#define KEEPING(path, json, request, response, function, gone)                                     \
    {                                                                                              \
        path, json, &api__##request##__descriptor, &api__##response##__descriptor, BW_UNARY,       \
            function, NULL, gone, NULL                                                             \
    }

const struct bw_method bw_methods[] = {
    {"/etcdserverpb.KV/Range", "/v3/kv/range", &api__range_request__descriptor,
     &api__range_response__descriptor, BW_UNARY, bw_kv_range, NULL, bw_kv_range_gone, NULL},
    UNARY("/etcdserverpb.KV/Put", "/v3/kv/put", put_request, put_response, bw_kv_put),
    UNARY("/etcdserverpb.KV/DeleteRange", "/v3/kv/deleterange", delete_range_request,
          delete_range_response, bw_kv_delete),
    UNARY("/etcdserverpb.KV/Txn", "/v3/kv/txn", txn_request, txn_response, bw_kv_txn),
    UNARY("/etcdserverpb.KV/Compact", "/v3/kv/compaction", compaction_request, compaction_response,
          bw_kv_compact),
    UNARY("/etcdserverpb.Lease/LeaseGrant", "/v3/lease/grant", lease_grant_request,
          lease_grant_response, bw_lease_grant),
    UNARY("/etcdserverpb.Lease/LeaseRevoke", "/v3/lease/revoke", lease_revoke_request,
          lease_revoke_response, bw_lease_revoke),
    UNARY("/etcdserverpb.Lease/LeaseTimeToLive", "/v3/lease/timetolive", lease_time_to_live_request,
          lease_time_to_live_response, bw_lease_time_to_live),
    UNARY("/etcdserverpb.Lease/LeaseLeases", "/v3/lease/leases", lease_leases_request,
          lease_leases_response, bw_lease_leases),
    {"/etcdserverpb.Lease/LeaseKeepAlive", "/v3/lease/keepalive",
     &api__lease_keep_alive_request__descriptor, &api__lease_keep_alive_response__descriptor,
     BW_BIDI_STREAM, bw_lease_keep_alive, bw_lease_keep_alive_half_closed, NULL, NULL},
    {"/etcdserverpb.Watch/Watch", "/v3/watch", &api__watch_request__descriptor,
     &api__watch_response__descriptor, BW_BIDI_STREAM, bw_watch_message, NULL, bw_watch_gone,
     bw_watch_writable},
    UNARY("/etcdserverpb.Cluster/MemberList", "/v3/cluster/member/list", member_list_request,
          member_list_response, bw_cluster_members),
    KEEPING("/etcdserverpb.Cluster/MemberAdd", "/v3/cluster/member/add", member_add_request,
            member_add_response, bw_cluster_add, bw_cluster_change_gone),
    KEEPING("/etcdserverpb.Cluster/MemberRemove", "/v3/cluster/member/remove",
            member_remove_request, member_remove_response, bw_cluster_remove,
            bw_cluster_change_gone),
    KEEPING("/etcdserverpb.Cluster/MemberUpdate", "/v3/cluster/member/update",
            member_update_request, member_update_response, bw_cluster_update,
            bw_cluster_change_gone),
    KEEPING("/etcdserverpb.Cluster/MemberPromote", "/v3/cluster/member/promote",
            member_promote_request, member_promote_response, bw_cluster_promote,
            bw_cluster_change_gone),
    UNARY("/etcdserverpb.Maintenance/Status", "/v3/maintenance/status", status_request,
          status_response, bw_cluster_status),
    UNARY("/etcdserverpb.Maintenance/MoveLeader", "/v3/maintenance/transfer-leadership",
          move_leader_request, move_leader_response, bw_cluster_move_leader),
    {"/etcdserverpb.Maintenance/Snapshot", "/v3/maintenance/snapshot",
     &api__snapshot_request__descriptor, &api__snapshot_response__descriptor, BW_SERVER_STREAM,
     bw_cluster_snapshot, NULL, bw_cluster_snapshot_gone, NULL},
    KEEPING("/etcdserverpb.Maintenance/Hash", "/v3/maintenance/hash", hash_request, hash_response,
            bw_hash_all, bw_hash_gone),
    KEEPING("/etcdserverpb.Maintenance/HashKV", "/v3/maintenance/hashkv", hash_kvrequest,
            hash_kvresponse, bw_hash_kv, bw_hash_gone),
    UNARY("/etcdserverpb.Maintenance/Defragment", "/v3/maintenance/defragment", defragment_request,
          defragment_response, bw_cluster_defragment),
    UNARY("/etcdserverpb.Maintenance/Alarm", "/v3/maintenance/alarm", alarm_request, alarm_response,
          bw_cluster_alarm),
    KEEPING("/etcdserverpb.Auth/Authenticate", "/v3/auth/authenticate", authenticate_request,
            authenticate_response, bw_auth_authenticate, bw_auth_gone),
    UNARY("/etcdserverpb.Auth/AuthEnable", "/v3/auth/enable", auth_enable_request,
          auth_enable_response, bw_auth_enable),
    UNARY("/etcdserverpb.Auth/AuthDisable", "/v3/auth/disable", auth_disable_request,
          auth_disable_response, bw_auth_disable),
    UNARY("/etcdserverpb.Auth/AuthStatus", "/v3/auth/status", auth_status_request,
          auth_status_response, bw_auth_status),
    KEEPING("/etcdserverpb.Auth/UserAdd", "/v3/auth/user/add", auth_user_add_request,
            auth_user_add_response, bw_auth_user_add, bw_auth_gone),
    KEEPING("/etcdserverpb.Auth/UserGet", "/v3/auth/user/get", auth_user_get_request,
            auth_user_get_response, bw_auth_user_get, bw_auth_gone),
    UNARY("/etcdserverpb.Auth/UserList", "/v3/auth/user/list", auth_user_list_request,
          auth_user_list_response, bw_auth_user_list),
    UNARY("/etcdserverpb.Auth/UserDelete", "/v3/auth/user/delete", auth_user_delete_request,
          auth_user_delete_response, bw_auth_user_delete),
    KEEPING("/etcdserverpb.Auth/UserChangePassword", "/v3/auth/user/changepw",
            auth_user_change_password_request, auth_user_change_password_response,
            bw_auth_user_password, bw_auth_gone),
    UNARY("/etcdserverpb.Auth/UserGrantRole", "/v3/auth/user/grant", auth_user_grant_role_request,
          auth_user_grant_role_response, bw_auth_user_grant),
    UNARY("/etcdserverpb.Auth/UserRevokeRole", "/v3/auth/user/revoke",
          auth_user_revoke_role_request, auth_user_revoke_role_response, bw_auth_user_revoke),
    KEEPING("/etcdserverpb.Auth/RoleGet", "/v3/auth/role/get", auth_role_get_request,
            auth_role_get_response, bw_auth_role_get, bw_auth_role_gone),
    UNARY("/etcdserverpb.Auth/RoleList", "/v3/auth/role/list", auth_role_list_request,
          auth_role_list_response, bw_auth_role_list),
    UNARY("/etcdserverpb.Auth/RoleAdd", "/v3/auth/role/add", auth_role_add_request,
          auth_role_add_response, bw_auth_role_add),
    UNARY("/etcdserverpb.Auth/RoleDelete", "/v3/auth/role/delete", auth_role_delete_request,
          auth_role_delete_response, bw_auth_role_delete),
    UNARY("/etcdserverpb.Auth/RoleGrantPermission", "/v3/auth/role/grant",
          auth_role_grant_permission_request, auth_role_grant_permission_response,
          bw_auth_role_allow),
    UNARY("/etcdserverpb.Auth/RoleRevokePermission", "/v3/auth/role/revoke",
          auth_role_revoke_permission_request, auth_role_revoke_permission_response,
          bw_auth_role_disallow),
    {"/v3electionpb.Election/Campaign", "/v3/election/campaign", &api__campaign_request__descriptor,
     &api__campaign_response__descriptor, BW_UNARY, bw_election_campaign, NULL, bw_election_gone,
     NULL},
    UNARY("/v3electionpb.Election/Proclaim", "/v3/election/proclaim", proclaim_request,
          proclaim_response, bw_election_proclaim),
    {"/v3electionpb.Election/Leader", "/v3/election/leader", &api__leader_request__descriptor,
     &api__leader_response__descriptor, BW_UNARY, bw_election_leader, NULL, bw_election_gone, NULL},
    {"/v3electionpb.Election/Observe", "/v3/election/observe", &api__leader_request__descriptor,
     &api__leader_response__descriptor, BW_SERVER_STREAM, bw_election_observe, NULL,
     bw_election_gone, bw_election_observe_writable},
    UNARY("/v3electionpb.Election/Resign", "/v3/election/resign", resign_request, resign_response,
          bw_election_resign),
    {"/v3lockpb.Lock/Lock", "/v3/lock/lock", &api__lock_request__descriptor,
     &api__lock_response__descriptor, BW_UNARY, bw_election_lock, NULL, bw_election_gone, NULL},
    UNARY("/v3lockpb.Lock/Unlock", "/v3/lock/unlock", unlock_request, unlock_response,
          bw_election_unlock),
    {"/bellwether.Dashboard/Observe", "/v3/dashboard/observe", &api__dashboard_request__descriptor,
     &api__dashboard_response__descriptor, BW_SERVER_STREAM, bw_dashboard_observe, NULL,
     bw_dashboard_gone, NULL},
    UNARY("/grpc.health.v1.Health/Check", NULL, health_check_request, health_check_response,
          bw_cluster_health),
    {NULL, NULL, NULL, NULL, BW_UNARY, NULL, NULL, NULL, NULL}};

const struct bw_method *bw_method_find(const char *path, size_t length)
{
    for (const struct bw_method *method = bw_methods; method->path; method++)
        if ((strlen(method->path) == length && memcmp(method->path, path, length) == 0) ||
            (method->json && strlen(method->json) == length &&
             memcmp(method->json, path, length) == 0))
            return method;
    return NULL;
}
