/* The rules of the embedded store over one row, without I/O: which requests are allowed, and what a
 * reader may conclude. */
#ifndef BW_STORE_SQLITE_RULES_H
#define BW_STORE_SQLITE_RULES_H

#include "store/store.h"

#define BW_SQLITE_BOOT_MAX   63u
#define BW_SQLITE_SPACES_MAX 127u

/* Number of tokens reserved on disk ahead of use.
 *
 * Within one boot no committed token is lost, synced or not. Only a power failure could revert a
 * commit; counting then continues after the reserved tokens. One sync thus serves this many
 * leaderships, and a hand-over needs none. */
#define BW_SQLITE_TOKENS_AHEAD 64u

/* Environment of a process. Two processes may compare clocks and locks only if theirs are equal. */
struct bw_sqlite_place {
    char boot[BW_SQLITE_BOOT_MAX + 1];     /* boot id; "": unknown, proves nothing */
    char spaces[BW_SQLITE_SPACES_MAX + 1]; /* PID, time and cgroup namespaces; "": unknown */
};

struct bw_sqlite_row {
    int64_t id;                    /* 0: not stored yet */
    struct bw_store_record record; /* with `clean` as kept (record.h) */
    struct bw_sqlite_place place;
    bw_time deadline; /* on CLOCK_BOOTTIME of `place` */
    uint64_t lock_dev, lock_ino;
    bw_token reserved;                          /* highest token reserved on disk */
    char reserved_boot[BW_SQLITE_BOOT_MAX + 1]; /* boot in which reserved tokens need no sync */
    int64_t pid;                                /* for the user */
};

/* Content of a lock file (lock.c). */
struct bw_sqlite_mark {
    bw_token token; /* highest token written there; 0: none */
    bool released;  /* the guardian confirmed that the work is dead, and released */
    /* errno if the file could not be opened, so that its content is unknown; 0: it was read */
    int unread;
};

/* Which part of a row a decision changed. */
enum bw_sqlite_change {
    BW_SQLITE_SAME,
    BW_SQLITE_LEASE, /* version, TTL, deadline and wall-clock end only */
    BW_SQLITE_ALL,
    BW_SQLITE_SYNC /* all, and the commit must be on disk before the reply */
};

struct bw_sqlite_verdict {
    enum bw_outcome outcome;
    enum bw_sqlite_change change;
    int error;
    const char *why; /* static text; NULL if DONE */
};

bool bw_sqlite_same_place(const struct bw_sqlite_row *row, const struct bw_sqlite_place *self);

/* Applies a guardian's mark: a mark with the current token is a release. Returns true if the row
 * changed. */
bool bw_sqlite_fold(struct bw_sqlite_row *row, const struct bw_sqlite_mark *mark);

struct bw_sqlite_verdict bw_sqlite_acquire(struct bw_sqlite_row *row,
                                           const struct bw_store_request *request,
                                           const struct bw_sqlite_place *self,
                                           const struct bw_sqlite_mark *mark, bw_time now);
struct bw_sqlite_verdict bw_sqlite_renew(struct bw_sqlite_row *row,
                                         const struct bw_store_request *request, bw_time now);
struct bw_sqlite_verdict bw_sqlite_release(struct bw_sqlite_row *row,
                                           const struct bw_store_request *request);
struct bw_sqlite_verdict bw_sqlite_note(struct bw_sqlite_row *row,
                                        const struct bw_store_request *request);

/* Does a free lock prove that this holder's work can be found and killed?
 *
 * Yes, if the work runs in a cgroup or a PID namespace: a successor finds it there after its
 * supervisor and guardian died. Otherwise no process can tell whether the work still runs, and the
 * lease must expire first. */
bool bw_sqlite_lock_proves(const struct bw_sqlite_row *row);

/* Fills in the fields that depend on the reader: clean, proved_dead, left_ns. */
void bw_sqlite_present(const struct bw_sqlite_row *row, const struct bw_sqlite_place *self,
                       bool lock_free, bw_time now, struct bw_store_record *out);

#endif
