/* The inside of the embedded store: tasks go from the loop's thread to one worker thread in jobs,
 * one job at a time, each one transaction. Everything in struct bw_sqlite_worker belongs to the
 * worker, except what `mutex` guards. */
#ifndef BW_STORE_SQLITE_WORK_H
#define BW_STORE_SQLITE_WORK_H

#include "store/sqlite/db.h"

#include <uv.h>

/* Requests in one transaction: bounds its time and the memory of its replies (4 KB each). */
#define BW_SQLITE_JOB_MAX 1024u
/* Requests unanswered at one time: ten thousand held elections with a renewal and a watch each,
 * three times over. */
#define BW_SQLITE_REQUESTS_MAX 65536u
/* Candidates of one election: each costs a look at its lock when they are listed. */
#define BW_SQLITE_CANDIDATES_MAX 4096u
/* How long a transaction waits for those of others before its requests are UNAVAILABLE. */
#define BW_SQLITE_BUSY_NS (500 * BW_MS)
/* A process that held the database for longer than LONG lets others have it for BREATH before it
 * takes it again for what can wait: longer than they sleep between two tries (db.c). */
#define BW_SQLITE_LONG_NS   (2 * BW_MS)
#define BW_SQLITE_BREATH_NS (4 * BW_MS)
/* Lock files named in one job; more of them, and all watched elections are looked at. */
#define BW_SQLITE_NAMES_MAX 256u

struct bw_sqlite_task {
    struct bw_sqlite_task *next;  /* in the one list it is in */
    struct bw_sqlite_task *chain; /* loop: same bucket of the table by id */
    struct bw_store_request request;
    struct bw_store_reply *reply; /* NULL: there was no memory for it */
    atomic_bool cancelled;
    char text[]; /* the request's strings */
};

struct bw_sqlite_list {
    struct bw_sqlite_task *first, **end;
};

void bw_sqlite_list_init(struct bw_sqlite_list *list);
void bw_sqlite_list_add(struct bw_sqlite_list *list, struct bw_sqlite_task *task);
struct bw_sqlite_task *bw_sqlite_list_take(struct bw_sqlite_list *list);
/* A copy of the request and its strings; NULL: no memory. */
struct bw_sqlite_task *bw_sqlite_task_new(const struct bw_store_request *request);
void bw_sqlite_task_free(struct bw_sqlite_task *task);

struct bw_sqlite_job {
    struct bw_sqlite_list tasks; /* in: to be carried out */
    struct bw_sqlite_list done;  /* out: answered, or cancelled */
    bool look_all;               /* in: something happened, nobody knows to which election */
    bool sweep;                  /* in: some watch was cancelled */
    bool urgent;                 /* in: somebody renews or releases */
    unsigned names;
    char name[BW_SQLITE_NAMES_MAX][BW_ELECTION_NAME_MAX + 1]; /* in: lock files with news */
    bw_time again_ns; /* out: when to look again, from now; 0: no need */
    bw_time poll_ns;  /* out: how often to look where nothing tells us; 0: nothing is watched */
};

/* An election in which this process holds a lock or waits for news. */
struct bw_sqlite_entry {
    struct bw_sqlite_entry *chain, *next_touched;
    bool touched; /* in this transaction: see the three fields below */
    int fresh_fd;
    bw_token fresh_token;
    bool drop;
    int fd; /* the lock of a leadership of this process, -1: none */
    bw_token token;
    bw_token claimed; /* leadership of this process whose work may be alive; 0: none */
    bool in_doubt;    /* nobody knows yet whether the commit that began it happened */
    struct bw_sqlite_task *watches;
    uint64_t told_version; /* of a proved death that was told, and when: not told again at once */
    bw_time told_at;
    uint64_t free_version, free_in; /* whose lock was seen free, and in which transaction */
    bw_time look_at;                /* look again at the lock then; 0: no need */
    unsigned looks;                 /* left */
    char name[BW_ELECTION_NAME_MAX + 1];
};

