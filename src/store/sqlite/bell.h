/* Hearing that something changed: inotify on the directory of side files, and on the database. */
#ifndef BW_STORE_SQLITE_BELL_H
#define BW_STORE_SQLITE_BELL_H

#include "store/store.h"

struct bw_sqlite_news {
    bool any;    /* somebody changed something */
    bool lost;   /* more happened than was told, or the directory is gone: look at everything */
    bool broken; /* this ear hears nothing any more: open another */
};

/* Returns a descriptor that becomes readable, or -1: then one has to look from time to time. `db`
 * is the database itself: whoever removes or replaces it is heard too. */
int bw_sqlite_bell_open(const char *dir, const char *db);
/* All there is to hear; `changed` is called with the election of each lock file that has news. */
void bw_sqlite_bell_read(int fd, struct bw_sqlite_news *news, void *context,
                         void (*changed)(void *context, const char *election));

#endif
