/* Addresses as people write them, as sockets take them, and as a row carries them. */
#ifndef BW_PEER_ADDRESS_H
#define BW_PEER_ADDRESS_H

#include "core/cluster/frame.h"

#include <sys/socket.h>

#define BW_PEER_HOST_MAX 255u

/* "HOST:PORT" or "[IPv6]:PORT" into its two halves. Returns 0 or BW_EINVAL. */
int bw_peer_address_split(const char *text, size_t length, char host[BW_PEER_HOST_MAX + 1],
                          char port[6]);
/* In digits only, nothing is looked up. Returns 0 or BW_EINVAL. */
int bw_peer_address_read(const char *text, struct sockaddr_storage *out);
/* The same, but names are looked up: it may take long. Returns 0, BW_EINVAL or BW_EIO. */
int bw_peer_address_find(const char *text, struct sockaddr_storage *out);

void bw_peer_address_from(struct bw_peer_address *out, const struct sockaddr *address);
/* False: there is none. */
bool bw_peer_address_to(const struct bw_peer_address *address, struct sockaddr_storage *out);
/* True for 0.0.0.0 and ::, which nobody can send to. */
bool bw_peer_address_any(const struct sockaddr *address);
bool bw_peer_address_same(const struct sockaddr *a, const struct sockaddr *b);
void bw_peer_address_text(const struct sockaddr *address, char out[BW_PEER_ADDRESS_MAX + 1]);

#endif
