/* The rules of the embedded store over one row, without I/O: who may take, renew, release, and what
 * a reader may conclude. */
#ifndef BW_STORE_SQLITE_RULES_H
#define BW_STORE_SQLITE_RULES_H

#include "store/store.h"

#define BW_SQLITE_BOOT_MAX   63u
#define BW_SQLITE_SPACES_MAX 127u

/* Tokens promised to the disk ahead of use. Within one boot nothing that was committed is
 * forgotten, synced or not, so only a power failure could take a token back, and after it counting
 * goes on behind the promise. One sync then serves this many leaderships, and a hand-over needs
 * none. */
#define BW_SQLITE_TOKENS_AHEAD 64u

/* Where a process lives: what must be equal before a clock or a lock proves anything. */
struct bw_sqlite_place {
    char boot[BW_SQLITE_BOOT_MAX + 1];     /* "" = unknown: proves nothing */
    char spaces[BW_SQLITE_SPACES_MAX + 1]; /* PID, time and cgroup namespace; "" = unknown */
};

struct bw_sqlite_row {
    int64_t id;                    /* 0: not stored yet */
    struct bw_store_record record; /* its `clean` as record.h says */
    struct bw_sqlite_place place;
    bw_time deadline; /* CLOCK_BOOTTIME of `place` */
    uint64_t lock_dev, lock_ino;
    bw_token reserved; /* tokens up to here are promised to the disk ... */
    char
        reserved_boot[BW_SQLITE_BOOT_MAX + 1]; /* ... and may be used without a sync in this boot */
    int64_t pid;                               /* for people */
};

/* What a lock file says beside being locked (lock.c). */
struct bw_sqlite_mark {
    bw_token token; /* highest token known there; 0: none */
    bool released;  /* its guardian confirmed the work's death and released */
    int unread;     /* errno: the file exists, perhaps, but could not be opened: nothing is known */
};

/* What a step changed. */
enum bw_sqlite_change {
    BW_SQLITE_SAME,
    BW_SQLITE_LEASE, /* version, TTL and deadline only */
    BW_SQLITE_ALL,
    BW_SQLITE_SYNC /* all, and it must be on the disk before it is spoken of */
};

struct bw_sqlite_verdict {
    enum bw_outcome outcome;
    enum bw_sqlite_change change;
    int error;
    const char *why; /* static; NULL when DONE */
};

bool bw_sqlite_same_place(const struct bw_sqlite_row *row, const struct bw_sqlite_place *self);

/* A guardian's mark for the current token is a release. True if the row changed. */
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

/* Does a free lock prove that the work of this row's holder can be ended by name? A process that
 * lost both its supervisor and its guardian is found in a cgroup or a PID namespace; without them
 * nobody can tell whether it lives, and the lease must expire first. */
bool bw_sqlite_lock_proves(const struct bw_sqlite_row *row);

/* Fill in what depends on the reader: clean, proved_dead, left_ns. */
void bw_sqlite_present(const struct bw_sqlite_row *row, const struct bw_sqlite_place *self,
                       bool lock_free, bw_time now, struct bw_store_record *out);

#endif
