/* Death notices: datagrams that report a leader's death to the other peers. The guardian sends them
 * when the supervisor is gone and the work is confirmed dead.
 *
 * The supervisor asks its store for the notices with every lease (store.h: death_notices). It
 * passes them to the guardian as a memory file, together with the socket to send them from. The
 * guardian does not interpret them and has no key: the store has already sealed them. Both
 * processes are the same program, so native layout is enough.
 *
 * Guarantee: a notice is never sent about work that may still run (core/guardian/guardian.h). Not
 * guaranteed: delivery. Datagrams may be lost; a peer that receives none waits until the lease
 * expires. */
#ifndef BW_RUN_GUARDIAN_DEATH_NOTICE_H
#define BW_RUN_GUARDIAN_DEATH_NOTICE_H

#include "store/store.h"

/* Writes the rows to a memory file. Returns its descriptor, or -1 with errno. */
int bw_death_notices_write(const struct bw_death_notice *rows, uint32_t count);

/* Sends each notice once; never waits. Notices that do not fit into the socket's queue are lost.
 * Returns how many were sent. A file that bw_death_notices_write did not write sends nothing. */
uint32_t bw_death_notices_send(int notices, int socket);

#endif
