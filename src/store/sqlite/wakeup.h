/* Change notifications: inotify on the directory of side files, and on the database. */
#ifndef BW_STORE_SQLITE_WAKEUP_H
#define BW_STORE_SQLITE_WAKEUP_H

#include "store/store.h"

struct bw_sqlite_changes {
    bool any;    /* a process changed something */
    bool lost;   /* events were lost, or the directory is gone: check all elections */
    bool broken; /* this descriptor receives no more events: open another */
};

/* Returns a descriptor that becomes readable on a change, or -1: the caller then has to poll. `db`
 * is the database file; its removal or replacement is reported too. */
int bw_sqlite_wakeup_open(const char *dir, const char *db);
/* Reads all pending events. Calls `changed` with the election of each lock file that has an
 * event. */
void bw_sqlite_wakeup_read(int fd, struct bw_sqlite_changes *changes, void *context,
                           void (*changed)(void *context, const char *election));

#endif
