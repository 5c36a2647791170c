/* What the dashboard shows about this node: a stream with one message a second, and one at once
 * when the leader changes.
 *
 * The timer exists only while a dashboard is open. Each message is built once per observer, because
 * only admins see the addresses of clients. A client that does not read misses messages; the next
 * one contains the current state. */
#include "core/registry/alarm.h"
#include "serve/api/state.h"
#include "serve/auth/auth.h"

#include <stdlib.h>
#include <string.h>

#ifndef BW_VERSION
#define BW_VERSION "unknown"
#endif

#define OBSERVERS_MAX 64u
#define CLIENTS_MAX   50u
#define PERIOD_MS     1000u

struct observer {
    struct bw_call *call;
    struct bw_dashboard *dashboard;
    struct observer *next, **link;
};

struct bw_dashboard {
    struct bw_service *service;
    uv_timer_t timer;
    struct observer *first;
    uint32_t count;
};

/* ---- the leader ---- */

static void on_tick(uv_timer_t *timer);

/* The message is sent from the loop, not from within a step of the replica. */
static void hurry(struct bw_service *service)
{
    if (service->dashboard)
        uv_timer_start(&service->dashboard->timer, on_tick, 0, PERIOD_MS);
}

void bw_dashboard_note_leader(struct bw_service *service, bw_node leader)
{
    struct leader_view *view = &service->leader;
    uint64_t now = uv_hrtime();
    if (leader == view->leader)
        return;
    if (leader == BW_NODE_NONE) {
        view->lost = now;
    } else {
        uint64_t lost = view->lost ? view->lost : now; /* one leader directly after another */
        bool had_one = view->lost || view->leader != BW_NODE_NONE;
        view->hand_over = had_one ? (now > lost ? now - lost : 1) : 0;
        view->found = !had_one;
        view->since = now;
        view->lost = 0;
    }
    view->leader = leader;
    hurry(service);
}

static void put_leader(Api__DashboardResponse *out, const struct leader_view *view)
{
    uint64_t now = uv_hrtime();
    out->leader = view->leader;
    out->handoverns = (int64_t)view->hand_over;
    if (view->leader != BW_NODE_NONE) {
        out->leaderforns = (int64_t)(now - view->since);
        out->leaderforlonger = view->found;
    } else if (view->lost) {
        out->leaderlessforns = (int64_t)(now - view->lost);
    }
}

/* ---- nodes and clients ---- */

static Api__DashboardNode *to_node(struct bw_service *service,
                                   const struct bw_replica_member *member, bw_node self)
{
    Api__DashboardNode *out = bw_service_scratch(service, sizeof *out);
    char *name = bw_service_scratch(service, sizeof member->name);
    char *client = bw_service_scratch(service, sizeof member->client);
    struct bw_replica_peer peer = {.connected = true};
    if (member->id != self)
        bw_replica_peer(bw_service_replica(service), member->id, &peer);
    memcpy(name, member->name, sizeof member->name);
    memcpy(client, member->client, sizeof member->client);
    api__dashboard_node__init(out);
    out->id = member->id;
    out->name = name;
    out->clienturl = client;
    out->connected = peer.connected;
    out->matchindex = peer.match;
    out->roundtripns = peer.round_trip_ns;
    out->protocol = member->version;
    return out;
}

static void put_nodes(struct bw_service *service, Api__DashboardResponse *out, bw_node self)
{
    struct bw_replica_member members[BW_REPLICA_NODES];
    uint32_t voters, count = bw_replica_members(bw_service_replica(service), members, &voters);
    out->nodes = bw_service_scratch(service, (count + 1) * sizeof(Api__DashboardNode *));
    for (uint32_t i = 0; i < count; i++) {
        out->nodes[i] = to_node(service, &members[i], self);
        out->nodes[i]->islearner = i >= voters;
    }
    out->n_nodes = count;
}

static void put_clients(struct bw_service *service, Api__DashboardResponse *out)
{
    struct bw_client_view *views =
        bw_service_scratch(service, CLIENTS_MAX * sizeof(struct bw_client_view));
    uint32_t count = 0;
    if (service->list_clients)
        count = service->list_clients(service->clients_context, views, CLIENTS_MAX);
    out->clientcount = count;
    if (!out->admin)
        return;
    out->n_clients = count < CLIENTS_MAX ? count : CLIENTS_MAX;
    out->clients = bw_service_scratch(service, CLIENTS_MAX * sizeof(Api__DashboardClient *));
    for (size_t i = 0; i < out->n_clients; i++) {
        Api__DashboardClient *client = bw_service_scratch(service, sizeof *client);
        api__dashboard_client__init(client);
        client->address = views[i].address;
        client->user = views[i].user;
        client->protocol = (char *)views[i].protocol;
        client->tls = views[i].tls;
        out->clients[i] = client;
    }
}