struct bw_sqlite_worker {
    struct bw_sqlite_paths paths;
    struct bw_sqlite_place place;
    struct bw_sqlite_db db;
    int bell_fd, alive_fd;
    uint64_t alive; /* our byte in the file of candidates */
    struct bw_sqlite_claims claims;
    atomic_bool stop;
    uv_mutex_t mutex; /* guards the table of entries and their fd */
    struct bw_sqlite_entry **buckets;
    uint32_t bucket_count, entry_count;
    uint32_t watch_count;
    struct bw_sqlite_entry *touched;
    uint64_t transactions;   /* so many have begun */
    uint64_t claims_seen_in; /* in which of them others' claims were looked at, and the result */
    bool claimed_elsewhere;
    bool writing;  /* this one is the only one that can write */
    bool looking;  /* some entry has look_at set */
    bool insist;   /* sync the next commit whatever it is */
    bool changed;  /* in this transaction: ring the bell after it */
    uint64_t seen; /* changes up to this version were told to the watches */
    bool seen_known;
    bw_time shortest_ttl; /* of watched elections */
    bw_time others_until; /* the database is left to others until then, if nothing is urgent */
};

int bw_sqlite_worker_open(struct bw_sqlite_worker *worker, const char *url, char *why);
void bw_sqlite_worker_close(struct bw_sqlite_worker *worker);
void bw_sqlite_work(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job);

/* entry.c: the table, and the locks in it. */
struct bw_sqlite_entry *bw_sqlite_entry_find(struct bw_sqlite_worker *worker, const char *name);
struct bw_sqlite_entry *bw_sqlite_entry_get(struct bw_sqlite_worker *worker, const char *name);
void bw_sqlite_entry_tidy(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry);
void bw_sqlite_entry_touch(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry);
/* Lock the row's new token; fills in the row's lock_dev and lock_ino. Returns 0 or errno. */
int bw_sqlite_entry_lock(struct bw_sqlite_worker *worker, const char *name,
                         struct bw_sqlite_row *row);
/* Its owner says that the work of this leadership is dead. */
void bw_sqlite_entry_unclaim(struct bw_sqlite_worker *worker, const char *name, bw_token token);
/* The lock is of no use once the row has moved on. */
void bw_sqlite_entry_outdated(struct bw_sqlite_worker *worker, const char *name,
                              const struct bw_sqlite_row *row);
enum bw_sqlite_end { BW_SQLITE_COMMITTED, BW_SQLITE_ROLLED_BACK, BW_SQLITE_IN_DOUBT };
void bw_sqlite_entries_settle(struct bw_sqlite_worker *worker, enum bw_sqlite_end end);
int bw_sqlite_entry_fd(struct bw_sqlite_worker *worker, const char *name); /* any thread */

/* ops.c: one request inside a transaction. Returns an SQLite code. */
int bw_sqlite_execute(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                      struct bw_sqlite_task *task);
/* Load a row as it stands, releases by guardians included, and what its lock tells. */
int bw_sqlite_look(struct bw_sqlite_worker *worker, const char *election, struct bw_sqlite_row *row,
                   struct bw_sqlite_mark *mark, bool *lock_free);
void bw_sqlite_answer(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                      struct bw_sqlite_task *task, enum bw_outcome outcome,
                      const struct bw_sqlite_row *row, bool lock_free);

/* watch.c: what waits for news. */
int bw_sqlite_watch(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                    struct bw_sqlite_task *task);
int bw_sqlite_watches_look(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job);
void bw_sqlite_watches_sweep(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job, bool all);
bw_time bw_sqlite_watches_next(struct bw_sqlite_worker *worker);

/* candidates.c */
enum bw_sqlite_entrance {
    BW_SQLITE_ADMITTED,
    BW_SQLITE_FULL,
    BW_SQLITE_DUPLICATE /* a living process has entered a candidate with this id */
};
int bw_sqlite_enter(struct bw_sqlite_worker *worker, struct bw_sqlite_task *task,
                    enum bw_sqlite_entrance *out);
int bw_sqlite_list_candidates(struct bw_sqlite_worker *worker, struct bw_sqlite_task *task);

#endif
