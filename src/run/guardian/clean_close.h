/* Clean close of the connection that a lease is bound to (serve/api/binding.h). The guardian sends
 * it after the supervisor has died and the work is confirmed dead.
 *
 * The guardian has only a copy of the socket and a proof. It has no TLS keys, and does not know at
 * which byte of the stream the supervisor died. When the client bound the lease, it chose the proof
 * at random and sent its SHA-256 to the server inside the connection. The guardian reveals the
 * proof in the last bytes before FIN. Until then only the client and the guardian know it, so no
 * other process can end the lease. Afterwards it ends no other lease; the server derives the death
 * proof of this leadership from it (net/death_proof.h). The kernel does not send it when it closes
 * the sockets of killed processes.
 *
 * The socket to a launcher (store/parent/parent.h) is a pair between two processes of one program.
 * There, the clean close is a packet of one byte. */
#ifndef BW_RUN_GUARDIAN_CLEAN_CLOSE_H
#define BW_RUN_GUARDIAN_CLEAN_CLOSE_H

#include "store/store.h"

bool bw_clean_close_applies(int fd);
/* Sends it; never waits. Returns 0, or -1 if it could not be sent. */
int bw_clean_close_send(int fd, const unsigned char proof[BW_HOLD_PROOF]);
/* Waits, for at most most_ns, until the other side closes, which it does once it has read the clean
 * close. If this socket closed earlier with unread bytes, TCP would reset the connection and the
 * clean close would be lost. */
void bw_clean_close_wait(int fd, bw_time most_ns);

#endif
