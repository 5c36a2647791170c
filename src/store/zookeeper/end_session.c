/* Closes a session that this process has abandoned.
 *
 * After a whole TTL without a connection, every leadership of the session is over, and the client
 * starts a new session. But servers that were stopped or restarted keep the old session for its
 * whole timeout again, and its nodes block the queue. So once the new session is ready, which
 * proves that a server is reachable, this code resumes the old session and closes it. If that fails
 * within one TTL, the old session is left to expire: further attempts would keep it alive. */
#include "store/zookeeper/state.h"

#include <string.h>

static void on_closed(struct bw_zk_client *old)
{
    struct bw_zk_session *session = old->hooks.context;
    session->ending_old = false;
}

/* The server closes the session and removes its nodes. */
static void on_ready(struct bw_zk_client *old)
{
    bw_zk_client_close(old, true, on_closed);
}

/* The session has expired, or the TTL is over. */
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

void bw_zk_end_old_session(struct bw_zk_session *session)
{
    struct bw_zk_client *client = &session->client;
    struct bw_zk_hooks hooks = {.context = session,
                                .ready = on_ready,
                                .lost = on_lost,
                                .expired = on_expired,
                                .tick = on_tick,
                                .changed = on_changed};
    clientid_t id = client->abandoned;
    if (id.client_id == 0 || session->ending_old)
        return;
    memset(&client->abandoned, 0, sizeof client->abandoned);
    if (bw_zk_client_open(&session->old, &session->store->url, session->store->loop, client->ttl_ns,
                          &hooks) != 0)
        return;
    session->old.id = id;
    session->old.first = client->first - 1; /* the server of the new session */
    session->ending_old = true;
}

void bw_zk_end_old_session_stop(struct bw_zk_session *session,
                                void (*closed)(struct bw_zk_client *client))
{
    if (session->old.closed)
        session->old.on_closed = closed;
    else
        bw_zk_client_close(&session->old, false, closed);
}
