/* Messages between supervisor and guardian: datagrams of fixed size over a socket pair
 * (SOCK_SEQPACKET). Both processes are the same program, so native layout is enough. */
#ifndef BW_RUN_GUARDIAN_GUARDIAN_MESSAGE_H
#define BW_RUN_GUARDIAN_GUARDIAN_MESSAGE_H

#include "store/store.h"

enum bw_wire_kind {
    /* To the guardian: */

    /* Kill the work at `at` unless a later ARM comes. Carries the descriptor that holds the lease,
     * if there is one. The guardian answers with ARMED. Fields: token, at. */
    BW_WIRE_ARM = 1,
    BW_WIRE_START,   /* start the work; fields: token */
    BW_WIRE_STOP,    /* send a signal, kill the work later; fields: token, number, at, flags */
    BW_WIRE_SIGNAL,  /* send a signal to the work; fields: number, flags */
    BW_WIRE_KILL,    /* kill the work now; no fields */
    BW_WIRE_DISMISS, /* the leadership `token` is over: disarm */
    BW_WIRE_NOTICES, /* carries the file with the death notices for leadership `token` */
    BW_WIRE_NOTICE_SOCKET, /* carries the socket for the death notices; sent before NOTICES */

    /* To the supervisor: */

    BW_WIRE_READY,   /* the containment exists; fields: text: its name */
    BW_WIRE_FAILED,  /* the containment cannot be created; fields: text: the cause */
    BW_WIRE_ARMED,   /* the answer to ARM; fields: token, at: the armed deadline */
    BW_WIRE_STARTED, /* the work runs; fields: token, number: its pid */
    BW_WIRE_STUCK,   /* the work does not die; fields: text: one of its processes */
    BW_WIRE_DEAD     /* the work is dead; fields: token, number: wait status, flags: RAN */
};

enum bw_wire_flag {
    BW_WIRE_ALL = 1,   /* SIGNAL, STOP: to all processes of the work, not only the first one */
    BW_WIRE_GROUP = 2, /* SIGNAL, STOP: our process group has received it from the terminal */
    BW_WIRE_RAN = 4    /* DEAD: the work had been started */
};

/* A store without tokens: the supervisor numbers its leaderships itself and sets this bit in the
 * number. Supervisor and guardian use the number to distinguish leaderships; no other process sees
 * it. */
#define BW_RUN_NO_TOKEN (UINT64_C(1) << 63)

/* Returns the token that users and the work see: NONE if the store issues no tokens. */
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
    /* ARM: proof for a clean close of the socket that it carries */
    unsigned char proof[BW_HOLD_PROOF];
};

/* Sends a message, with a descriptor unless `passed` is -1. Never blocks. Returns 0 or -1. */
int bw_wire_send(int fd, const struct bw_wire *wire, int passed);
/* Receives a message. *passed is a descriptor that the caller closes, or -1. Returns 1; 0 if there
 * is no message; -1 if the other side is gone. */
int bw_wire_receive(int fd, struct bw_wire *wire, int *passed);

#endif
