/* The connection to PostgreSQL, which the store replaces when it breaks.
 *
 * The store tries each address of each host in turn, each within the timeout, and then starts again
 * after a jittered backoff. No call blocks: the loop's worker threads resolve names and libpq gets
 * addresses. A statement without a reply within the timeout ends the connection, even if the kernel
 * considers it alive.
 *
 * Requests wait while a connection attempt runs and fail during the backoff. */
#include "store/postgres/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define RETRY_MIN_MS 50u
#define RETRY_MAX_MS 1000u
#define SETTLED_MS   1000u /* a connection that broke sooner is replaced only after a backoff */
#define KEYWORDS_MAX 40u

/* ---- the socket ---- */

static void free_poll(uv_handle_t *handle)
{
    free(handle);
}

static void forget_socket(struct bw_pg_link *link)
{
    if (link->poll)
        uv_close((uv_handle_t *)link->poll, free_poll);
    link->poll = NULL;
}

static void on_socket(uv_poll_t *poll, int status, int events);

/* libpq may replace its socket at any step of connecting and reuse the descriptor number. */
static bool watch_socket(struct bw_store *store, int events)
{
    struct bw_pg_link *link = &store->link;
    int fd = PQsocket(link->conn);
    forget_socket(link);
    link->poll = fd >= 0 ? calloc(1, sizeof *link->poll) : NULL;
    if (!link->poll)
        return false;
    if (uv_poll_init(store->loop, link->poll, fd) != 0) {
        free(link->poll);
        link->poll = NULL;
        return false;
    }
    link->poll->data = store;
    return uv_poll_start(link->poll, events, on_socket) == 0;
}

static void close_connection(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    forget_socket(link);
    uv_timer_stop(&link->limit);
    PQclear(link->last);
    link->last = NULL;
    PQfinish(link->conn);
    link->conn = NULL;
    link->generation++;
    link->received = 0;
}

/* ---- failure ---- */

static void on_retry(uv_timer_t *timer)
{
    bw_pg_link_start(timer->data);
}

static void back_off(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    unsigned shift = link->failures < 6 ? link->failures : 6;
    uint64_t pause = RETRY_MIN_MS << shift;
    pause = pause > RETRY_MAX_MS ? RETRY_MAX_MS : pause;
    pause = pause / 2 + bw_rng_below(&store->rng, pause / 2 + 1);
    link->failures++;
    link->state = BW_PG_DOWN;
    uv_timer_start(&link->retry, on_retry, pause, 0);
    bw_pg_queue_fail(store, link->why);
    bw_pg_watch_fail(store, link->why);
}

static void set_why(struct bw_store *store, const char *format, va_list arguments)
{
    struct bw_pg_link *link = &store->link;
    char text[1024], line[BW_WHY_MAX + 1];
    const struct bw_pg_place *place = &link->places[link->place];
    vsnprintf(text, sizeof text, format, arguments);
    bw_pg_line(line, text);
    bool placed = link->place < link->place_count && place->host[0];
    if (!placed || strncmp(line, "connection to server", 20) == 0)
        bw_store_explain(link->why, 0, "PostgreSQL: %s", line);
    else
        bw_store_explain(link->why, 0, "PostgreSQL at %s:%u: %s", place->host,
                         place->port ? place->port : 5432u, line);
}

void bw_pg_link_next(struct bw_store *store, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_why(store, format, arguments);
    va_end(arguments);
    close_connection(store);
    store->link.place++;
    bw_pg_link_attempt(store);
}

void bw_pg_link_drop(struct bw_store *store, const char *format, ...)
{
    struct bw_pg_link *link = &store->link;
    va_list arguments;
    va_start(arguments, format);
    set_why(store, format, arguments);
    va_end(arguments);
    bool settled = uv_now(store->loop) - link->ready_at >= SETTLED_MS;
    close_connection(store);
    bw_pg_batch_lost(store, link->why);
    bw_pg_watch_fail(store, link->why);
    if (settled)
        bw_pg_link_start(store);
    else
        back_off(store);
}

