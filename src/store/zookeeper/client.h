/* One ZooKeeper session on the loop, by the single-threaded client library.
 *
 * Model: the servers keep a session for `granted_ms` after they last received something from it,
 * across connections. So a lost connection is not a lost session:
 *   - `lost`: the connection ended; watches and pending replies are gone.
 *   - `expired`: the server reported that the session expired, or this client abandoned it because
 *     no server answered for a whole TTL. In the second case its nodes may still exist for a while.
 *
 * Each connection uses its own library handle, which gets the session's id and password. Otherwise
 * the library would restore all watches in one packet, and a server may reject that packet for its
 * size every time.
 *
 * The client sets its own timeouts, shorter than the kernel's and the library's. It ends a
 * connection attempt after TTL/8 and a connection without reply after TTL/6, and then tries the
 * next server. */
#ifndef BW_STORE_ZOOKEEPER_CLIENT_H
#define BW_STORE_ZOOKEEPER_CLIENT_H

#include "core/base/rng.h"
#include "store/zookeeper/frame.h"
#include "store/zookeeper/hosts.h"

#include <zookeeper/zookeeper.h>

#define BW_ZK_MULTI_MAX 3u

/* A reply. Which fields are set depends on the call. `rc` is the library's return code. */
struct bw_zk_reply {
    int rc;
    const char *text;
    int length;
    const struct Stat *stat;
    const struct String_vector *names;
    const zoo_op_result_t *results; /* one per operation of a multi */
};

typedef void (*bw_zk_done)(void *context, const struct bw_zk_reply *reply);

struct bw_zk_client;

struct bw_zk_hooks {
    void *context;
    void (*ready)(struct bw_zk_client *client);
    void (*lost)(struct bw_zk_client *client);
    void (*expired)(struct bw_zk_client *client);
    /* Called every TTL/8. Returns true if nodes exist that require the client to send a sign of
     * life. */
    bool (*tick)(struct bw_zk_client *client);
    /* The watch with this number fired. */
    void (*changed)(struct bw_zk_client *client, uint64_t number);
};

struct bw_zk_socket; /* the library's connection, polled by libuv */

struct bw_zk_client {
    uv_loop_t *loop;
    struct bw_zk_hooks hooks;
    const char *auth;             /* "USER:PASSWORD" for the digest scheme, or NULL; borrowed */
    const struct ACL_vector *acl; /* ACL of created nodes; borrowed */
    bw_time ttl_ns;
    int wanted_ms, granted_ms;
    struct bw_zk_hosts hosts;
    struct bw_rng rng;
    uv_timer_t timer;
    zhandle_t *zh; /* NULL: not connected */
    struct bw_zk_socket *socket;
    clientid_t id;
    clientid_t abandoned; /* the last session this client abandoned; 0: none, or expired */
    uint64_t generation;  /* number of sessions so far */
    bool ready, lost, bad_reply, closed;
    bool failed;    /* all servers failed since the client was last ready */
    unsigned first; /* index of the server to try first */
    struct bw_zk_call *first_call, *last_call; /* calls without a reply, oldest first */
    struct bw_zk_call *refused_calls;          /* calls that the library may still answer */
    unsigned pending;
    uint64_t answers;     /* number of replies received */
    unsigned char *frame; /* the next frame, checked before the library reads it */
    size_t frame_size;
    bool passing; /* the library is reading a large frame */
    /* Times of uv_now(), in ms. */
    uint64_t pending_since, received_at, seen_at, tried_at, open_at, retry_at, rest_at, library_at,
        tick_at;
    uint64_t backoff;
    char why[BW_WHY_MAX + 1]; /* why the client is not ready */
    void (*on_closed)(struct bw_zk_client *client);
};

/* Returns the session timeout for a lease of `ttl_ns`: 1.5 times the TTL.
 *
 * The added half covers the crash of a server. Such a server loses the pings that it had not yet
 * reported to the ensemble's leader. So the leader may believe that the client was silent for the
 * time since the server's last report plus TTL/8, the client's ping interval. Servers report twice
 * per tick, and a tick is at most half of the shortest session. */
int bw_zk_session_ms(bw_time ttl_ns);

int bw_zk_client_open(struct bw_zk_client *client, const struct bw_url *url, uv_loop_t *loop,
                      bw_time ttl_ns, const struct bw_zk_hooks *hooks);
/* With `end`, the client closes the session at the server, and its nodes are removed at once.
 * Otherwise they exist until the session expires. `closed` is called from the loop when the struct
 * may be freed. */
void bw_zk_client_close(struct bw_zk_client *client, bool end,
                        void (*closed)(struct bw_zk_client *client));
/* Sends calls that were made outside of a hook. */
void bw_zk_client_flush(struct bw_zk_client *client);

/* Calls. `done` is called once per call, also when the connection is lost (ZCONNECTIONLOSS,
 * ZCLOSING: the call may have taken effect). A call returns ZOK, or an error if it sent nothing and
 * `done` is not called. `watch` 0: no watch. */
int bw_zk_sync(struct bw_zk_client *client, const char *path, bw_zk_done done, void *context);
int bw_zk_exists(struct bw_zk_client *client, const char *path, uint64_t watch, bw_zk_done done,
                 void *context);
int bw_zk_get(struct bw_zk_client *client, const char *path, bw_zk_done done, void *context);
int bw_zk_children(struct bw_zk_client *client, const char *path, uint64_t watch, bw_zk_done done,
                   void *context);
int bw_zk_create(struct bw_zk_client *client, const char *path, const char *data, int mode,
                 bw_zk_done done, void *context);
int bw_zk_delete(struct bw_zk_client *client, const char *path, bw_zk_done done, void *context);
int bw_zk_multi(struct bw_zk_client *client, const zoo_op_t *ops, int count, bw_zk_done done,
                void *context);

/* Internal: ends the connection in the next turn of the loop, and keeps the session. */
void bw_zk_client_break(struct bw_zk_client *client);

/* Internal: frees the calls for which the library returned an error. Its handle is closed. */
void bw_zk_calls_free_refused(struct bw_zk_client *client);

/* Internal: describes the form of the next expected reply. */
void bw_zk_calls_expect(const struct bw_zk_client *client, struct bw_zk_expected *expected);

#endif
