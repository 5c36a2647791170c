/* The store that another process of ours has open: `parent:FD:TOKEN`. A launcher that is a peer
 * (run/shards/told.c) has one supervisor per shard in a process of its own; they ask it through a
 * socket that they inherit, packet by packet, and it asks its store. FD is that socket, TOKEN is 1
 * if the store gives tokens.
 *
 * Both sides are the same program: packets are plain structs. Whatever is not as long as one is
 * dropped, and an answer that got lost is UNKNOWN to the asker, as with any store. Last words
 * (store.h) come as descriptors beside a packet.
 *
 * A supervisor shares its socket with its guardian. If the supervisor dies, the guardian confirms
 * that the work is dead by a packet of one byte (run/guardian/farewell.h). End of file without it
 * means that both are dead, and proves nothing about the work. */
#ifndef BW_STORE_PARENT_H
#define BW_STORE_PARENT_H

#include "store/store.h"

#define BW_PARENT_SCHEME "parent:"

struct bw_parent_ask {
    bool cancel; /* forget request.id */
    bool has_candidate, has_value, has_containment;
    struct bw_store_request request; /* its strings are these: */
    char election[BW_ELECTION_NAME_MAX + 1], candidate[BW_CANDIDATE_ID_MAX + 1];
    char value[BW_VALUE_MAX + 1], containment[BW_CONTAINMENT_MAX + 1];
};

enum bw_parent_kind {
    BW_PARENT_REPLY,
    BW_PARENT_EVENT, /* store.h: event */
    BW_PARENT_ENDED, /* store.h: ended */
    BW_PARENT_WORDS  /* two descriptors: a file of struct bw_last_word, and the socket for them */
};

struct bw_parent_tell {
    enum bw_parent_kind kind;
    struct bw_store_reply reply;
    int error;
    char event[32], line[BW_WHY_MAX + 1];
};

/* The store of a URL with that scheme; NULL with a line in `why`. */
const struct bw_store_ops *bw_store_parent_find(const char *url);

/* One packet out, with up to two descriptors (-1: none). False: it did not go. */
bool bw_parent_send(int fd, const void *packet, size_t bytes, int one, int other);
#define BW_PARENT_FAREWELL 2

/* One packet in, exactly `bytes` long. 1; BW_PARENT_FAREWELL: it was the guardian's; 0: none there,
 * or a wrong one; -1: the other side is gone. Descriptors are the caller's. */
int bw_parent_receive(int fd, void *packet, size_t bytes, int passed[2]);

/* The strings of what was asked, back in their places. False: no request that anybody may make. */
bool bw_parent_read(struct bw_parent_ask *ask);

#endif
