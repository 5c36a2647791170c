/* The addresses of an ensemble: names are resolved on libuv's threads, because the client library
 * would block the loop with them, and within a time of our own. */
#ifndef BW_STORE_ZOOKEEPER_HOSTS_H
#define BW_STORE_ZOOKEEPER_HOSTS_H

#include "store/kit/url.h"

#include <uv.h>

#define BW_ZK_PORT 2181u
/* An address and its port, per host; a name with several addresses gives its first few. */
#define BW_ZK_ADDRESSES_MAX 16u
#define BW_ZK_ADDRESS_MAX   63u /* "ADDRESS:PORT" */

struct bw_zk_hosts {
    const struct bw_url *url;
    uv_loop_t *loop;
    struct bw_zk_lookup *lookups; /* under way */
    unsigned waits;
    char address[BW_ZK_ADDRESSES_MAX][BW_ZK_ADDRESS_MAX + 1]; /* "127.0.0.1:2181", "::1:2181" */
    unsigned count;
    bool busy;
    void (*done)(struct bw_zk_hosts *hosts); /* all names were answered */
    void *context;
};

void bw_zk_hosts_init(struct bw_zk_hosts *hosts, const struct bw_url *url, uv_loop_t *loop,
                      void (*done)(struct bw_zk_hosts *hosts), void *context);
/* Resolve anew. True: known at once, as all hosts are addresses; else `done` follows. */
bool bw_zk_hosts_find(struct bw_zk_hosts *hosts);
/* Let go of what is under way; `done` will not come. */
void bw_zk_hosts_stop(struct bw_zk_hosts *hosts);
/* All addresses as the library wants them, beginning with number `first`; "" if there are none. */
void bw_zk_hosts_text(const struct bw_zk_hosts *hosts, unsigned first, char *out, size_t size);

#endif
