/* Internal declarations of the PostgreSQL store; users include store.h only.
 *
 *   store.c       the interface: open, request, cancel, close
 *   settings.c    settings in the URL
 *   sql.c         the schema and the statements
 *   names.c       the addresses of the hosts
 *   client.c      one connection: connect, timeouts, reconnect
 *   error_line.c  messages of the server and of libpq, as one line
 *   setup.c       checks of a server before it is used
 *   batch.c       many requests in one transaction, in one round trip
 *   ops.c         statements and answers of a request
 *   verdict.c     the effect of a request on a record
 *   rows.c        cache of rows
 *   watch.c       watches
 *   candidates.c  candidate entries
 *
 * All code runs on the loop's thread, with libpq's non-blocking calls. The loop's worker threads
 * resolve names, so libpq gets addresses only. */
#ifndef BW_STORE_POSTGRES_STATE_H
#define BW_STORE_POSTGRES_STATE_H

#include "core/base/rng.h"
#include "store/kit/job.h"
#include "store/kit/url.h"

#include <libpq-fe.h>

/* length of the name of a schema or table: channel names contain both and have at most 63 bytes */
#define BW_PG_NAME_MAX   29u
#define BW_PG_PLACES_MAX 32u         /* addresses of all hosts */
#define BW_PG_BATCH_MAX  64u         /* requests per transaction, which locks their rows */
#define BW_PG_TRIES_MAX  16u         /* attempts per write if its row changes meanwhile */
#define BW_PG_ROWS_MAX   4096u       /* cached rows; more while requests and watches use them */
#define BW_PG_LISTED_MAX 1000u       /* entries returned by LIST */
#define BW_PG_ANSWER_MAX (16u << 20) /* bytes of one reply; valid replies are much smaller */

/* ---- the URL ---- */

struct bw_pg_settings {
    struct bw_url url;
    char schema[BW_PG_NAME_MAX + 1], table[BW_PG_NAME_MAX + 1];
    bw_time poll_ns; /* poll interval if the server cannot notify */
    char password[512];
};

/* Names of the libpq settings that a URL may contain; NULL-terminated. */
extern const char *const bw_pg_libpq_keys[];
/* Returns 0, or BW_EINVAL with a line in why. */
int bw_pg_settings_read(struct bw_pg_settings *settings, const char *text, char *why);

/* ---- statements ---- */

/* comment on the table: identifies it as Bellwether's */
#define BW_PG_COMMENT "bellwether store, layout 1"

enum bw_pg_statement {
    BW_PG_INSPECT, /* inspects server and schema: table */
    BW_PG_LISTEN,  /* no parameters */
    BW_PG_READ,    /* election */
    BW_PG_INSERT,  /* election, 0, new version, record, note, new token?, lowest token */
    BW_PG_UPDATE,  /* election, expected version, then as INSERT */
    BW_PG_ENTER,   /* election, candidate, value, priority, process */
    BW_PG_LEAVE,   /* election, candidate, process */
    BW_PG_LIST,    /* election */
    BW_PG_NAMES,   /* no parameters */
    BW_PG_STATEMENTS
};

/* Columns of READ, INSERT, UPDATE, ENTER and LEAVE. The result always has one row. All columns but
 * BW_PG_PID are null if there is no record. */
enum bw_pg_column { BW_PG_PID, BW_PG_VERSION, BW_PG_TOKEN, BW_PG_RECORD, BW_PG_NOTE };

/* Returns a statement's text for these settings; the caller frees it. NULL: out of memory. */
char *bw_pg_statement_text(enum bw_pg_statement statement, const struct bw_pg_settings *settings);
char *bw_pg_schema_text(const struct bw_pg_settings *settings);
/* Writes "schema.table", quoted. */
void bw_pg_table_name(const struct bw_pg_settings *settings, char out[2 * BW_PG_NAME_MAX + 8]);

/* ---- rows ---- */

struct bw_pg_row {
    struct bw_pg_row *chain;         /* next in the same bucket */
    struct bw_pg_row *newer, *older; /* by last use */
    struct bw_job *watchers;         /* linked by their context */
    uint32_t users;                  /* tasks and watchers */
    /* known: the fields below were read, maybe on an earlier connection; stale: changed since
         */
    bool known, stale;
    bool reading, read_again; /* a read for the watchers is in progress; read once more after it */
    uint64_t version;
    bw_token token;
    bw_token highest;    /* highest token seen; a server that lost data must not issue lower ones */
    char *record, *note; /* JSON */
    /* The server lost a leadership that this process saw. `lost_record` is the record of that
     * leadership. It is shown under the version `lost_version` until a candidate holds the row, so
     * that candidates wait until its TTL has expired. */
    uint64_t lost_version;
    char *lost_record;
    char election[];
};

