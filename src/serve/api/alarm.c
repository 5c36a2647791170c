/* The quota of this node, and the method Alarm (core/registry/alarm.h).
 *
 * A node that gets a request which would exceed its quota refuses it, as etcd does, and proposes
 * the alarm: from that entry of the log on, every node refuses what needs space. Requests that are
 * in the log before it are still applied, so the content can exceed the quota by the requests in
 * progress. A node whose quota is exceeded by requests of other nodes, which have a larger quota,
 * proposes the alarm after it has applied them. */
#include "core/registry/alarm.h"
#include "os/journal.h"
#include "serve/api/state.h"
#include "serve/auth/auth.h"

#include <inttypes.h>
#include <stdio.h>

static bool is_raised(struct bw_service *service, uint64_t node)
{
    const struct bw_alarms *alarms = bw_registry_alarms(bw_service_registry(service));
    for (uint32_t i = 0; i < alarms->count; i++)
        if (alarms->nodes[i] == node)
            return true;
    return false;
}

/* No call waits for the entry. If it is lost, the next request proposes it again. */
static void raise_alarm(struct bw_service *service)
{
    struct bw_entry entry = {.kind = BW_ENTRY_ALARM,
                             .by = bw_registry_node_requester(bw_service_registry(service)),
                             .alarm = {.raised = true, .node = service->options.self}};
    if (service->raising || is_raised(service, service->options.self))
        return;
    service->raising = bw_replica_propose(service->replica, &entry);
    if (!service->raising)
        return;
    bw_print_line(
        BW_PRIORITY_WARNING,
        "bellwether serve: the content exceeds --quota-bytes (%" PRIu64
        "); puts and grants are refused until keys are deleted or compacted and the alarm is "
        "cleared (etcdctl alarm disarm)",
        service->options.quota);
}

void bw_service_alarm_ended(struct bw_service *service, uint64_t request)
{
    if (request == service->raising)
        service->raising = 0;
}

bool bw_service_has_space(struct bw_call *call, const struct bw_entry *entry)
{
    struct bw_service *service = call->service;
    uint64_t need = bw_entry_space(entry), quota = service->options.quota;
    struct bw_registry_status status;
    if (need == 0 || quota == 0)
        return true;
    bw_registry_status(bw_service_registry(service), &status);
    if (status.level < BW_REGISTRY_LEVEL_ALARMS || status.bytes + need <= quota)
        return true;
    raise_alarm(service);
    bw_service_refuse(call, BW_REFUSED_NO_SPACE);
    return false;
}

/* Not at every change: after the alarm was cleared, only more content raises it again. */
void bw_service_check_quota(struct bw_service *service)
{
    struct bw_registry_status status;
    bw_registry_status(bw_service_registry(service), &status);
    bool grew = status.bytes > service->bytes;
    service->bytes = status.bytes;
    if (grew && service->options.quota && status.bytes > service->options.quota &&
        status.level >= BW_REGISTRY_LEVEL_ALARMS)
        raise_alarm(service);
}

size_t bw_service_alarm_texts(struct bw_service *service, char **texts)
{
    enum { TEXT = 64 };
    const struct bw_alarms *alarms = bw_registry_alarms(bw_service_registry(service));
    for (uint32_t i = 0; i < alarms->count; i++) {
        texts[i] = bw_service_scratch(service, TEXT);
        snprintf(texts[i], TEXT, "memberID:%" PRIu64 " alarm:NOSPACE ", alarms->nodes[i]);
    }
    return alarms->count;
}

/* ---- the method ---- */

static void answer(struct bw_call *call, const uint64_t *nodes, uint32_t count)
{
    Api__AlarmResponse out = API__ALARM_RESPONSE__INIT; /* no header, as in etcd 3.4 */
    Api__AlarmMember members[BW_ALARMS_MAX], *list[BW_ALARMS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        members[i] = (Api__AlarmMember)API__ALARM_MEMBER__INIT;
        members[i].memberid = nodes[i];
        members[i].alarm = API__ALARM_TYPE__NOSPACE;
        list[i] = &members[i];
    }
    out.alarms = list;
    out.n_alarms = count;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

static void on_listed(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    const struct bw_alarms *alarms = bw_registry_alarms(bw_service_registry(call->service));
    (void)number;
    (void)ttl_ns;
    answer(call, alarms->nodes, alarms->count);
}

static void on_raised(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                      enum bw_refusal refusal, const struct bw_results *results)
{
    (void)number;
    (void)results;
    if (refusal)
        bw_service_refuse(call, refusal);
    else
        answer(call, &entry->alarm.node, 1);
}

/* Like etcd, answers with the alarm if it was raised before the request; then `number` is not 0. */
static void on_cleared(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                       enum bw_refusal refusal, const struct bw_results *results)
{
    (void)results;
    if (refusal)
        bw_service_refuse(call, refusal);
    else
        answer(call, &entry->alarm.node, number != 0);
}

static void change(struct bw_call *call, uint64_t node, bool raised)
{
    struct bw_entry entry = {.kind = BW_ENTRY_ALARM, .alarm = {.raised = raised, .node = node}};
    if (!bw_auth_may_as(call, BW_ROLE_ADMIN))
        return; /* the log decides; this only keeps refused requests out of it */
    struct bw_proposal proposal = {.level = BW_REGISTRY_LEVEL_ALARMS,
                                   .what = "alarms",
                                   .applied = raised ? on_raised : on_cleared,
                                   .number = is_raised(call->service, node)};
    bw_service_propose_at_level(call, &proposal, &entry);
}

void bw_cluster_alarm(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__AlarmRequest *in = (const Api__AlarmRequest *)message;
    bool other = in->alarm != API__ALARM_TYPE__NOSPACE;
    switch ((int)in->action) {
    case API__ALARM_REQUEST__ALARM_ACTION__GET:
        if (other && in->alarm != API__ALARM_TYPE__NONE)
            answer(call, NULL, 0);
        else
            bw_service_read(call, on_listed);
        break;
    case API__ALARM_REQUEST__ALARM_ACTION__ACTIVATE:
        if (other)
            bw_call_end(call, BW_CODE_INVALID, "bellwether: only the alarm NOSPACE can be raised");
        else
            change(call, in->memberid, true);
        break;
    case API__ALARM_REQUEST__ALARM_ACTION__DEACTIVATE:
        if (other)
            answer(call, NULL, 0);
        else
            change(call, in->memberid, false);
        break;
    default:
        answer(call, NULL, 0);
    }
}
