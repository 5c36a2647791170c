/* Members and status of the cluster; transfer of Raft leadership. */
#include "core/base/error.h"
#include "core/registry/alarm.h"
#include "serve/api/service.h"

#include <stdio.h>
#include <string.h>

static char *url_of(struct bw_service *service, const struct bw_replica_member *member)
{
    char *url = bw_service_scratch(service, sizeof member->host + 32);
    snprintf(url, sizeof member->host + 32, "%s://%s:%u",
             bw_service_has_peer_tls(service) ? "https" : "http", member->host, member->port);
    return url;
}

static Api__Member *to_member(struct bw_service *service, const struct bw_replica_member *member,
                              bool learner)
{
    Api__Member *out = bw_service_scratch(service, sizeof *out);
    char **urls = bw_service_scratch(service, 2 * sizeof(char *));
    char *name = bw_service_scratch(service, sizeof member->name);
    char *client = bw_service_scratch(service, sizeof member->client);
    api__member__init(out);
    memcpy(name, member->name, sizeof member->name);
    memcpy(client, member->client, sizeof member->client);
    urls[0] = url_of(service, member);
    urls[1] = client;
    out->id = member->id;
    out->name = name;
    out->peerurls = &urls[0];
    out->n_peerurls = 1;
    out->clienturls = &urls[1];
    out->n_clienturls = client[0] != '\0';
    out->islearner = learner;
    return out;
}

Api__Member **bw_cluster_list(struct bw_service *service, size_t *count)
{
    struct bw_replica_member members[BW_REPLICA_NODES];
    uint32_t voters, found = bw_replica_members(bw_service_replica(service), members, &voters);
    bw_service_scratch_clear(service);
    Api__Member **out = bw_service_scratch(service, (found + 1) * sizeof(Api__Member *));
    for (uint32_t i = 0; i < found; i++)
        out[i] = to_member(service, &members[i], i >= voters);
    *count = found;
    return out;
}

void bw_cluster_members(struct bw_call *call, const ProtobufCMessage *message)
{
    struct bw_service *service = call->service;
    Api__MemberListResponse out = API__MEMBER_LIST_RESPONSE__INIT;
    Api__Header header;
    (void)message;
    out.members = bw_cluster_list(service, &out.n_members);
    bw_service_header(service, &header, 0);
    out.header = &header;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

void bw_cluster_status(struct bw_call *call, const ProtobufCMessage *message)
{
    struct bw_service *service = call->service;
    struct bw_replica_status status;
    struct bw_registry_status registry;
    Api__StatusResponse out = API__STATUS_RESPONSE__INIT;
    Api__Header header;
    (void)message;
    bw_replica_status(bw_service_replica(service), &status);
    bw_registry_status(bw_service_registry(service), &registry);
    bw_service_header(service, &header, 0);
    out.header = &header;
    out.version = (char *)BW_API_VERSION;
    out.dbsize = out.dbsizeinuse = (int64_t)registry.bytes; /* nothing is fragmented on disk */
    out.leader = status.leader;
    out.raftindex = status.commit;
    out.raftappliedindex = status.applied;
    out.raftterm = status.term;
    char *errors[BW_ALARMS_MAX + 1] = {(char *)"etcdserver: no leader"};
    size_t first = status.leader == BW_NODE_NONE;
    bw_service_scratch_clear(service);
    out.n_errors = first + bw_service_alarm_texts(service, errors + first);
    out.errors = errors;
    out.islearner = !bw_replica_is_voter(bw_service_replica(service));
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

static void moved(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    Api__MoveLeaderResponse out = API__MOVE_LEADER_RESPONSE__INIT;
    Api__Header header;
    (void)number;
    (void)ttl_ns;
    bw_service_header(call->service, &header, 0);
    out.header = &header;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

static void not_moved(struct bw_call *call, int64_t number, int error)
{
    (void)number;
    if (error == BW_ENOTLEADER)
        bw_call_end(call, BW_CODE_PRECONDITION, "etcdserver: not leader");
    else if (error == BW_ENOTMEMBER || error == BW_EINVAL)
        bw_call_end(call, BW_CODE_PRECONDITION, "etcdserver: bad leader transferee");
    else
        bw_call_end(call, BW_CODE_UNAVAILABLE,
                    "etcdserver: request timed out, leader transfer took too long");
}

static bool may_lead(const struct bw_replica *replica, uint64_t id)
{
    struct bw_replica_member members[BW_REPLICA_NODES];
    uint32_t voters;
    bw_replica_members(replica, members, &voters);
    for (uint32_t i = 0; i < voters; i++)
        if (members[i].id == id)
            return true;
    return false;
}

/* The read has confirmed the users and the leader. */
static void transfer(struct bw_call *call, int64_t target, bw_time ttl_ns)
{
    struct bw_replica *replica = bw_service_replica(call->service);
    struct bw_replica_status status;
    (void)ttl_ns;
    bw_replica_status(replica, &status);
    if (!status.leading) {
        not_moved(call, 0, BW_ENOTLEADER);
        return;
    }
    if (target == status.self) {
        moved(call, 0, 0);
        return;
    }
    struct bw_wait *wait = bw_service_wait(call, bw_replica_transfer(replica, (bw_node)target));
    if (!wait)
        return;
    wait->answered = moved;
    wait->failed = not_moved;
}

void bw_cluster_move_leader(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__MoveLeaderRequest *in = (const Api__MoveLeaderRequest *)message;
    struct bw_replica *replica = bw_service_replica(call->service);
    struct bw_replica_status status;
    bw_replica_status(replica, &status);
    if (!status.leading) {
        not_moved(call, 0, BW_ENOTLEADER);
        return;
    }
    if (!may_lead(replica, in->targetid)) {
        not_moved(call, 0, BW_ENOTMEMBER);
        return;
    }
    struct bw_wait *wait = bw_service_read(call, transfer);
    if (wait)
        wait->number = (int64_t)in->targetid;
}

/* gRPC's health check for load balancers and probes. As in etcd, only the server as a whole has a
 * health status. etcd always reports SERVING; this node reports NOT_SERVING while it knows no
 * leader. Unlike /health, the check ignores alarms: during an alarm, the node still answers reads
 * and renewals. */
void bw_cluster_health(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__HealthCheckRequest *in = (const Api__HealthCheckRequest *)message;
    Api__HealthCheckResponse out = API__HEALTH_CHECK_RESPONSE__INIT;
    struct bw_replica_status status;
    if (in->service[0] != '\0') {
        bw_call_end(call, BW_CODE_NOT_FOUND, "unknown service");
        return;
    }
    bw_replica_status(bw_service_replica(call->service), &status);
    out.status = status.leader ? API__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                               : API__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

/* There is nothing to defragment: a snapshot leaves no holes, and freed memory is used again. The
 * response has no header, as in etcd. */
void bw_cluster_defragment(struct bw_call *call, const ProtobufCMessage *message)
{
    Api__DefragmentResponse out = API__DEFRAGMENT_RESPONSE__INIT;
    (void)message;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}
