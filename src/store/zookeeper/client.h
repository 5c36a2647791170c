/* One ZooKeeper session on the loop, by the single-threaded client library.
 *
 * Model: a session lives at the servers for `granted_ms` after they last heard of it, whatever
 * becomes of its connections. So losing a connection is not losing the session: `lost` says that
 * watches and answers under way are gone, `expired` that the session is, by the server's own word,
 * or given up because no server answered for a whole TTL; its nodes may then still stand a while.
 *
 * Every connection is a handle of the library of its own, given the id and password of the session:
 * the library would otherwise put all watches back in one packet, which a server may refuse for its
 * size, for ever. Time-outs are ours, not the kernel's or the library's: a connection attempt is
 * given up after TTL/8 and a server that does not answer after TTL/6, and the next one is asked. */
#ifndef BW_STORE_ZOOKEEPER_CLIENT_H
#define BW_STORE_ZOOKEEPER_CLIENT_H

#include "core/base/rng.h"
#include "store/zookeeper/frame.h"
#include "store/zookeeper/hosts.h"

#include <zookeeper/zookeeper.h>

#define BW_ZK_MULTI_MAX 3u

/* What came back; which fields are set follows from what was asked. rc is the library's code. */
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
    /* Every TTL/8. True: nodes stand for which the servers must hear of the session. */
    bool (*tick)(struct bw_zk_client *client);
    /* A watch set with this number fired. */
    void (*changed)(struct bw_zk_client *client, uint64_t number);
};

struct bw_zk_socket; /* the library's connection as libuv polls it */

struct bw_zk_client {
    uv_loop_t *loop;
    struct bw_zk_hooks hooks;
    const char *auth;             /* "USER:PASSWORD" for the digest scheme, or NULL; borrowed */
    const struct ACL_vector *acl; /* of what is created; borrowed */
    bw_time ttl_ns;
    int wanted_ms, granted_ms;
    struct bw_zk_hosts hosts;
    struct bw_rng rng;
    uv_timer_t timer;
    zhandle_t *zh; /* NULL: between two connections */
    struct bw_zk_socket *socket;
    clientid_t id;
    clientid_t given_up; /* the last session that ended by our own count; 0: none, or expired */
    uint64_t generation; /* counts sessions */
    bool ready, lost, lied, closed;
    bool failed;    /* all servers were tried in vain since it was ready */
    unsigned first; /* the server asked first */
    struct bw_zk_call *first_call, *last_call; /* without an answer, oldest first */
    unsigned pending;
    uint64_t answers;     /* that came, ever */
    unsigned char *frame; /* what comes next, as looked at before the library reads it */
    size_t frame_size;
    bool passing; /* it is a large one, and the library is reading it */
    /* Instants of uv_now(), ms. */
    uint64_t pending_since, heard_at, seen_at, tried_at, open_at, retry_at, rest_at, library_at,
        tick_at;
    uint64_t backoff;
    char why[BW_WHY_MAX + 1]; /* why it is not ready */
    void (*on_closed)(struct bw_zk_client *client);
};

/* The time-out of a session under which a holder may count on a lease of `ttl_ns`: half as much
 * again. A server that dies takes with it what it had not yet told the leader about the sessions it
 * served: at most what came since the last report (reports go out twice a tick, and a tick is at
 * most half of the shortest session) and since the client's own last sign of life, which comes
 * every TTL/8. */
int bw_zk_session_ms(bw_time ttl_ns);

int bw_zk_client_open(struct bw_zk_client *client, const struct bw_url *url, uv_loop_t *loop,
                      bw_time ttl_ns, const struct bw_zk_hooks *hooks);
/* `end`: tell the server that the session is over, so that its nodes go at once; else they stand
 * until it expires. `closed` is called from the loop when the struct may be freed. */
void bw_zk_client_close(struct bw_zk_client *client, bool end,
                        void (*closed)(struct bw_zk_client *client));
/* After calls from outside of a hook: see to it that they are sent. */
void bw_zk_client_flush(struct bw_zk_client *client);

/* Calls; answered once by `done`, also when the connection goes (ZCONNECTIONLOSS, ZCLOSING: it may
 * have been carried out). They return ZOK, or an error if nothing was sent and nothing will come.
 * `watch` 0: none. */
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

/* For the client: what the next answer must look like. */
void bw_zk_calls_expect(const struct bw_zk_client *client, struct bw_zk_expected *expected);

#endif