/* ---- one request in progress, or a read or entry by the store itself ---- */

enum bw_pg_step { BW_PG_READING, BW_PG_WRITING };

struct bw_pg_task {
    struct bw_pg_task *next;
    struct bw_job *job; /* NULL: cancelled, or started by the store */
    struct bw_pg_row *row;
    struct bw_pg_entered *entered;  /* entry to renew; job is NULL */
    enum bw_pg_statement statement; /* last statement sent */
    enum bw_pg_step step;
    unsigned tries;
    bool own;   /* started by the store: a read or the renewal of an entry */
    bool alone; /* failed in a batch: sent alone from now on */
    PGresult *result;
};

struct bw_pg_queue {
    struct bw_pg_task *first, **end;
};

/* ---- the connection ---- */

enum bw_pg_state {
    BW_PG_DOWN, /* backoff before the next attempt; requests fail at once */
    BW_PG_RESOLVING,
    BW_PG_CONNECTING,
    BW_PG_SETTING_UP,
    BW_PG_READY
};

enum bw_pg_setup { BW_PG_INSPECTING, BW_PG_CREATING, BW_PG_LISTENING };

struct bw_pg_place {
    char host[256], address[64]; /* no address: directory of a Unix socket, or libpq's default */
    uint16_t port;
};

struct bw_pg_link {
    enum bw_pg_state state;
    PGconn *conn;
    uv_poll_t *poll; /* polls the current socket; replaced when the socket is */
    uv_timer_t limit, retry;
    struct bw_pg_resolving *resolver; /* name lookup in progress; NULL: none */
    unsigned generation;              /* changes whenever `conn` is closed */
    uint64_t ready_at;                /* on the loop's clock, in ms */
    struct bw_pg_place places[BW_PG_PLACES_MAX];
    uint32_t place_count, place;
    uint32_t resolving; /* next host to resolve */
    unsigned failures;  /* failed rounds over all places */
    size_t received;    /* bytes since the last complete reply */
    int pid;            /* pid of the server process that notifies this store */
    enum bw_pg_setup setup;
    PGresult *last;  /* setup: the latest result of the statement */
    uint32_t denied; /* places of this round that denied access */
    /* the store just created the schema on this connection and inspects it once more */
    bool created;
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
    /* tasks to be sent; urgent ones (renewals and releases) first */
    struct bw_pg_queue urgent, waiting;
    struct bw_pg_task *sent, *at; /* the batch in progress; the task whose results arrive next */
    bool failed;                  /* the batch failed: none of it took effect */
    struct bw_pg_row **buckets, *newest, *oldest;
    uint32_t row_count;
    uv_timer_t poll, refresh;
    int64_t process; /* random, marks the candidate entries of this process */
    struct bw_pg_entered *entered;
    bw_time limit_ns; /* timeout for the server, derived from the shortest lease seen */
    bool polled;      /* this connection gets no notifications */
    char server[64];  /* "PostgreSQL 15.1" and relevant settings */
    char about[BW_WHY_MAX + 1];
    uint32_t handles; /* open handles and jobs; the memory is freed when 0 */
};

/* client.c */
int bw_pg_link_open(struct bw_store *store);
void bw_pg_link_start(struct bw_store *store);
void bw_pg_link_close(struct bw_store *store);
/* Sends the queued bytes, and starts the timeout for the reply. */
void bw_pg_link_flush(struct bw_store *store);
void bw_pg_link_ready(struct bw_store *store);
/* Ends the connection and opens another one. The outcome of sent requests is unknown. */
__attribute__((format(printf, 2, 3))) void bw_pg_link_drop(struct bw_store *store,
                                                           const char *format, ...);
/* The current server is unusable: tries the next one. */
__attribute__((format(printf, 2, 3))) void bw_pg_link_next(struct bw_store *store,
                                                           const char *format, ...);
/* Connects to the current place, or backs off after the last one. */
void bw_pg_link_attempt(struct bw_store *store);
/* Starts the timeout. */
void bw_pg_link_limit(struct bw_store *store);
/* Why there is no connection: BW_EDENIED if every server denies access, otherwise BW_EIO. */
int bw_pg_link_error(const struct bw_store *store);

/* names.c */
/* Resolves the next host. After the last host, starts the first attempt to connect. */
void bw_pg_resolve(struct bw_store *store);
void bw_pg_resolve_stop(struct bw_store *store);

