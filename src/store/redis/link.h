/* Keeps one Redis instance connected: greets it (AUTH, SELECT, ROLE, INFO), carries commands in
 * order, and connects again by itself with a jittered, bounded pause.
 *
 * A command is answered exactly once, from the loop, unless it is forgotten: with a reply, or
 * without one and whether it had been sent. While an attempt to connect is under way commands wait
 * for it; while it pauses they are not taken. Nobody waits for a kernel's time-out: an attempt, and
 * a server that owes an answer and is silent, have `patience_ms`.
 *
 * With sentinels, each attempt asks them first who the master is. */
#ifndef BW_STORE_REDIS_LINK_H
#define BW_STORE_REDIS_LINK_H

#include "core/base/rng.h"
#include "store/redis/client.h"
#include "store/redis/settings.h"

#define REDIS_COMMANDS_MAX 200000u /* of one link, waiting or unanswered */

struct redis_link;
struct redis_sentinel;

struct redis_command {
    struct redis_link *link;
    struct redis_command *next;
    void (*answer)(struct redis_command *command, const redisReply *reply, bool sent);
    void *context; /* NULL after it was forgotten: `answer` is not called then */
    unsigned node; /* the owner's */
    uint64_t sent_ms;
    size_t length;
    char bytes[];
};

struct redis_link_events {
    void *context;
    void (*up)(struct redis_link *link);
    void (*down)(struct redis_link *link); /* also when an attempt failed; `why` says it */
    /* A subscriber's message: channel and payload. NULL: this link does not subscribe. */
    void (*message)(struct redis_link *link, const redisReply *channel, const redisReply *payload);
};

struct redis_link {
    uv_loop_t *loop;
    struct redis_link_events events;
    struct bw_url_host host;
    const struct redis_login *login;
    struct redis_tls_context *tls;
    struct redis_sentinel *sentinel; /* NULL: `host` is where to connect */
    bool up, connecting, closed;
    bool doubted;  /* it was silent for too long when the loop last looked */
    unsigned node; /* the owner's number of it */
    struct redis_wire *wire;
    struct redis_command *waiting, **waiting_end;       /* for the connection */
    struct redis_command *unanswered, **unanswered_end; /* in the order they were sent */
    uint32_t count;
    unsigned greetings;        /* not yet answered */
    uint64_t heard_ms, due_ms; /* the last answer; the timer */
    uint64_t generation;       /* of connections that were up */
    uint64_t born_ms; /* when the server started, on the loop's clock; 0: long ago or unknown */
    unsigned patience_ms, pause_ms;
    struct bw_rng rng;
    uv_timer_t timer;
    void (*on_closed)(struct redis_link *link);
    char why[BW_WHY_MAX + 1];   /* why it is down */
    bool denied;                /* ... the server does not let us in */
    char about[BW_WHY_MAX + 1]; /* what the server says of itself; "": nothing yet */
};

/* The struct is the caller's and filled from `loop` to `sentinel`, with node and patience; starts
 * to connect. */
void redis_link_open(struct redis_link *link, uint64_t seed);
/* Forgets all commands; `closed` is called from the loop. */
void redis_link_close(struct redis_link *link, void (*closed)(struct redis_link *link));
/* NULL: not taken, and surely not sent (link->why). */
struct redis_command *redis_link_send(struct redis_link *link, unsigned count,
                                      const char *const *words, const size_t *lengths,
                                      void (*answer)(struct redis_command *command,
                                                     const redisReply *reply, bool sent),
                                      void *context);
/* Does an error of the server say that we may not? It will say so again. */
bool redis_is_denial(const char *error);
/* Its answer is of no use any more; its effect may still happen. */
void redis_command_forget(struct redis_command *command);
/* The connection is of no use (the server became a replica): connect anew. */
void redis_link_drop(struct redis_link *link, const char *why);
/* A shorter time-out than the one so far. */
void redis_link_patience(struct redis_link *link, unsigned ms);

#endif
