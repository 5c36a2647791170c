/* The etcd store's insides, shared by its files: store.c (open, URL), seat.c (places in line
 * and their leases), task.c (requests on their way), ops.c (what each request does),
 * list.c and watch.c. */
#ifndef BW_STORE_ETCD_STATE_H
#define BW_STORE_ETCD_STATE_H

#include "store/etcd/client.h"
#include "store/etcd/view.h"
#include "store/kit/job.h"
#include "store/kit/url.h"

/* Candidates of this process; each has a lease of its own. */
#define ETCD_SEATS_MAX    65536u
#define ETCD_SEAT_BUCKETS 1024u

struct etcd_task;
struct etcd_watch;

enum etcd_keep {
    ETCD_KEEP_NONE, /* not asked */
    ETCD_KEEP_ASKED,
    ETCD_KEPT,      /* it goes on for a whole TTL from after it was asked */
    ETCD_KEEP_GONE, /* the server does not know it any more */
    ETCD_KEEP_SILENT
};

/* One candidate of this process in one election: its lease, its key, its place in line. */
struct etcd_seat {
    struct bw_store *store;
    struct etcd_seat *chain; /* same bucket */
    struct etcd_seat *next;  /* all seats */
    char election[BW_ELECTION_NAME_MAX + 1], candidate[BW_CANDIDATE_ID_MAX + 1];
    struct etcd_names names;
    int64_t lease; /* 0: none */
    int64_t granted_s;
    int64_t create; /* revision of its key; 0: no place that we know of */
    uint64_t bound; /* the connection its lease is bound to; 0: none */
    bool wanted;    /* in line, or should be */
    bool taken;     /* leads, as far as we know */
    bool fresh;     /* `view` says: first in line, not taken; and nothing was tried since */
    uint64_t asked_ms, kept_ms;
    uint64_t keeps_sent, keeps_heard; /* signs of life on this stream */
    char value[BW_VALUE_MAX + 1];     /* what it publishes */
    int64_t revision;                 /* of the newest view; older ones are no news */
    struct etcd_view view;            /* the newest that saw it first in line */
    struct etcd_known known;
    struct etcd_stranger stranger;  /* the last one before us, if it was none of ours */
    struct etcd_task *first, *last; /* requests that change it, one at a time */
};

/* A request on its way. Those of a seat wait for each other. */
struct etcd_task {
    struct bw_store *store;
    struct etcd_task *next, *previous; /* all tasks */
    struct etcd_task *behind;          /* of the same seat */
    struct bw_job *job;                /* NULL: nobody waits any more */
    struct etcd_seat *seat;            /* whose view it takes; NULL: nobody's */
    struct etcd_names names;
    bool queued;             /* it stands in the seat's line */
    bool asking;             /* the server has not answered yet */
    bool light;              /* what is known was not searched for */
    bool looking;            /* may still look for more */
    struct etcd_known known; /* what the look was made with */
    void (*step)(struct etcd_task *task, const Api__TxnResponse *response);
    void (*failed)(struct etcd_task *task, const struct bw_grpc_result *result);
    void (*then)(struct etcd_task *task); /* when its seat has a place */
    unsigned tries;
    int64_t floor; /* the store's revision when it was asked */
    struct etcd_view view;
    /* ACQUIRE, RENEW: done when both the transaction and the lease have answered. */
    bool seen;
    enum etcd_keep keep;
    uint64_t keep_number, keep_until_ms, keep_term;
    struct etcd_watch *watch[2]; /* WATCH */
    bool lost, watched;          /* WATCH: to begin again when connected; has begun once */
    struct bw_candidate *list;   /* LIST */
    uint32_t list_count;
    int64_t list_from;
};

/* One watch of the server's. */
struct etcd_watch {
    struct etcd_watch *next, *previous;
    struct etcd_task *task; /* NULL: nobody's any more */
    unsigned which;
    int64_t id; /* -1: not yet created */
};

