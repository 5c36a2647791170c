/* The store `parent:FD:TOKEN`: a store in our parent process, the launcher.
 *
 * A launcher that is a peer (run/shards/peer_shards.c) runs one supervisor process per shard. Each
 * supervisor sends its requests to the launcher through an inherited socket, one per packet, and
 * the launcher passes them to its own store. FD is the socket. TOKEN is 1 if the launcher's store
 * gives tokens.
 *
 * - Both sides are the same program, so packets are plain structs.
 * - A packet of any other length is dropped. A lost reply is UNKNOWN, as with any store.
 * - Death notices (store.h) arrive as descriptors attached to a packet.
 * - The supervisor shares its socket with its guardian. If the supervisor dies, the guardian
 *   confirms that the work is dead by a packet of one byte (run/guardian/clean_close.h).
 * - End of file without that packet means that both died. It proves nothing about the work. */
#ifndef BW_STORE_PARENT_PARENT_H
#define BW_STORE_PARENT_PARENT_H

#include "store/store.h"

#define BW_PARENT_SCHEME "parent:"

struct bw_parent_request {
    bool cancel; /* cancel the request request.id */
    bool has_candidate, has_value, has_containment;
    struct bw_store_request request; /* its strings are in the fields below */
    char election[BW_ELECTION_NAME_MAX + 1], candidate[BW_CANDIDATE_ID_MAX + 1];
    char value[BW_VALUE_MAX + 1], containment[BW_CONTAINMENT_MAX + 1];
};

enum bw_parent_kind {
    BW_PARENT_REPLY,
    BW_PARENT_EVENT, /* store.h: event */
    BW_PARENT_ENDED, /* store.h: ended */
    /* two descriptors: a file of death notices, and the socket to send them from */
    BW_PARENT_DEATH_NOTICES
};

struct bw_parent_message {
    enum bw_parent_kind kind;
    struct bw_store_reply reply;
    int error;
    char event[32], line[BW_WHY_MAX + 1];
};

/* Returns the store of a URL with this scheme. */
const struct bw_store_ops *bw_store_parent_find(const char *url);

/* Sends one packet with up to two descriptors (-1: none). Returns false if it was not sent. */
bool bw_parent_send(int fd, const void *packet, size_t bytes, int one, int other);
#define BW_PARENT_CLEAN_CLOSE 2

/* Receives one packet of exactly `bytes` bytes.
 *
 * Returns:
 * - 1: received
 * - BW_PARENT_CLEAN_CLOSE: the guardian's confirmation that the work is dead
 * - 0: no packet, or one of a wrong length
 * - -1: the other side has closed the socket
 *
 * The caller owns the received descriptors. */
int bw_parent_receive(int fd, void *packet, size_t bytes, int passed[2]);

/* Sets the string pointers in `request` to the fields of the received packet. Returns false if the
 * request is invalid. */
bool bw_parent_read(struct bw_parent_request *ask);

#endif
