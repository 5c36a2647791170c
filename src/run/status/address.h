/* Where the status endpoint listens, as people write it. */
#ifndef BW_RUN_HTTP_ADDRESS_H
#define BW_RUN_HTTP_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

struct bw_http_address {
    struct sockaddr_storage bytes;
    socklen_t length;
    bool loopback; /* nobody on another machine reaches it; a socket file counts */
};

/* "127.0.0.1:8080", "[::1]:8080" or "unix:PATH"; numbers only, nothing is looked up. Port 0: any
 * free one. Returns 0 or BW_EINVAL. */
int bw_http_address_read(const char *text, struct bw_http_address *out);

#endif
