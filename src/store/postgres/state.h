/* The PostgreSQL store, for its own files; users see store.h alone.
 *
 *   store.c             the interface: open, request, cancel, close
 *   settings.c         what the URL says
 *   sql.c         the schema and the statements
 *   names.c       the addresses of its hosts
 *   client.c        one connection: connect, limits, reconnect
 *   line.c        what the server says, for people
 *   setup.c       what is asked of a server before it is used
 *   batch.c       many requests in one transaction, in one round trip
 *   ops.c       what a request makes of a row
 *   rows.c        the rows last seen
 *   watch.c       who watches them
 *   candidates.c  who contends
 *
 * Everything happens on the loop's thread, through libpq's non-blocking calls; names are resolved
 * by the loop's workers before libpq sees them. */
#ifndef BW_STORE_POSTGRES_H
#define BW_STORE_POSTGRES_H

#include "core/base/rng.h"
#include "store/kit/job.h"
#include "store/kit/url.h"

#include <libpq-fe.h>

#define BW_PG_NAME_MAX   29u         /* of a schema or table: channel names have 63 bytes */
#define BW_PG_PLACES_MAX 32u         /* addresses of all hosts */
#define BW_PG_BATCH_MAX  64u         /* requests in one transaction: it holds their rows locked */
#define BW_PG_TRIES_MAX  16u         /* a write whose row changed under it is tried again */
#define BW_PG_ROWS_MAX   4096u       /* kept; more while requests and watches need them */
#define BW_PG_LISTED_MAX 1000u       /* as LIST has it */
#define BW_PG_ANSWER_MAX (16u << 20) /* bytes of one answer: no honest one comes near */

/* ---- the URL ---- */

struct bw_pg_settings {
    struct bw_url url;
    char schema[BW_PG_NAME_MAX + 1], table[BW_PG_NAME_MAX + 1];
    bw_time poll_ns; /* where the server cannot notify */
    char password[512];
};

/* The settings of libpq that a URL may have; NULL-ended. */
extern const char *const bw_pg_passed_on[];
/* Returns 0, or BW_EINVAL with a line in why. */
int bw_pg_settings_read(struct bw_pg_settings *settings, const char *text, char *why);

/* ---- statements ---- */

#define BW_PG_COMMENT "bellwether store, layout 1" /* of the table: it is ours */

enum bw_pg_statement {
    BW_PG_LOOK,   /* at the server and the schema: table */
    BW_PG_LISTEN, /* takes no parameters */
    BW_PG_READ,   /* election */
    BW_PG_INSERT, /* election, 0, new version, record, note, take a token?, at least this one */
    BW_PG_UPDATE, /* election, seen version, and as INSERT */
    BW_PG_ENTER,  /* election, candidate, value, priority, process */
    BW_PG_LEAVE,  /* election, candidate, process */
    BW_PG_LIST,   /* election */
    BW_PG_STATEMENTS
};

/* Columns of READ, INSERT, UPDATE, ENTER, LEAVE: one row always; the rest is null without a record.
 */
enum bw_pg_column { BW_PG_PID, BW_PG_VERSION, BW_PG_TOKEN, BW_PG_RECORD, BW_PG_NOTE };

/* A statement's text for these settings; the caller frees it. NULL: no memory. */
char *bw_pg_statement_text(enum bw_pg_statement statement, const struct bw_pg_settings *settings);
char *bw_pg_schema_text(const struct bw_pg_settings *settings);
/* "schema.table", quoted. */
void bw_pg_table_name(const struct bw_pg_settings *settings, char out[2 * BW_PG_NAME_MAX + 8]);

/* ---- rows ---- */

struct bw_pg_row {
    struct bw_pg_row *chain;         /* same bucket */
    struct bw_pg_row *newer, *older; /* by last use */
    struct bw_job *watchers;         /* linked by their context */
    uint32_t users;                  /* tasks and watchers */
    bool known,
        stale; /* what follows was seen, maybe on an earlier connection; has changed since */
    bool looking, again; /* a look for the watchers is under way; and news came since */
    uint64_t version;
    bw_token token;
    bw_token highest;    /* ever seen here: a server that has forgotten does not bring one back */
    char *record, *note; /* JSON */
    /* The server has forgotten a leadership that we have seen: `lost` is its record, and it is
     * shown under the version `ghost` until somebody holds the row, so that its TTL is waited out.
     */
    uint64_t ghost;
    char *lost;
    char election[];
};

