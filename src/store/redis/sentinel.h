/* Asks Redis sentinels, one after the other, which server is the master now. The next question
 * begins with the sentinel that answered last; each has its own share of the time. */
#ifndef BW_STORE_REDIS_SENTINEL_H
#define BW_STORE_REDIS_SENTINEL_H

#include "store/redis/link.h"

struct redis_sentinel {
    uv_loop_t *loop;
    struct bw_url_host host[BW_URL_HOSTS_MAX];
    uint32_t hosts, first, tried;
    char master[256];
    char password[512]; /* the sentinels' own; "": none */
    struct redis_tls_context *tls;
    struct redis_wire *wire;
    unsigned replies;
    unsigned share_ms;
    uv_timer_t timer;
    void (*answer)(void *context, const struct bw_url_host *master, const char *why);
    void *context;
    void (*on_closed)(struct redis_sentinel *sentinel);
    char why[BW_WHY_MAX + 1];
};

/* The struct is the caller's and filled down to `tls`. */
void redis_sentinel_open(struct redis_sentinel *sentinel);
/* `answer` comes once, from the loop: the master, or NULL and why none is known. */
void redis_sentinel_ask(struct redis_sentinel *sentinel, unsigned share_ms,
                        void (*answer)(void *context, const struct bw_url_host *master,
                                       const char *why),
                        void *context);
/* No answer will come. */
void redis_sentinel_stop(struct redis_sentinel *sentinel);
void redis_sentinel_close(struct redis_sentinel *sentinel,
                          void (*closed)(struct redis_sentinel *sentinel));

#endif
