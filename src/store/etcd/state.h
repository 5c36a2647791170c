/* Internals of the etcd store: store.c (open, URL), campaign.c (candidates of this process and
 * their leases), task.c (requests in flight), ops.c (what each request does), list.c and
 * watch.c. */
#ifndef BW_STORE_ETCD_STATE_H
#define BW_STORE_ETCD_STATE_H

#include "store/etcd/client.h"
#include "store/etcd/view.h"
#include "store/kit/job.h"
#include "store/kit/url.h"

/* Maximum number of candidates of this process. Each has its own lease. */
#define ETCD_CAMPAIGNS_MAX    65536u
#define ETCD_CAMPAIGN_BUCKETS 1024u

struct etcd_task;
struct etcd_watch;

enum etcd_keep {
    ETCD_KEEP_NONE, /* no keepalive sent */
    ETCD_KEEP_ASKED,
    ETCD_KEPT,      /* the lease lasts a whole TTL from after the keepalive was sent */
    ETCD_KEEP_GONE, /* the server does not know the lease */
    ETCD_KEEP_TIMEOUT
};

/* One candidate of this process in one election: its lease, its election key, its position in the
 * queue.
 *
 * Invariants:
 * - tasks that change a campaign run one at a time, in the order of their requests
 * - taken implies: first in the queue, and the record names this leadership
 * - fresh implies: first in the queue, not taken, and no attempt to take since `view` was read */
struct etcd_campaign {
    struct bw_store *store;
    struct etcd_campaign *chain; /* next in the same hash bucket */
    struct etcd_campaign *next;  /* list of all campaigns */
    char election[BW_ELECTION_NAME_MAX + 1], candidate[BW_CANDIDATE_ID_MAX + 1];
    struct etcd_names names;
    int64_t lease; /* 0: none */
    int64_t granted_s;
    int64_t create; /* create revision of its key; 0: not in the queue, as far as known */
    uint64_t bound; /* number of the connection that its lease is bound to; 0: none */
    bool wanted;    /* is in the queue, or should be */
    bool taken;     /* leads, as far as known */
    bool fresh;     /* may take the record now, according to `view` */
    uint64_t asked_ms, kept_ms;
    uint64_t keeps_sent, keeps_received; /* keepalives on the current stream */
    char value[BW_VALUE_MAX + 1];        /* value that it publishes */
    int64_t revision;                    /* revision of the newest view; older views are ignored */
    struct etcd_view view;               /* newest view in which it was first */
    struct etcd_known known;
    struct etcd_foreign foreign;    /* predecessor that is not a Bellwether candidate */
    struct etcd_task *first, *last; /* queue of tasks that change it */
};

/* A request in flight. Tasks of one campaign run one after the other. */
struct etcd_task {
    struct bw_store *store;
    struct etcd_task *next, *previous; /* list of all tasks */
    struct etcd_task *behind;          /* next task of the same campaign */
    struct bw_job *job;                /* NULL: the request was cancelled */
    struct etcd_campaign *campaign;    /* campaign whose view it reads; NULL: none */
    struct etcd_names names;
    bool queued;             /* in the queue of its campaign */
    bool in_flight;          /* waits for the server's response */
    bool light;              /* read known keys instead of searching */
    bool looking;            /* may still read once more */
    struct etcd_known known; /* known keys that the read used */
    void (*step)(struct etcd_task *task, const Api__TxnResponse *response);
    void (*failed)(struct etcd_task *task, const struct bw_grpc_result *result);
    void (*then)(struct etcd_task *task); /* called when its campaign is in the queue */
    unsigned tries;
    int64_t floor; /* the store's revision when it was sent */
    struct etcd_view view;
    /* ACQUIRE, RENEW: DONE when both the transaction and the keepalive were answered. */
    bool seen;
    enum etcd_keep keep;
    uint64_t keep_number, keep_until_ms, keep_term;
    struct etcd_watch *watch[2]; /* WATCH */
    bool lost, watched;          /* WATCH: must start again when connected; has started once */
    struct bw_candidate *list;   /* LIST */
    uint32_t list_count;
    int64_t list_from;
};

/* One watch on the server. */
struct etcd_watch {
    struct etcd_watch *next, *previous;
    struct etcd_task *task; /* NULL: its task has ended */
    unsigned which;
    int64_t id; /* -1: not yet created */
};

