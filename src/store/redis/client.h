/* One connection to one Redis server: name lookup, TCP, optional TLS, commands out, replies in
 * (parsed by hiredis' reader).
 *
 * A connection is used once. When it ends, it reports why, and the owner opens a new one. The owner
 * also sets all time limits: a connection never times out by itself.
 *
 * Limits on data from the server: a reply has at most REDIS_REPLY_BYTES_MAX bytes and
 * REDIS_REPLY_ELEMENTS_MAX elements. At most REDIS_UNSENT_MAX bytes wait to be written. */
#ifndef BW_STORE_REDIS_CLIENT_H
#define BW_STORE_REDIS_CLIENT_H

#include "store/redis/tls.h"

#include <hiredis/hiredis.h>
#include <uv.h>

#define REDIS_REPLY_BYTES_MAX    (8u << 20) /* a list of 1,000 candidates with long values fits */
#define REDIS_REPLY_ELEMENTS_MAX 65536
#define REDIS_UNSENT_MAX         (64u << 20)

struct redis_wire_events {
    void *context;
    void (*ready)(void *context);
    /* The reply is freed after the callback returns. */
    void (*reply)(void *context, const redisReply *reply);
    /* The connection ended; no further event follows. Never called from within a call of the owner.
     */
    void (*end)(void *context, const char *why);
};

struct redis_wire;

/* Returns NULL if memory is exhausted. `tls` is NULL or outlives the connection. */
struct redis_wire *redis_wire_open(uv_loop_t *loop, const char *host, uint16_t port,
                                   struct redis_tls_context *tls,
                                   const struct redis_wire_events *events);
/* Call only after `ready`. Returns 0 if the bytes were written or queued; BW_ELIMIT or BW_EIO if
 * not. Then a part may have been sent, so the owner must close the connection. */
int redis_wire_send(struct redis_wire *wire, const char *bytes, size_t length);
/* No event follows. The connection frees itself from the loop. */
void redis_wire_close(struct redis_wire *wire);

#endif