static void on_limit(uv_timer_t *timer)
{
    struct bw_store *store = timer->data;
    struct bw_pg_link *link = &store->link;
    double seconds = (double)store->limit_ns / BW_SEC;
    if (link->state == BW_PG_READY)
        bw_pg_link_drop(store, "no reply in %.1f s", seconds);
    else if (link->state == BW_PG_RESOLVING)
        bw_pg_resolve(store);
    else
        bw_pg_link_next(store, "no reply in %.1f s", seconds);
}

int bw_pg_link_error(const struct bw_store *store)
{
    const struct bw_pg_link *link = &store->link;
    bool all = link->denied > 0 && link->denied == link->place_count;
    return all && link->state == BW_PG_DOWN ? BW_EDENIED : BW_EIO;
}

void bw_pg_link_limit(struct bw_store *store)
{
    uv_update_time(store->loop);
    uv_timer_start(&store->link.limit, on_limit, (uint64_t)(store->limit_ns / BW_MS), 0);
}

/* ---- connecting ---- */

void bw_pg_link_start(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    link->state = BW_PG_RESOLVING;
    link->place = link->place_count = link->resolving = link->denied = 0;
    bw_pg_resolve(store);
}

struct words {
    const char *key[KEYWORDS_MAX], *value[KEYWORDS_MAX];
    unsigned count;
};

static void add_word(struct words *words, const char *key, const char *value)
{
    if (!value || !value[0] || words->count == KEYWORDS_MAX - 1)
        return;
    words->key[words->count] = key;
    words->value[words->count++] = value;
}

/* If a keyword occurs twice, libpq uses the last one, so the URL's settings are added last. */
static PGconn *begin(const struct bw_pg_settings *settings, const struct bw_pg_place *place)
{
    struct words words = {.count = 0};
    char port[8] = "";
    if (place->port)
        snprintf(port, sizeof port, "%u", place->port);
    add_word(&words, "host", place->host);
    add_word(&words, "hostaddr", place->address);
    add_word(&words, "port", port);
    add_word(&words, "dbname", settings->url.path);
    add_word(&words, "user", settings->url.user);
    add_word(&words, "password", settings->password);
    add_word(&words, "client_encoding", "UTF8");
    add_word(&words, "fallback_application_name", "bellwether");
    add_word(&words, "gssencmode", "disable"); /* its handshake blocks */
    add_word(&words, "target_session_attrs", "read-write");
    for (unsigned i = 0; bw_pg_libpq_keys[i]; i++)
        add_word(&words, bw_pg_libpq_keys[i], bw_url_query(&settings->url, bw_pg_libpq_keys[i]));
    return PQconnectStartParams(words.key, words.value, 0);
}

void bw_pg_link_attempt(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    if (link->place >= link->place_count) {
        back_off(store);
        return;
    }
    link->state = BW_PG_CONNECTING;
    link->conn = begin(&store->settings, &link->places[link->place]);
    if (!link->conn || PQstatus(link->conn) == CONNECTION_BAD)
        bw_pg_link_next(store, "%s", link->conn ? PQerrorMessage(link->conn) : "no memory");
    else if (!watch_socket(store, UV_WRITABLE))
        bw_pg_link_next(store, "cannot poll the socket");
    else {
        PQsetErrorVerbosity(link->conn, PQERRORS_VERBOSE);
        bw_pg_link_limit(store);
    }
}

static void connected(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    link->state = BW_PG_SETTING_UP;
    PQsetErrorVerbosity(link->conn, PQERRORS_DEFAULT);
    PQsetnonblocking(link->conn, 1);
    if (watch_socket(store, UV_READABLE))
        bw_pg_setup_begin(store);
    else
        bw_pg_link_next(store, "cannot poll the socket");
}

/* True if authentication failed or the user may not connect: SQLSTATE class 28. libpq's message
 * contains the SQLSTATE only at verbose verbosity. */
static bool is_denial(const char *message)
{
    return strstr(message, ":  28P01: ") || strstr(message, ":  28000: ");
}

static void cannot_connect(struct bw_store *store)
{
    char message[1024];
    snprintf(message, sizeof message, "%s", PQerrorMessage(store->link.conn));
    char *location = strstr(message, "\nLOCATION:");
    if (location)
        *location = '\0'; /* position in the server's source code */
    store->link.denied += is_denial(message);
    bw_pg_link_next(store, "%s", message);
}