struct bw_store {
    const struct bw_store_ops *ops;
    struct bw_jobs jobs;
    uv_loop_t *loop;
    uv_timer_t timer;
    struct etcd_client *client;
    struct bw_tls_config *tls;
    char prefix[ETCD_PREFIX_MAX + 1];
    char version[32]; /* version reported by the first server; "": none yet */
    uint64_t cluster; /* cluster id of the first response; 0: none yet */
    /* highest revision seen; a later request must not be answered with a lower one */
    int64_t revision;
    /* the server has lost data: leaders seen before may still work until then */
    uint64_t quiet_until_ms;
    bw_time ttl_least, ttl_most;
    uint64_t timeout_ms;
    struct etcd_campaign *buckets[ETCD_CAMPAIGN_BUCKETS], *campaigns;
    uint32_t campaign_count;
    struct etcd_task *tasks;
    struct etcd_stream *keeper, *watcher;
    struct etcd_watch *watches, *watches_last; /* in the order of their requests */
    unsigned handles;
    bool closed;
};

/* ---- store.c ---- */
/* Starts the timer that keeps leases alive and restarts lost watches. */
void etcd_start_timer(struct bw_store *store);

/* ---- task.c ---- */
/* Creates the task of a job. NULL: out of memory. */
struct etcd_task *etcd_task_new(struct bw_store *store, struct bw_job *job);
/* Frees the task, whether its job was answered or not. The campaign's next task begins. */
void etcd_task_end(struct etcd_task *task);
/* Sends the transaction; `step` gets the response. If it cannot be sent, ends the task and returns
 * false. */
bool etcd_task_ask(struct etcd_task *task, struct etcd_txn *txn,
                   void (*step)(struct etcd_task *task, const Api__TxnResponse *response));
/* Reads the view in a response. Returns false if it was malformed and the task has ended, or if it
 * was insufficient and `step` will get a better one. */
bool etcd_task_view(struct etcd_task *task, const Api__TxnResponse *response);
/* Sends a transaction that only reads the view, then `step`. Known keys are read directly, without
 * a search. */
void etcd_task_read(struct etcd_task *task,
                    void (*step)(struct etcd_task *task, const Api__TxnResponse *response));
/* Adds the view's reads to a transaction, with the campaign's own key if it has one. */
void etcd_task_add_view(struct etcd_task *task, struct etcd_txn *txn, struct etcd_view_keys *keys);
/* Answer the job and end the task. */
void etcd_task_done(struct etcd_task *task);
void etcd_task_refuse(struct etcd_task *task, int error, const char *why);
void etcd_task_fail(struct etcd_task *task, enum bw_outcome outcome, int error, const char *why);
/* BW_EDENIED if the server refuses the user, otherwise BW_EIO. */
int etcd_error(const struct bw_grpc_result *result);

/* ---- campaign.c ---- */
/* Finds a campaign, or makes one. NULL: none found, or out of memory. */
struct etcd_campaign *etcd_campaign_find(struct bw_store *store, const char *election,
                                         const char *candidate, bool make);
/* Queues a task behind the other tasks of the campaign, and begins it when it is its turn. */
void etcd_campaign_queue_task(struct etcd_campaign *campaign, struct etcd_task *task);
void etcd_campaign_end_task(struct etcd_campaign *campaign, struct etcd_task *ended);
/* Gets a lease if there is none, puts the candidate into the queue, and calls `then` with the
 * view. */
void etcd_campaign_join(struct etcd_task *task, void (*then)(struct etcd_task *task));
/* Updates a campaign from a view. */
void etcd_campaign_update(struct etcd_campaign *campaign, const struct etcd_view *view);
/* Resets all campaigns: the server has lost their data. */
void etcd_campaigns_forget(struct bw_store *store);
/* Sends a keepalive for the campaign's lease. Returns false if not connected. */
bool etcd_campaign_keep_alive(struct etcd_campaign *campaign);
/* Puts a candidate back into the queue after its lease expired. The campaign has no other task, and
 * this task was not queued. */
void etcd_campaign_rejoin(struct etcd_campaign *campaign, struct etcd_task *task,
                          void (*then)(struct etcd_task *task));
/* Returns the socket that the lease of our leader in this election is bound to; -1: none. */
int etcd_campaigns_hold(struct bw_store *store, const char *election,
                        unsigned char proof[BW_HOLD_PROOF]);
/* Called by the timer: keeps leases of waiting candidates alive, and times out keepalives. */
void etcd_campaigns_tick(struct bw_store *store);
void etcd_campaigns_free(struct bw_store *store);

/* ---- ops.c, list.c, election_names.c, watch.c: begin a request ---- */
void etcd_begin(struct etcd_task *task);
/* Delivers the result of a keepalive to the task that waits for it. */
void etcd_keep_answered(struct etcd_task *task, enum etcd_keep keep, uint64_t term);
void etcd_list_begin(struct etcd_task *task);
void etcd_names_begin(struct etcd_task *task);
void etcd_watch_begin(struct etcd_task *task);
void etcd_watch_drop(struct etcd_task *task);
void etcd_watches_restart(struct bw_store *store);
void etcd_watches_free(struct bw_store *store);

#endif