/* error_line.c */
/* Copies libpq's message as one line. */
void bw_pg_line(char *out, const char *message);
void bw_pg_error_line(char *out, const PGresult *result);

/* setup.c */
void bw_pg_setup_begin(struct bw_store *store);
void bw_pg_setup_result(struct bw_store *store, PGresult *result);
/* Writes a description of the server to `about`. `problem`: why the server cannot notify; NULL: it
 * can. */
void bw_pg_about(struct bw_store *store, const char *problem);

/* batch.c */
/* Creates a task for a job (NULL: started by the store) and a row. NULL: out of memory. */
struct bw_pg_task *bw_pg_task_new(struct bw_job *job, struct bw_pg_row *row);
void bw_pg_task_free(struct bw_store *store, struct bw_pg_task *task);
void bw_pg_queue_add(struct bw_store *store, struct bw_pg_task *task);
/* puts the task back at the front of the queue */
void bw_pg_queue_again(struct bw_store *store, struct bw_pg_task *task);
/* Returns false if the task was already sent. */
bool bw_pg_queue_remove(struct bw_store *store, struct bw_pg_task *task);
void bw_pg_batch_send(struct bw_store *store);
/* Handles one result. NULL: end of a statement's results. */
void bw_pg_batch_result(struct bw_store *store, PGresult *result);
/* Handles the end of the connection: the outcome of sent tasks is unknown; the others were not
 * executed. */
void bw_pg_batch_lost(struct bw_store *store, const char *why);
void bw_pg_queue_fail(struct bw_store *store, const char *why);

/* ops.c */
/* Sends the task's next statement; false if libpq rejects it. */
bool bw_pg_task_send(struct bw_store *store, struct bw_pg_task *task);
/* The result is committed: answers the request, or queues the task again. */
void bw_pg_task_result(struct bw_store *store, struct bw_pg_task *task);
/* The statement failed on its own: answers the request, or queues the task again. */
void bw_pg_task_error(struct bw_store *store, struct bw_pg_task *task);
bool bw_pg_task_writes(const struct bw_pg_task *task);

/* rows.c */
/* Finds the cached row of an election, or adds it. NULL: out of memory. */
struct bw_pg_row *bw_pg_row_get(struct bw_store *store, const char *election);
struct bw_pg_row *bw_pg_row_find(struct bw_store *store,
                                 const char *election); /* NULL: not cached */
void bw_pg_row_use(struct bw_pg_row *row);
void bw_pg_row_leave(struct bw_store *store, struct bw_pg_row *row);
/* Stores the row of a result and notifies watchers. Returns 0, BW_EMALFORMED or BW_ENOMEM. */
int bw_pg_row_store(struct bw_store *store, struct bw_pg_row *row, const PGresult *result);
/* The record as shown to readers, before bw_pg_present. */
int bw_pg_row_record(const struct bw_pg_row *row, struct bw_store_record *record);
uint64_t bw_pg_shown_version(const struct bw_pg_row *row);
void bw_pg_present(struct bw_store_record *record);
void bw_pg_rows_free(struct bw_store *store);

/* watch.c */
void bw_pg_notify_watchers(struct bw_store *store, struct bw_pg_row *row);
void bw_pg_watch(struct bw_store *store, struct bw_job *job);
void bw_pg_unwatch(struct bw_store *store, struct bw_job *job);
void bw_pg_row_refreshed(struct bw_store *store, struct bw_pg_row *row);
void bw_pg_notified(struct bw_store *store, const char *payload);
void bw_pg_watch_fail(struct bw_store *store, const char *why);
/* Polls all watched rows at an interval. */
void bw_pg_poll_start(struct bw_store *store);

/* candidates.c */
struct bw_pg_entered {
    struct bw_pg_entered *next;
    int32_t priority;
    bool pending, gone;                /* being sent to the server; the candidate left meanwhile */
    const char *election, *id, *value; /* point into `text` */
    char text[];
};

void bw_pg_list_answer(struct bw_job *job, const PGresult *result);
void bw_pg_names_answer(struct bw_job *job, const PGresult *result);
/* Candidates of this process. They are listed as long as the store renews their entries. */
void bw_pg_enter(struct bw_store *store, const struct bw_store_request *request);
void bw_pg_leave(struct bw_store *store, const struct bw_store_request *request);
void bw_pg_entered_done(struct bw_pg_entered *entered); /* the task of the entry has ended */
void bw_pg_entered_free(struct bw_store *store);
void bw_pg_enter_again(struct bw_store *store);

#endif
