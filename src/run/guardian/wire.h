/* What supervisor and guardian tell each other: one datagram of fixed size each, over a socket pair
 * (SOCK_SEQPACKET) between two processes of the same program, so native layout is enough. */
#ifndef BW_RUN_WIRE_H
#define BW_RUN_WIRE_H

#include "store/store.h"

enum bw_wire_kind {
    /* to the guardian */
    BW_WIRE_ARM = 1, /* token, at; carries what the store holds by, if anything. Acknowledged */
    BW_WIRE_START,   /* token */
    BW_WIRE_STOP,    /* token, at, number: signal, flags */
    BW_WIRE_SIGNAL,  /* number, flags */
    BW_WIRE_KILL,
    BW_WIRE_DISMISS, /* token */
    BW_WIRE_WORDS,   /* token; carries the last words' file */
    BW_WIRE_MOUTH,   /* carries the socket that they are said by; comes before them */
    /* to the supervisor */
    BW_WIRE_READY,   /* text: name of the containment */
    BW_WIRE_FAILED,  /* text: why there is none */
    BW_WIRE_ARMED,   /* at: as it was armed; the answer to ARM */
    BW_WIRE_STARTED, /* token, number: pid */
    BW_WIRE_STUCK,   /* text: who does not die */
    BW_WIRE_DEAD     /* token, number: wait status, flags: RAN */
};

enum bw_wire_flag {
    BW_WIRE_ALL = 1,   /* SIGNAL: everybody, not only the first process */
    BW_WIRE_GROUP = 2, /* SIGNAL, STOP: our process group has got it from the terminal */
    BW_WIRE_RAN = 4
};

/* Set in the number of a leadership whose store gives no token: supervisor and guardian still tell
 * one from the next, and nobody else sees it. */
#define BW_RUN_NO_TOKEN (UINT64_C(1) << 63)

/* What others may see of it. */
static inline bw_token bw_run_token(bw_token number)
{
    return number & BW_RUN_NO_TOKEN ? BW_TOKEN_NONE : number;
}

struct bw_wire {
    uint32_t kind, flags;
    int32_t number;
    bw_token token;
    bw_time at;
    char text[BW_CONTAINMENT_MAX + 1];
    unsigned char proof[BW_HOLD_PROOF]; /* ARM: of the socket that it carries */
};

/* Sends one, with a descriptor unless it is -1. Never blocks. Returns 0 or -1. */
int bw_wire_send(int fd, const struct bw_wire *wire, int passed);
/* Receives one; *passed is a descriptor to close or -1. Returns 1; 0: nothing there; -1: the other
 * side is gone. */
int bw_wire_receive(int fd, struct bw_wire *wire, int *passed);

#endif