/* ---- one request on its way, or a look of the store's own ---- */

enum bw_pg_step { BW_PG_ASKING, BW_PG_WRITING };

struct bw_pg_task {
    struct bw_pg_task *next;
    struct bw_job *job; /* NULL: cancelled, or the store's own */
    struct bw_pg_row *row;
    struct bw_pg_entered *entered;  /* to be entered again, where there is no job */
    enum bw_pg_statement statement; /* as sent */
    enum bw_pg_step step;
    unsigned tries;
    bool own;   /* the store's: a look, or an entering again */
    bool alone; /* failed among others: not with them again */
    PGresult *result;
};

struct bw_pg_queue {
    struct bw_pg_task *first, **end;
};

/* ---- the connection ---- */

enum bw_pg_state {
    BW_PG_DOWN, /* waits before it tries again; requests fail at once */
    BW_PG_RESOLVING,
    BW_PG_CONNECTING,
    BW_PG_SETTING_UP,
    BW_PG_READY
};

enum bw_pg_setup { BW_PG_LOOKING, BW_PG_CREATING, BW_PG_LISTENING };

struct bw_pg_place {
    char host[256], address[64]; /* address empty: a socket's directory, or libpq's default */
    uint16_t port;
};

struct bw_pg_link {
    enum bw_pg_state state;
    PGconn *conn;
    uv_poll_t *poll; /* of the present socket; replaced with it */
    uv_timer_t limit, retry;
    struct bw_pg_resolving *resolver; /* a name on its way; NULL: none */
    unsigned generation;              /* of `conn`: it is gone when this has changed */
    uint64_t ready_at;                /* on the loop's clock, in ms */
    struct bw_pg_place places[BW_PG_PLACES_MAX];
    uint32_t place_count, place;
    uint32_t resolving; /* the host being resolved */
    unsigned failures;  /* rounds over all places */
    size_t received;    /* bytes since the last answer was complete */
    int pid;            /* of the server's process that listens for us */
    enum bw_pg_setup setup;
    PGresult *last;  /* of setting up: the statement's latest */
    uint32_t denied; /* places of this round that do not let us in */
    bool created;    /* the schema, on this connection: look again once */
    char why[BW_WHY_MAX + 1];
};

/* ---- the store ---- */

struct bw_store {
    struct bw_jobs jobs;
    struct bw_pg_settings settings;
    struct uv_loop_s *loop;
    struct bw_rng rng;
    char *text[BW_PG_STATEMENTS];
    struct bw_pg_link link;
    struct bw_pg_queue urgent, waiting; /* to be sent; urgent: what holds leaderships */
    struct bw_pg_task *sent, *at;       /* the batch under way; the one whose results come */
    bool failed;                        /* the batch: nothing of it was carried out */
    struct bw_pg_row **buckets, *newest, *oldest;
    uint32_t row_count;
    uv_timer_t poll, refresh;
    int64_t process; /* marks our candidates */
    struct bw_pg_entered *entered;
    bw_time limit_ns; /* how long the server may take; from the shortest lease seen */
    bool polled;      /* no notifications on this connection */
    char server[64];  /* "PostgreSQL 15.1" and what of its settings matters */
    char about[BW_WHY_MAX + 1];
    uint32_t handles; /* open, until the memory may go */
};

/* client.c */
int bw_pg_link_open(struct bw_store *store);
void bw_pg_link_start(struct bw_store *store);
void bw_pg_link_close(struct bw_store *store);
/* Something was sent: write it out, wait for the answer within the limit. */
void bw_pg_link_flush(struct bw_store *store);
void bw_pg_link_ready(struct bw_store *store);
/* The connection is of no use any more. What was sent has an unknown end; another one is made. */
__attribute__((format(printf, 2, 3))) void bw_pg_link_drop(struct bw_store *store,
                                                           const char *format, ...);
/* This server is of no use; the next one is tried. */
__attribute__((format(printf, 2, 3))) void bw_pg_link_next(struct bw_store *store,
                                                           const char *format, ...);
/* Tries the next place. */
void bw_pg_link_attempt(struct bw_store *store);
/* From now on the limit runs. */
void bw_pg_link_limit(struct bw_store *store);
/* Why there is no connection: BW_EDENIED if no server lets us in, else BW_EIO. */
int bw_pg_link_error(const struct bw_store *store);

