/* Converts network addresses between text, socket structures and roster rows. */
#ifndef BW_PEER_ADDRESS_H
#define BW_PEER_ADDRESS_H

#include "core/peer/frame.h"

#include <sys/socket.h>

#define BW_PEER_HOST_MAX 255u

/* Splits "HOST:PORT" or "[IPv6]:PORT" into host and port. Returns 0 or BW_EINVAL. */
int bw_peer_address_split(const char *text, size_t length, char host[BW_PEER_HOST_MAX + 1],
                          char port[6]);
/* Parses a numeric address; does not resolve names. Returns 0 or BW_EINVAL. */
int bw_peer_address_read(const char *text, struct sockaddr_storage *out);
/* Parses an address and resolves a host name, which may block for long. Returns 0, BW_EINVAL or
 * BW_EIO. */
int bw_peer_address_find(const char *text, struct sockaddr_storage *out);

void bw_peer_address_from(struct bw_peer_address *out, const struct sockaddr *address);
/* Converts a row's address. Returns false if the row has none. */
bool bw_peer_address_to(const struct bw_peer_address *address, struct sockaddr_storage *out);
/* True for 0.0.0.0 and ::, which cannot be a destination. */
bool bw_peer_address_any(const struct sockaddr *address);
bool bw_peer_address_same(const struct sockaddr *a, const struct sockaddr *b);
void bw_peer_address_text(const struct sockaddr *address, char out[BW_PEER_ADDRESS_MAX + 1]);

#endif
