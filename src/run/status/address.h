/* Address of the status endpoint, parsed from text. */
#ifndef BW_RUN_STATUS_ADDRESS_H
#define BW_RUN_STATUS_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

struct bw_http_address {
    struct sockaddr_storage bytes;
    socklen_t length;
    bool loopback; /* unreachable from other machines; true for a socket file */
};

/* Parses "127.0.0.1:8080", "[::1]:8080" or "unix:PATH". Host names are not resolved. Port 0: any
 * free port. Returns 0 or BW_EINVAL. */
int bw_http_address_read(const char *text, struct bw_http_address *out);

#endif