static void continue_connecting(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    PostgresPollingStatusType status = PQconnectPoll(link->conn);
    if (status == PGRES_POLLING_OK)
        connected(store);
    else if (status == PGRES_POLLING_FAILED)
        cannot_connect(store);
    else if (!watch_socket(store, status == PGRES_POLLING_READING ? UV_READABLE : UV_WRITABLE))
        bw_pg_link_next(store, "cannot poll the socket");
}

/* ---- sending and receiving ---- */

static void fail(struct bw_store *store, const char *why)
{
    if (store->link.state == BW_PG_READY)
        bw_pg_link_drop(store, "%s", why);
    else
        bw_pg_link_next(store, "%s", why);
}

void bw_pg_link_flush(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    int left = PQflush(link->conn);
    if (left < 0) {
        fail(store, PQerrorMessage(link->conn));
        return;
    }
    uv_poll_start(link->poll, left ? UV_READABLE | UV_WRITABLE : UV_READABLE, on_socket);
    if (!uv_is_active((uv_handle_t *)&link->limit) || link->received == 0)
        bw_pg_link_limit(store);
}

void bw_pg_link_ready(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    link->state = BW_PG_READY;
    link->failures = 0;
    link->received = 0;
    link->ready_at = uv_now(store->loop);
    uv_timer_stop(&link->limit);
    bw_pg_poll_start(store);
    bw_pg_enter_again(store); /* also sends the waiting requests */
}

/* Returns false if the connection ended. */
static bool take_input(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    int waiting = 0;
    if (ioctl(PQsocket(link->conn), FIONREAD, &waiting) == 0 && waiting > 0)
        link->received += (size_t)waiting;
    if (PQconsumeInput(link->conn) != 1)
        fail(store, PQerrorMessage(link->conn));
    else if (link->received > BW_PG_ANSWER_MAX)
        fail(store, "the reply is larger than 16 MiB");
    else
        return true;
    return false;
}

/* libpq cannot parse the input, or the server closed the session with an error. */
static void fail_with(struct bw_store *store, PGresult *result)
{
    char line[BW_WHY_MAX + 1];
    bw_pg_line(line, PQerrorMessage(store->link.conn));
    if (result && PQresultStatus(result) == PGRES_FATAL_ERROR)
        bw_pg_error_line(line, result);
    PQclear(result);
    fail(store, line[0] ? line : "the connection broke");
}

static void take_results(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    unsigned generation = link->generation;
    while (link->generation == generation && (link->state == BW_PG_SETTING_UP || store->sent) &&
           !PQisBusy(link->conn)) {
        PGresult *result = PQgetResult(link->conn);
        if (PQstatus(link->conn) == CONNECTION_BAD)
            fail_with(store, result);
        else if (link->state == BW_PG_SETTING_UP)
            bw_pg_setup_result(store, result);
        else
            bw_pg_batch_result(store, result);
    }
    if (link->generation != generation || link->state != BW_PG_READY)
        return;
    PGnotify *notify;
    while ((notify = PQnotifies(link->conn))) {
        bw_pg_notified(store, notify->extra);
        PQfreemem(notify);
    }
    if (!store->sent) {
        link->received = 0;
        uv_timer_stop(&link->limit);
        bw_pg_batch_send(store);
    }
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
    struct bw_store *store = poll->data;
    struct bw_pg_link *link = &store->link;
    unsigned generation = link->generation;
    if (link->state == BW_PG_CONNECTING) {
        continue_connecting(store);
        return;
    }
    if (status == 0 && (events & UV_WRITABLE)) {
        int left = PQflush(link->conn);
        if (left == 0)
            uv_poll_start(poll, UV_READABLE, on_socket);
    }
    if (link->generation == generation && take_input(store))
        take_results(store);
}

/* ---- open and close ---- */

int bw_pg_link_open(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    uv_timer_init(store->loop, &link->limit);
    uv_timer_init(store->loop, &link->retry);
    link->limit.data = link->retry.data = store;
    bw_store_explain(link->why, 0, "PostgreSQL: not yet connected");
    return 0;
}

void bw_pg_link_close(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    bw_pg_resolve_stop(store);
    close_connection(store);
    link->state = BW_PG_DOWN;
}