/* ---- the message ---- */

static void put_content(struct bw_service *service, Api__DashboardResponse *out)
{
    struct bw_registry_status registry;
    bw_registry_status(bw_service_registry(service), &registry);
    out->keys = registry.keys;
    out->leases = registry.leases;
    out->bytes = registry.bytes;
    out->quota = bw_service_quota(service);
    out->watchers = bw_watches_count(bw_service_watches(service));
}

static void put_rights(struct bw_call *call, Api__DashboardResponse *out)
{
    const struct bw_registry *registry = bw_service_registry(call->service);
    struct bw_requester by = bw_auth_by(call);
    struct bw_users_status users;
    bw_registry_users_status(registry, &users);
    out->authenabled = users.enabled;
    out->admin = bw_registry_authorize(registry, &by, BW_ROLE_ADMIN) == BW_REFUSED_NONE;
}

static void send_state(struct bw_call *call)
{
    struct bw_service *service = call->service;
    Api__DashboardResponse out = API__DASHBOARD_RESPONSE__INIT;
    Api__Header header;
    char *errors[BW_ALARMS_MAX];
    struct bw_replica_status status;
    struct bw_replica_figures figures;
    bw_replica_status(bw_service_replica(service), &status);
    bw_replica_figures(bw_service_replica(service), &figures);
    bw_service_scratch_clear(service);
    bw_service_header(service, &header, 0);
    out.header = &header;
    out.version = (char *)BW_VERSION;
    out.commitindex = status.commit;
    out.appliedindex = status.applied;
    out.leaderchanges = status.leader_changes;
    out.syncs = figures.syncs.count;
    out.syncns = figures.syncs.sum_ns;
    put_rights(call, &out);
    put_leader(&out, &service->leader);
    put_nodes(service, &out, status.self);
    put_clients(service, &out);
    put_content(service, &out);
    out.n_errors = bw_service_alarm_texts(service, errors);
    out.errors = errors;
    bw_call_send(call, &out.base);
}

/* ---- observers ---- */

static void on_tick(uv_timer_t *timer)
{
    struct bw_dashboard *dashboard = timer->data;
    for (struct observer *observer = dashboard->first; observer; observer = observer->next) {
        if (!observer->call->ended && bw_auth_may(observer->call) &&
            !bw_call_is_full(observer->call))
            send_state(observer->call);
    }
}

static struct bw_dashboard *dashboard_of(struct bw_service *service)
{
    if (service->dashboard)
        return service->dashboard;
    struct bw_dashboard *dashboard = calloc(1, sizeof *dashboard);
    if (!dashboard)
        return NULL;
    dashboard->service = service;
    uv_timer_init(bw_service_loop(service), &dashboard->timer);
    dashboard->timer.data = dashboard;
    uv_timer_start(&dashboard->timer, on_tick, PERIOD_MS, PERIOD_MS);
    service->dashboard = dashboard;
    return dashboard;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void remove_observer(struct observer *observer)
{
    struct bw_dashboard *dashboard = observer->dashboard;
    *observer->link = observer->next;
    if (observer->next)
        observer->next->link = observer->link;
    free(observer);
    if (--dashboard->count > 0)
        return;
    dashboard->service->dashboard = NULL;
    uv_close((uv_handle_t *)&dashboard->timer, on_closed);
}

void bw_dashboard_observe(struct bw_call *call, const ProtobufCMessage *message)
{
    struct bw_dashboard *dashboard = call->service->dashboard;
    (void)message;
    if (dashboard && dashboard->count >= OBSERVERS_MAX) {
        bw_call_end(call, BW_CODE_EXHAUSTED, "bellwether: too many open dashboards");
        return;
    }
    struct observer *observer = calloc(1, sizeof *observer);
    dashboard = observer ? dashboard_of(call->service) : NULL;
    if (!dashboard) {
        free(observer);
        bw_call_end(call, BW_CODE_EXHAUSTED, BW_NO_MEMORY);
        return;
    }
    *observer = (struct observer){
        .call = call, .dashboard = dashboard, .next = dashboard->first, .link = &dashboard->first};
    if (observer->next)
        observer->next->link = &observer->next;
    dashboard->first = observer;
    dashboard->count++;
    call->state = observer;
    send_state(call);
}

void bw_dashboard_gone(struct bw_call *call)
{
    if (call->state)
        remove_observer(call->state);
    call->state = NULL;
}
