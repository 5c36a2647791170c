/* The addresses of an ensemble. Names are resolved on libuv's threads, because the client library
 * would block the loop, and with the client's own timeout. */
#ifndef BW_STORE_ZOOKEEPER_HOSTS_H
#define BW_STORE_ZOOKEEPER_HOSTS_H

#include "store/kit/url.h"

#include <uv.h>

#define BW_ZK_PORT 2181u
/* Addresses in total; of a name with several addresses, as many as fit. */
#define BW_ZK_ADDRESSES_MAX 16u
#define BW_ZK_ADDRESS_MAX   63u /* "ADDRESS:PORT" */

struct bw_zk_hosts {
    const struct bw_url *url;
    uv_loop_t *loop;
    struct bw_zk_lookup *lookups; /* in progress */
    unsigned waits;
    char address[BW_ZK_ADDRESSES_MAX][BW_ZK_ADDRESS_MAX + 1]; /* "127.0.0.1:2181", "::1:2181" */
    unsigned count;
    bool busy;
    void (*done)(struct bw_zk_hosts *hosts); /* all lookups have ended */
    void *context;
};

void bw_zk_hosts_init(struct bw_zk_hosts *hosts, const struct bw_url *url, uv_loop_t *loop,
                      void (*done)(struct bw_zk_hosts *hosts), void *context);
/* Resolves all names. Returns true if the addresses are known at once because all hosts are
 * addresses; otherwise `done` follows. */
bool bw_zk_hosts_find(struct bw_zk_hosts *hosts);
/* Cancels all lookups; `done` is not called. */
void bw_zk_hosts_stop(struct bw_zk_hosts *hosts);
/* Writes all addresses in the library's format, starting with number `first`; "" if there are none.
 */
void bw_zk_hosts_text(const struct bw_zk_hosts *hosts, unsigned first, char *out, size_t size);

#endif