/* names.c */
/* Goes on with the next host; then the first attempt is made. */
void bw_pg_resolve(struct bw_store *store);
void bw_pg_resolve_stop(struct bw_store *store);

/* line.c */
/* libpq's message as one line. */
void bw_pg_line(char *out, const char *message);
void bw_pg_error_line(char *out, const PGresult *result);

/* setup.c */
void bw_pg_setup_begin(struct bw_store *store);
void bw_pg_setup_result(struct bw_store *store, PGresult *result);
/* What the server is; `trouble` is why it cannot notify, or NULL. */
void bw_pg_about(struct bw_store *store, const char *trouble);

/* batch.c */
/* A task for the job (NULL: the store's own) and a row; NULL: no memory. */
struct bw_pg_task *bw_pg_task_new(struct bw_job *job, struct bw_pg_row *row);
void bw_pg_task_free(struct bw_store *store, struct bw_pg_task *task);
void bw_pg_queue_add(struct bw_store *store, struct bw_pg_task *task);
void bw_pg_queue_again(struct bw_store *store, struct bw_pg_task *task); /* in front */
/* False: it was sent already. */
bool bw_pg_queue_remove(struct bw_store *store, struct bw_pg_task *task);
void bw_pg_batch_send(struct bw_store *store);
void bw_pg_batch_result(struct bw_store *store, PGresult *result); /* NULL: the end of one */
/* The connection is gone: what was sent has an unknown end, the rest was not carried out. */
void bw_pg_batch_lost(struct bw_store *store, const char *why);
void bw_pg_queue_fail(struct bw_store *store, const char *why);

/* ops.c */
/* Sends the task's next statement; false: libpq takes none. */
bool bw_pg_task_send(struct bw_store *store, struct bw_pg_task *task);
/* The result of its statement is there and committed: answers, or queues it again. */
void bw_pg_task_result(struct bw_store *store, struct bw_pg_task *task);
/* Its statement failed alone: answers, or queues it again. */
void bw_pg_task_error(struct bw_store *store, struct bw_pg_task *task);
bool bw_pg_task_writes(const struct bw_pg_task *task);

/* rows.c */
struct bw_pg_row *bw_pg_row_get(struct bw_store *store, const char *election); /* NULL: no memory */
struct bw_pg_row *bw_pg_row_find(struct bw_store *store,
                                 const char *election); /* NULL: none kept */
void bw_pg_row_use(struct bw_pg_row *row);
void bw_pg_row_leave(struct bw_store *store, struct bw_pg_row *row);
/* The row as a result has it; tells watchers. 0, BW_EMALFORMED or BW_ENOMEM. */
int bw_pg_row_store(struct bw_store *store, struct bw_pg_row *row, const PGresult *result);
/* The record as shown, without what is only for readers. */
int bw_pg_row_record(const struct bw_pg_row *row, struct bw_store_record *record);
uint64_t bw_pg_shown_version(const struct bw_pg_row *row);
void bw_pg_present(struct bw_store_record *record);
void bw_pg_rows_free(struct bw_store *store);

/* watch.c */
void bw_pg_tell_watchers(struct bw_store *store, struct bw_pg_row *row);
void bw_pg_watch(struct bw_store *store, struct bw_job *job);
void bw_pg_unwatch(struct bw_store *store, struct bw_job *job);
void bw_pg_look_done(struct bw_store *store, struct bw_pg_row *row);
void bw_pg_notified(struct bw_store *store, const char *payload);
void bw_pg_watch_fail(struct bw_store *store, const char *why);
/* Looks at every watched row, and again and again. */
void bw_pg_poll_start(struct bw_store *store);

/* candidates.c */
struct bw_pg_entered {
    struct bw_pg_entered *next;
    int32_t priority;
    bool pending, gone;                /* on its way to the server; left meanwhile */
    const char *election, *id, *value; /* into `text` */
    char text[];
};

void bw_pg_list_answer(struct bw_job *job, const PGresult *result);
/* A candidate of ours is listed as long as it is entered again and again. */
void bw_pg_enter(struct bw_store *store, const struct bw_store_request *request);
void bw_pg_leave(struct bw_store *store, const struct bw_store_request *request);
void bw_pg_entered_done(struct bw_pg_entered *entered); /* its task has ended */
void bw_pg_entered_free(struct bw_store *store);
void bw_pg_enter_again(struct bw_store *store);

#endif
