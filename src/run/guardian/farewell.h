/* The clean close of the connection that a lease is bound to (serve/api/binding.h), by the
 * guardian: the supervisor is gone and the work is confirmed dead.
 *
 * The guardian has no more than a copy of the socket and a proof: it knows no TLS keys, nor where
 * in the stream the supervisor died. The client chose the proof at random and told the server its
 * SHA-256 inside the connection, when it bound the lease. The guardian reveals the proof as the
 * last bytes before FIN. Only client and guardian know it before that, so nobody else can end the
 * lease; afterwards it is worth nothing. No kernel sends it when processes are killed.
 *
 * The socket to a launcher (store/parent/parent.h) is a pair between two processes of one program:
 * there it is a packet of one byte. */
#ifndef BW_RUN_FAREWELL_H
#define BW_RUN_FAREWELL_H

#include "store/store.h"

bool bw_farewell_is_for(int fd);
/* Never waits. Returns 0, or -1: it could not be said. */
int bw_farewell_say(int fd, const unsigned char proof[BW_HOLD_PROOF]);
/* The other side hangs up once it has heard; a socket closed before, with something unread in it,
 * would break the connection off and with it what was said. Waits no longer than this. */
void bw_farewell_wait(int fd, bw_time most_ns);

#endif
