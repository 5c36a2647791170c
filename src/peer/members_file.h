/* Reads --members FILE, the fixed list of members of a cluster. Each line has the form "ID
 * HOST:PORT [priority=N] [ordinary]". Blank lines and lines that start with # are ignored. */
#ifndef BW_PEER_MEMBERS_FILE_H
#define BW_PEER_MEMBERS_FILE_H

#include "core/peer/roster.h"

#define BW_PEER_MEMBERS_FILE_WHY 255u

/* Adds the listed members to the roster, with incarnation 0 and no directory; a member replaces its
 * row when it introduces itself. Resolves names. Returns 0, or BW_EIO, BW_EINVAL or BW_ELIMIT with
 * a line in why. */
int bw_peer_members_read(const char *file, struct bw_peer_roster *roster,
                         char why[BW_PEER_MEMBERS_FILE_WHY + 1]);

#endif
