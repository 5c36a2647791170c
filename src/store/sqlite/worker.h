/* Internals of the embedded store. The loop's thread hands requests (tasks) to one worker thread in
 * jobs, one job at a time; each job is one transaction. struct bw_sqlite_worker belongs to the
 * worker thread, except what `mutex` guards. */
#ifndef BW_STORE_SQLITE_WORKER_H
#define BW_STORE_SQLITE_WORKER_H

#include "store/sqlite/db.h"

#include <uv.h>

/* Requests in one transaction. Bounds its duration and the memory of its replies (4 KB each). */
#define BW_SQLITE_JOB_MAX 1024u
/* Unanswered requests at one time: ten thousand held elections with a renewal and a watch each,
 * three times over. */
#define BW_SQLITE_REQUESTS_MAX 65536u
/* Candidates of one election. LIST tests a lock for each of them. */
#define BW_SQLITE_CANDIDATES_MAX 4096u
/* How long a transaction waits for other processes before its requests are UNAVAILABLE. */
#define BW_SQLITE_BUSY_NS (500 * BW_MS)
/* A process that held the database for longer than LONG leaves it to others for YIELD, unless it
 * has urgent requests. YIELD is longer than others sleep between two attempts (db.c). */
#define BW_SQLITE_LONG_NS  (2 * BW_MS)
#define BW_SQLITE_YIELD_NS (4 * BW_MS)
/* Changed lock files listed in one job. If there are more, all watched elections are read. */
#define BW_SQLITE_NAMES_MAX 256u

struct bw_sqlite_task {
    struct bw_sqlite_task *next;  /* in the list that contains it */
    struct bw_sqlite_task *chain; /* loop's thread: next in the same hash bucket */
    struct bw_store_request request;
    struct bw_store_reply *reply; /* NULL: out of memory */
    atomic_bool cancelled;
    char text[]; /* copies of the request's strings */
};

struct bw_sqlite_list {
    struct bw_sqlite_task *first, **end;
};

void bw_sqlite_list_init(struct bw_sqlite_list *list);
void bw_sqlite_list_add(struct bw_sqlite_list *list, struct bw_sqlite_task *task);
struct bw_sqlite_task *bw_sqlite_list_take(struct bw_sqlite_list *list);
/* Copies the request and its strings. NULL: out of memory. */
struct bw_sqlite_task *bw_sqlite_task_new(const struct bw_store_request *request);
void bw_sqlite_task_free(struct bw_sqlite_task *task);

struct bw_sqlite_job {
    struct bw_sqlite_list tasks; /* in: to be carried out */
    struct bw_sqlite_list done;  /* out: answered, or cancelled */
    bool read_all;               /* in: something changed, but it is unknown in which election */
    bool sweep;                  /* in: a watch was cancelled */
    bool urgent;                 /* in: contains a RENEW or RELEASE */
    unsigned names;
    /* in: elections whose lock files had an event */
    char name[BW_SQLITE_NAMES_MAX][BW_ELECTION_NAME_MAX + 1];
    bw_time again_ns; /* out: delay until locks must be tested again; 0: no need */
    bw_time poll_ns;  /* out: poll interval without change notifications; 0: nothing is watched */
};

/* An election that this process holds or watches. */
struct bw_sqlite_entry {
    struct bw_sqlite_entry *chain, *next_touched;
    /* the current transaction uses this entry and sets the three fields below */
    bool touched;
    int fresh_fd;         /* descriptor of the lock taken in the transaction; -1: none */
    bw_token fresh_token; /* token of that lock */
    bool drop;            /* close `fd` when the transaction commits */
    /* descriptor that holds the lock of a leadership of this process; -1: none */
    int fd;
    bw_token token;
    bw_token claimed; /* token of a leadership of this process whose work may still run; 0: none */
    bool uncertain;   /* it is unknown whether the commit that began this leadership took effect */
    struct bw_sqlite_task *watches;
    /* version with a proved death that was reported, and when; not reported again immediately */
    uint64_t death_version;
    bw_time death_reported_at;
    /* version whose lock was found free, and in which transaction */
    uint64_t free_version, free_in;
    bw_time test_at;     /* when to test the lock again; 0: no need */
    unsigned tests_left; /* tests left after a close event */
    char name[BW_ELECTION_NAME_MAX + 1];
};