struct bw_store {
    const struct bw_store_ops *ops;
    struct bw_jobs jobs;
    uv_loop_t *loop;
    uv_timer_t beat;
    struct etcd_client *client;
    struct bw_tls_config *tls;
    char prefix[ETCD_PREFIX_MAX + 1];
    char version[32]; /* what the first server said; "": nothing yet */
    uint64_t cluster; /* the first that answered; 0: none yet */
    int64_t
        revision; /* the highest that was seen: what is asked from now on is answered no lower */
    uint64_t quiet_until_ms; /* the server has lost data: leaders we saw may still be at work */
    bw_time ttl_least, ttl_most;
    uint64_t patience_ms;
    struct etcd_seat *buckets[ETCD_SEAT_BUCKETS], *seats;
    uint32_t seat_count;
    struct etcd_task *tasks;
    struct etcd_stream *keeper, *watcher;
    struct etcd_watch *watches, *watches_last; /* in the order they were asked for */
    unsigned handles;
    bool closed;
};

/* ---- store.c ---- */
/* From now on the seats and lost watches are looked after. */
void etcd_beat(struct bw_store *store);

/* ---- task.c ---- */
/* NULL: no memory. */
struct etcd_task *etcd_task_new(struct bw_store *store, struct bw_job *job);
/* Gone, its job answered or not; the next of its seat begins. */
void etcd_task_end(struct etcd_task *task);
/* Asks the transaction; `step` hears the answer. False: failed, and the task has ended. */
bool etcd_task_ask(struct etcd_task *task, struct etcd_txn *txn,
                   void (*step)(struct etcd_task *task, const Api__TxnResponse *response));
/* Reads the view of an answer; false: it was not readable and the task has ended, or it was not
 * enough and `step` will hear a better one. */
bool etcd_task_view(struct etcd_task *task, const Api__TxnResponse *response);
/* A transaction of the view's reads alone, then `step`; what is known is not searched for. */
void etcd_task_look(struct etcd_task *task,
                    void (*step)(struct etcd_task *task, const Api__TxnResponse *response));
/* The view's reads, with the seat's own place if it has one. */
void etcd_task_add_view(struct etcd_task *task, struct etcd_txn *txn, struct etcd_view_keys *keys);
/* Answers, and the end of the task. */
void etcd_task_done(struct etcd_task *task);
void etcd_task_refuse(struct etcd_task *task, int error, const char *why);
void etcd_task_fail(struct etcd_task *task, enum bw_outcome outcome, int error, const char *why);

/* ---- seat.c ---- */
/* NULL: none, or no memory for one. */
struct etcd_seat *etcd_seat_find(struct bw_store *store, const char *election,
                                 const char *candidate, bool make);
/* Behind the tasks of the seat that are there; begins it when it is its turn. */
void etcd_seat_queue(struct etcd_seat *seat, struct etcd_task *task);
void etcd_seat_next(struct etcd_seat *seat, struct etcd_task *ended);
/* Gets a lease if there is none and puts the candidate into line; then `then`, with the view. */
void etcd_seat_take_place(struct etcd_task *task, void (*then)(struct etcd_task *task));
/* What a view says about the seat. */
void etcd_seat_learn(struct etcd_seat *seat, const struct etcd_view *view);
/* The server knows nothing of them any more. */
void etcd_seats_forget(struct bw_store *store);
/* A sign of life for its lease. False: not connected. */
bool etcd_seat_keep(struct etcd_seat *seat);
/* The seat's line is empty: this task, not queued, gets it its place back. */
void etcd_seat_take_back(struct etcd_seat *seat, struct etcd_task *task,
                         void (*then)(struct etcd_task *task));
/* The socket that the lease of our leader there is bound to; -1: none. */
int etcd_seats_hold(struct bw_store *store, const char *election,
                    unsigned char proof[BW_HOLD_PROOF]);
/* Every so often: leases of those in line, renewals without answer. */
void etcd_seats_beat(struct bw_store *store);
void etcd_seats_free(struct bw_store *store);

/* ---- ops.c, list.c, watch.c: begin a request ---- */
void etcd_begin(struct etcd_task *task);
/* The lease's answer to a task that waits for it. */
void etcd_kept(struct etcd_task *task, enum etcd_keep keep, uint64_t term);
void etcd_list_begin(struct etcd_task *task);
void etcd_watch_begin(struct etcd_task *task);
void etcd_watch_drop(struct etcd_task *task);
void etcd_watches_restart(struct bw_store *store);
void etcd_watches_free(struct bw_store *store);

#endif
