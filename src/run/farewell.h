/* Leave taken of the connection that a lease is bound to (serve/binding.h), by the guardian: the
 * supervisor is gone and the work is dead.
 *
 * The guardian has no more than a copy of the socket: it knows neither keys nor where in the stream
 * the supervisor died. So leave is taken beside the stream: a byte of urgent data, then FIN. No
 * kernel sends that by itself when processes are killed, and a proxy does not pass it on: who hears
 * it knows that somebody lived to say it.
 *
 * The socket to a launcher (store/parent.h) keeps packets apart: there it is a packet of one byte.
 */
#ifndef BW_RUN_FAREWELL_H
#define BW_RUN_FAREWELL_H

#include "base/types.h"

bool bw_farewell_is_for(int fd);
/* Never waits. Returns 0, or -1: it could not be said. */
int bw_farewell_say(int fd);
/* The other side hangs up once it has heard; a socket closed before, with something unread in it,
 * would break the connection off and with it what was said. Waits no longer than this. */
void bw_farewell_wait(int fd, bw_time most_ns);

#endif