struct bw_sqlite_worker {
    struct bw_sqlite_paths paths;
    struct bw_sqlite_place place;
    struct bw_sqlite_db db;
    int wakeup_fd, alive_fd;
    uint64_t alive; /* our byte in the file `@alive` */
    struct bw_sqlite_claims claims;
    atomic_bool stop;
    uv_mutex_t mutex; /* guards the table of entries and their fd */
    struct bw_sqlite_entry **buckets;
    uint32_t bucket_count, entry_count;
    uint32_t watch_count;
    struct bw_sqlite_entry *touched;
    uint64_t transactions;   /* number of transactions begun */
    uint64_t claims_seen_in; /* transaction in which claims were checked, and the result */
    bool claimed_elsewhere;
    bool writing;      /* the current transaction holds the write lock */
    bool test_pending; /* some entry has test_at set */
    bool force_sync;   /* sync the next commit in any case */
    /* the current transaction changed something: write to the wake-up file after it */
    bool changed;
    uint64_t seen; /* changes up to this version were reported to the watches */
    bool seen_known;
    bw_time shortest_ttl; /* shortest TTL of the watched elections */
    bw_time others_until; /* leave the database to others until then, unless something is urgent */
};

int bw_sqlite_worker_open(struct bw_sqlite_worker *worker, const char *url,
                          enum bw_sqlite_access wanted, char *why);
void bw_sqlite_worker_close(struct bw_sqlite_worker *worker);
void bw_sqlite_work(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job);

/* entry.c: the table of elections, and their locks. */
struct bw_sqlite_entry *bw_sqlite_entry_find(struct bw_sqlite_worker *worker, const char *name);
struct bw_sqlite_entry *bw_sqlite_entry_get(struct bw_sqlite_worker *worker, const char *name);
void bw_sqlite_entry_tidy(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry);
void bw_sqlite_entry_touch(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry);
/* Locks the row's new token and sets the row's lock_dev and lock_ino. Returns 0 or errno. */
int bw_sqlite_entry_lock(struct bw_sqlite_worker *worker, const char *name,
                         struct bw_sqlite_row *row);
/* The owner confirms that the work of this leadership is dead. */
void bw_sqlite_entry_unclaim(struct bw_sqlite_worker *worker, const char *name, bw_token token);
/* Drops the lock if the row no longer shows this leadership. */
void bw_sqlite_entry_outdated(struct bw_sqlite_worker *worker, const char *name,
                              const struct bw_sqlite_row *row);
enum bw_sqlite_end { BW_SQLITE_COMMITTED, BW_SQLITE_ROLLED_BACK, BW_SQLITE_UNCERTAIN };
void bw_sqlite_entries_settle(struct bw_sqlite_worker *worker, enum bw_sqlite_end end);
int bw_sqlite_entry_fd(struct bw_sqlite_worker *worker, const char *name); /* any thread */

/* ops.c: carries out one request inside a transaction. Returns an SQLite code. */
int bw_sqlite_execute(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                      struct bw_sqlite_task *task);
/* Loads a row, applies a guardian's release, and tests the row's lock. */
int bw_sqlite_read(struct bw_sqlite_worker *worker, const char *election, struct bw_sqlite_row *row,
                   struct bw_sqlite_mark *mark, bool *lock_free);
void bw_sqlite_answer(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                      struct bw_sqlite_task *task, enum bw_outcome outcome,
                      const struct bw_sqlite_row *row, bool lock_free);

/* watch.c */
int bw_sqlite_watch(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                    struct bw_sqlite_task *task);
int bw_sqlite_watches_read(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job);
void bw_sqlite_watches_sweep(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job, bool all);
bw_time bw_sqlite_watches_next(struct bw_sqlite_worker *worker);

/* candidates.c */
enum bw_sqlite_entrance {
    BW_SQLITE_ADMITTED,
    BW_SQLITE_FULL,
    BW_SQLITE_DUPLICATE /* a running process has entered a candidate with this id */
};
int bw_sqlite_enter(struct bw_sqlite_worker *worker, struct bw_sqlite_task *task,
                    enum bw_sqlite_entrance *out);
int bw_sqlite_list_candidates(struct bw_sqlite_worker *worker, struct bw_sqlite_task *task);

#endif
