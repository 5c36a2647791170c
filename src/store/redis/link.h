/* Keeps one Redis instance connected. A link performs the handshake (AUTH, SELECT, ROLE, INFO),
 * sends commands in order, and reconnects after a jittered, bounded backoff.
 *
 * Guarantees:
 *   - Each accepted command is answered exactly once, from the loop, unless the caller forgets it.
 *     The answer is a reply, or no reply and whether the command had been sent.
 *   - While a connection attempt runs, commands wait for it. During the backoff they are rejected.
 *   - If a command cannot be sent, the connection ends in the next turn of the loop, and every
 *     unanswered command ends without a reply.
 *   - An attempt fails after `timeout_ms`. A connection ends if the server owes a reply and stays
 *     silent for `timeout_ms`. The link never waits for a kernel timeout.
 *
 * With sentinels, each attempt first asks them for the current master. */
#ifndef BW_STORE_REDIS_LINK_H
#define BW_STORE_REDIS_LINK_H

#include "core/base/rng.h"
#include "store/redis/client.h"
#include "store/redis/settings.h"

#define REDIS_COMMANDS_MAX 200000u /* per link, waiting or unanswered */

struct redis_link;
struct redis_sentinel;

struct redis_command {
    struct redis_link *link;
    struct redis_command *next;
    void (*answer)(struct redis_command *command, const redisReply *reply, bool sent);
    void *context; /* NULL after redis_command_forget: `answer` is not called */
    unsigned node; /* number of the instance */
    uint64_t sent_ms;
    size_t length;
    char bytes[];
};

struct redis_link_events {
    void *context;
    void (*up)(struct redis_link *link);
    void (*down)(struct redis_link *link); /* also after a failed attempt; the reason is in `why` */
    /* Pub/sub message: channel and payload. NULL: this link does not subscribe. */
    void (*message)(struct redis_link *link, const redisReply *channel, const redisReply *payload);
};

struct redis_link {
    uv_loop_t *loop;
    struct redis_link_events events;
    struct bw_url_host host;
    const struct redis_login *login;
    struct redis_tls_context *tls;
    struct redis_sentinel *sentinel; /* NULL: connect to `host` */
    bool up, connecting, closed;
    bool overdue_once;         /* the last check found a reply overdue */
    const char *write_failure; /* why a command could not be sent; NULL: all were sent */
    unsigned node;             /* the owner's number of this instance */
    struct redis_wire *wire;
    struct redis_command *waiting, **waiting_end;       /* until the connection is up */
    struct redis_command *unanswered, **unanswered_end; /* in sending order */
    uint32_t count;
    unsigned handshake_pending;   /* handshake commands without a reply */
    uint64_t received_ms, due_ms; /* time of the last reply; when the timer fires */
    uint64_t generation;          /* number of connections that came up */
    uint64_t started_ms;          /* server start on the loop's clock; 0: long ago or unknown */
    unsigned timeout_ms, pause_ms;
    struct bw_rng rng;
    uv_timer_t timer;
    void (*on_closed)(struct redis_link *link);
    char why[BW_WHY_MAX + 1];   /* why the link is down */
    bool denied;                /* the link is down because the server denied access */
    char about[BW_WHY_MAX + 1]; /* server version and settings; "": not known yet */
};

/* The caller owns the struct and has set `loop` to `sentinel`, `node` and `timeout_ms`. Starts to
 * connect. */
void redis_link_open(struct redis_link *link, uint64_t seed);
/* Drops all commands without an answer. `closed` is called from the loop. */
void redis_link_close(struct redis_link *link, void (*closed)(struct redis_link *link));
/* Returns NULL if the command was rejected and certainly not sent; the reason is in link->why. */
struct redis_command *redis_link_send(struct redis_link *link, unsigned count,
                                      const char *const *words, const size_t *lengths,
                                      void (*answer)(struct redis_command *command,
                                                     const redisReply *reply, bool sent),
                                      void *context);
/* True if the server's error means that access is denied. A retry would fail the same way. */
bool redis_is_denial(const char *error);
/* The caller no longer needs the answer. The command may still take effect. */
void redis_command_forget(struct redis_command *command);
/* Ends the connection (for example because the server became a replica) and reconnects. */
void redis_link_drop(struct redis_link *link, const char *why);
/* Shortens the timeout to `ms`; never lengthens it. */
void redis_link_limit_timeout(struct redis_link *link, unsigned ms);

#endif
