/* Ends a session that this process has given up.
 *
 * After a whole TTL without a connection no lead of the session counts any more, and a new session
 * is begun; but servers that were stopped or restarted let the old one live for its whole time-out
 * again, and its nodes stand in everybody's way. So once the new session is there, which proves
 * that a server hears us and we hear it, the old one is taken up a last time and ended. If that
 * does not work within a TTL, it is left to expire: trying for ever would keep it alive. */
#include "store/zookeeper/state.h"

#include <string.h>

static void on_closed(struct bw_zk_client *old)
{
    struct bw_zk_session *session = old->hooks.context;
    session->burying = false;
}

/* The server has it: its nodes go with it. */
static void on_ready(struct bw_zk_client *old)
{
    bw_zk_client_close(old, true, on_closed);
}

/* It has expired, or the TTL is over. */
static void on_expired(struct bw_zk_client *old)
{
    bw_zk_client_close(old, false, on_closed);
}

static void on_lost(struct bw_zk_client *old)
{
    (void)old;
}

static bool on_tick(struct bw_zk_client *old)
{
    (void)old;
    return false;
}

static void on_changed(struct bw_zk_client *old, uint64_t number)
{
    (void)old;
    (void)number;
}

void bw_zk_bury(struct bw_zk_session *session)
{
    struct bw_zk_client *client = &session->client;
    struct bw_zk_hooks hooks = {.context = session,
                                .ready = on_ready,
                                .lost = on_lost,
                                .expired = on_expired,
                                .tick = on_tick,
                                .changed = on_changed};
    clientid_t id = client->given_up;
    if (id.client_id == 0 || session->burying)
        return;
    memset(&client->given_up, 0, sizeof client->given_up);
    if (bw_zk_client_open(&session->old, &session->store->url, session->store->loop, client->ttl_ns,
                          &hooks) != 0)
        return;
    session->old.id = id;
    session->old.first = client->first - 1; /* the server that the new session has */
    session->burying = true;
}

void bw_zk_bury_stop(struct bw_zk_session *session, void (*closed)(struct bw_zk_client *client))
{
    if (session->old.closed)
        session->old.on_closed = closed;
    else
        bw_zk_client_close(&session->old, false, closed);
}
