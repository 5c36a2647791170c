/* --members FILE: exactly these are the cluster. One per line: "ID HOST:PORT [priority=N]
 * [ordinary]"; blank lines and lines that begin with # do not count. */
#ifndef BW_PEER_MEMBERS_FILE_H
#define BW_PEER_MEMBERS_FILE_H

#include "core/cluster/roster.h"

#define BW_PEER_MEMBERS_FILE_WHY 255u

/* Rows of incarnation 0 and no directory into the roster: whoever is met replaces its own. Names
 * are looked up. Returns 0, or BW_EIO, BW_EINVAL or BW_ELIMIT with a line in why. */
int bw_peer_members_read(const char *file, struct bw_peer_roster *roster,
                         char why[BW_PEER_MEMBERS_FILE_WHY + 1]);

#endif
