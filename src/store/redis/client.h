/* One connection to one Redis server: the name looked up, TCP, TLS where wanted, commands out,
 * replies in by hiredis' reader. It lives once: when it ends it says why, and its owner opens
 * another. Time limits are the owner's: a wire never gives up by itself.
 *
 * Hostile bytes are bounded: a reply may have REDIS_REPLY_BYTES_MAX bytes and
 * REDIS_REPLY_ELEMENTS_MAX parts, what is not yet written REDIS_UNSENT_MAX. */
#ifndef BW_STORE_REDIS_WIRE_H
#define BW_STORE_REDIS_WIRE_H

#include "store/redis/tls.h"

#include <hiredis/hiredis.h>
#include <uv.h>

#define REDIS_REPLY_BYTES_MAX    (8u << 20) /* a list of 1,000 candidates with long values fits */
#define REDIS_REPLY_ELEMENTS_MAX 65536
#define REDIS_UNSENT_MAX         (64u << 20)

struct redis_wire_events {
    void *context;
    void (*ready)(void *context);
    /* The reply is freed after the call. */
    void (*reply)(void *context, const redisReply *reply);
    /* It is over; nothing more comes. Never from within a call of the owner's. */
    void (*end)(void *context, const char *why);
};

struct redis_wire;

/* NULL: no memory. `tls` is NULL, or outlives the wire. */
struct redis_wire *redis_wire_open(uv_loop_t *loop, const char *host, uint16_t port,
                                   struct redis_tls_context *tls,
                                   const struct redis_wire_events *events);
/* 0 once the bytes are on their way; BW_ELIMIT or BW_EIO: none of them is. Only when ready. */
int redis_wire_send(struct redis_wire *wire, const char *bytes, size_t length);
/* No event comes any more; it frees itself from the loop. */
void redis_wire_close(struct redis_wire *wire);

#endif
