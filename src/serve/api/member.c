/* Membership changes by etcd's clients. A member has one peer address. A member that is added as a
 * voter starts as a learner; it becomes a voter automatically when it has caught up. */
#include "core/base/error.h"
#include "core/base/parse_values.h"
#include "serve/api/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int error;
    enum bw_code code;
    const char *text;
} refusals[] = {
    {BW_EBUSY, BW_CODE_PRECONDITION,
     "etcdserver: another membership change is in progress; retry when it is complete"},
    {BW_ENOQUORUM, BW_CODE_PRECONDITION,
     "etcdserver: re-configuration failed due to not enough started members: too few reachable "
     "members would remain for a quorum"},
    {BW_ENOTMEMBER, BW_CODE_NOT_FOUND, "etcdserver: member not found"},
    {BW_EINVAL, BW_CODE_PRECONDITION, "etcdserver: can only promote a learner member"},
    {BW_ESTALE, BW_CODE_PRECONDITION,
     "etcdserver: can only promote a learner member which is in sync with leader"},
    {BW_ELIMIT, BW_CODE_PRECONDITION, "etcdserver: too many members in cluster"},
};

static void refuse(struct bw_call *call, int64_t number, int error)
{
    (void)number;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        if (refusals[i].error == error) {
            bw_call_end(call, refusals[i].code, refusals[i].text);
            return;
        }
    bw_service_fail(call, error);
}

/* Expects one URL, "http://HOST:PORT" or "https://HOST:PORT". */
static bool take_url(char **urls, size_t count, struct bw_replica_member *out)
{
    const char *url = count == 1 ? urls[0] : "";
    const char *host = strncmp(url, "http://", 7) == 0    ? url + 7
                       : strncmp(url, "https://", 8) == 0 ? url + 8
                                                          : NULL;
    const char *colon = host ? strrchr(host, ':') : NULL;
    uint64_t port = 0;
    if (!colon || colon == host || strcspn(host, "/?#@ ") != strlen(host) ||
        bw_text_number(colon + 1, strlen(colon + 1), 65535, &port) != 0 || port == 0)
        return false;
    bool brackets = host[0] == '[' && colon[-1] == ']';
    size_t length = (size_t)(colon - host) - (brackets ? 2 : 0);
    if (length == 0 || length > BW_REPLICA_HOST_MAX)
        return false;
    snprintf(out->host, sizeof out->host, "%.*s", (int)length, host + brackets);
    out->port = (uint16_t)port;
    return true;
}

/* Returns true if another member has this address. */
static bool is_taken(const struct bw_replica *replica, const struct bw_replica_member *wanted)
{
    struct bw_replica_member members[BW_REPLICA_NODES];
    uint32_t voters, count = bw_replica_members(replica, members, &voters);
    for (uint32_t i = 0; i < count; i++)
        if (members[i].id != wanted->id && members[i].port == wanted->port &&
            strcmp(members[i].host, wanted->host) == 0)
            return true;
    return false;
}

/* Returns false after ending the call. */
static bool take_address(struct bw_call *call, char **urls, size_t count,
                         struct bw_replica_member *out)
{
    if (!take_url(urls, count, out))
        bw_call_end(call, BW_CODE_INVALID, "etcdserver: given member URLs are invalid");
    else if (is_taken(bw_service_replica(call->service), out))
        bw_call_end(call, BW_CODE_PRECONDITION, "etcdserver: Peer URLs already exists");
    return !call->ended;
}

static bool take_id(struct bw_call *call, uint64_t id, struct bw_member_change *change)
{
    change->member.id = id <= UINT16_MAX ? (bw_node)id : BW_NODE_NONE;
    if (change->member.id == BW_NODE_NONE)
        refuse(call, 0, BW_ENOTMEMBER);
    return !call->ended;
}

struct request { /* the request while the caller's rights are confirmed */
    struct bw_member_change change;
    void (*done)(struct bw_call *call, int64_t number, bw_time id);
};

static void confirmed(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    const struct request *request = call->state;
    struct bw_wait *wait = bw_service_wait(
        call, bw_replica_change(bw_service_replica(call->service), &request->change));
    (void)number;
    (void)ttl_ns;
    if (!wait)
        return;
    wait->answered = request->done;
    wait->failed = refuse;
}

/* The registry does not hold the members, so the log cannot check the caller's rights. A quorum
 * read makes sure that the users known here are current. */
static void ask(struct bw_call *call, const struct bw_member_change *change,
                void (*done)(struct bw_call *call, int64_t number, bw_time id))
{
    struct request *request = call->state ? NULL : malloc(sizeof *request);
    if (!request) {
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: too many requests");
        return;
    }
    *request = (struct request){.change = *change, .done = done};
    call->state = request;
    bw_service_read(call, confirmed);
}

void bw_cluster_change_gone(struct bw_call *call)
{
    free(call->state);
    call->state = NULL;
}

static void added(struct bw_call *call, int64_t number, bw_time id)
{
    Api__MemberAddResponse out = API__MEMBER_ADD_RESPONSE__INIT;
    (void)number;
    out.members = bw_cluster_list(call->service, &out.n_members);
    for (size_t i = 0; i < out.n_members; i++)
        if (out.members[i]->id == (uint64_t)id)
            out.member = out.members[i];
    BW_SERVICE_ANSWER(call, out);
}

void bw_cluster_add(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__MemberAddRequest *in = (const Api__MemberAddRequest *)message;
    struct bw_member_change change = {.op = BW_MEMBER_ADD, .member.wants_vote = !in->islearner};
    if (take_address(call, in->peerurls, in->n_peerurls, &change.member))
        ask(call, &change, added);
}

static void removed(struct bw_call *call, int64_t number, bw_time id)
{
    Api__MemberRemoveResponse out = API__MEMBER_REMOVE_RESPONSE__INIT;
    (void)number;
    (void)id;
    out.members = bw_cluster_list(call->service, &out.n_members);
    BW_SERVICE_ANSWER(call, out);
}

void bw_cluster_remove(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__MemberRemoveRequest *in = (const Api__MemberRemoveRequest *)message;
    struct bw_member_change change = {.op = BW_MEMBER_REMOVE};
    if (take_id(call, in->id, &change))
        ask(call, &change, removed);
}

static void updated(struct bw_call *call, int64_t number, bw_time id)
{
    Api__MemberUpdateResponse out = API__MEMBER_UPDATE_RESPONSE__INIT;
    (void)number;
    (void)id;
    out.members = bw_cluster_list(call->service, &out.n_members);
    BW_SERVICE_ANSWER(call, out);
}

void bw_cluster_update(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__MemberUpdateRequest *in = (const Api__MemberUpdateRequest *)message;
    struct bw_member_change change = {.op = BW_MEMBER_UPDATE};
    if (take_id(call, in->id, &change) &&
        take_address(call, in->peerurls, in->n_peerurls, &change.member))
        ask(call, &change, updated);
}

static void promoted(struct bw_call *call, int64_t number, bw_time id)
{
    Api__MemberPromoteResponse out = API__MEMBER_PROMOTE_RESPONSE__INIT;
    (void)number;
    (void)id;
    out.members = bw_cluster_list(call->service, &out.n_members);
    BW_SERVICE_ANSWER(call, out);
}

void bw_cluster_promote(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__MemberPromoteRequest *in = (const Api__MemberPromoteRequest *)message;
    struct bw_member_change change = {.op = BW_MEMBER_PROMOTE};
    if (take_id(call, in->id, &change))
        ask(call, &change, promoted);
}
