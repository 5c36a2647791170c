/* One ZooKeeper session on the loop; see client.h.
 *
 * Only `process` and `call_library` call the library. `handle_session_events` acts on what the
 * library reported after it has returned, because a handle cannot be closed from within
 * the library. The client polls a duplicate of the library's socket: the library opens and closes
 * sockets at any time, and libuv must not poll a descriptor number that was reused. */
#include "store/zookeeper/client.h"
#include "os/grow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define FRAMES_PER_TURN 64     /* frames read before other handles of the loop run */
#define BACKOFF_MIN_MS  50u    /* doubled up to TTL/12 while no server is reachable */
#define LIMIT_MIN_MS    100u   /* lower bound for short TTLs */
#define WHOLE_MAX       65536u /* frames up to this size are checked as a whole */
#define RECEIVE_BYTES   262144 /* so they must fit into the kernel's receive buffer */
#define REST_MS         2u
#define IDLE_MS         60000u
#define HOSTS_TEXT_MAX  (BW_ZK_ADDRESSES_MAX * (BW_ZK_ADDRESS_MAX + 1) + 1)

struct bw_zk_socket {
    uv_poll_t poll;
    struct bw_zk_client *client;
    int fd; /* duplicate descriptor */
    ino_t inode;
    int interest;
};

enum gate { GATE_OPEN, GATE_NOTHING, GATE_WAIT, GATE_SHUT };

static void drive(struct bw_zk_client *client);

static uint64_t ttl_ms(const struct bw_zk_client *client)
{
    return (uint64_t)(client->ttl_ns / BW_MS);
}

/* Longest time to wait for a server. */
static uint64_t limit_ms(const struct bw_zk_client *client)
{
    uint64_t limit = ttl_ms(client) / 8;
    return limit > LIMIT_MIN_MS ? limit : LIMIT_MIN_MS;
}

static uint64_t min_ms(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t jittered(struct bw_zk_client *client, uint64_t span)
{
    return span / 2 + bw_rng_below(&client->rng, span / 2 + 1);
}

/* ---- socket ---- */

static void on_socket_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void drop_socket(struct bw_zk_client *client)
{
    struct bw_zk_socket *s = client->socket;
    if (!s)
        return;
    client->socket = NULL;
    s->client = NULL;
    uv_close((uv_handle_t *)&s->poll, on_socket_closed);
    close(s->fd);
}

/* The library then finds its connection broken and tries the next server. */
static void break_socket(struct bw_zk_client *client)
{
    if (client->socket)
        shutdown(client->socket->fd, SHUT_RDWR);
}

static void handle_session_events(struct bw_zk_client *client);

/* Checks the next frame. A frame is peeked as a whole if it is small. Of a large one (a list of
 * many candidates) only the header is checked, because the kernel buffer would not hold the rest.
 */
static enum gate check_frame(struct bw_zk_client *client, uint32_t length)
{
    struct bw_zk_expected expected;
    size_t whole = 4 + (size_t)length, wanted = whole < WHOLE_MAX ? whole : 4 + BW_ZK_HEADER;
    bw_zk_calls_expect(client, &expected);
    if (!bw_grow(&client->frame, &client->frame_size, wanted, wanted, 1))
        return GATE_SHUT;
    ssize_t got = recv(client->socket->fd, client->frame, wanted, MSG_PEEK | MSG_DONTWAIT);
    if (got < (ssize_t)wanted)
        return GATE_WAIT;
    if (wanted < whole) {
        client->passing = true;
        return bw_zk_frame_begins(client->frame + 4, length, &expected) ? GATE_OPEN : GATE_SHUT;
    }
    return bw_zk_frame_is_good(client->frame + 4, length, &expected) ? GATE_OPEN : GATE_SHUT;
}

/* Decides whether the library may read. From a connected server it reads one frame at a time. */
static enum gate gate(struct bw_zk_client *client)
{
    unsigned char bytes[4];
    bool connected = zoo_state(client->zh) == ZOO_CONNECTED_STATE; /* the watcher is called later */
    if (!connected || client->passing || !client->socket)
        return GATE_OPEN;
    ssize_t got = recv(client->socket->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return GATE_NOTHING; /* frames that arrive from now on are not yet checked */
    if (got <= 0)
        return GATE_OPEN; /* the library handles the end of the stream or the error */
    if (got < (ssize_t)sizeof bytes)
        return GATE_WAIT;
    uint32_t length = bw_zk_frame_length(bytes);
    if (length < BW_ZK_HEADER || length > BW_ZK_FRAME_MAX)
        return GATE_SHUT;
    return check_frame(client, length);
}

static int process(struct bw_zk_client *client, int flags)
{
    uint64_t answers = client->answers;
    int rc = zookeeper_process(client->zh, flags);
    if (client->answers != answers)
        client->passing = false;
    return rc;
}

/* Reads the available frames, up to a limit. */
static void read_frames(struct bw_zk_client *client)
{
    enum gate state = GATE_OPEN;
    int rc = ZOK;
    for (int i = 0; i < FRAMES_PER_TURN && rc == ZOK && !client->lost; i++) {
        if ((state = gate(client)) != GATE_OPEN)
            break;
        client->received_at = uv_now(client->loop);
        rc = process(client, ZOOKEEPER_READ);
    }
    if (state == GATE_SHUT) {
        break_socket(client);
        client->lost = client->bad_reply = true; /* the library must not read these bytes */
    } else if (state == GATE_WAIT) {
        /* wait for the rest of the frame with a timer, not by polling */
        uv_poll_stop(&client->socket->poll);
        client->socket->interest = 0;
        client->rest_at = uv_now(client->loop) + REST_MS;
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct bw_zk_client *client = ((struct bw_zk_socket *)poll->data)->client;
    if (!client || !client->zh)
        return;
    int rc = ZOK;
    uv_update_time(client->loop);
    if (status < 0 || (events & UV_WRITABLE))
        rc = process(client, ZOOKEEPER_WRITE);
    if (rc == ZOK && (status < 0 || (events & UV_READABLE)))
        read_frames(client);
    handle_session_events(client);
    drive(client);
}

static struct bw_zk_socket *open_socket(struct bw_zk_client *client, int fd, ino_t inode)
{
    struct bw_zk_socket *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->client = client;
    s->inode = inode;
    s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (s->fd < 0 || uv_poll_init(client->loop, &s->poll, s->fd) != 0) {
        if (s->fd >= 0)
            close(s->fd);
        free(s);
        return NULL;
    }
    int bytes = RECEIVE_BYTES;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    fcntl(fd, F_SETFD, FD_CLOEXEC); /* child processes must not inherit it */
    s->poll.data = s;
    return s;
}

/* Polls the library's socket for the events the library waits for. */
static void poll_socket(struct bw_zk_client *client, int fd, int interest)
{
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        drop_socket(client);
        return;
    }
    if (client->socket && client->socket->inode != status.st_ino)
        drop_socket(client);
    if (!client->socket) {
        client->socket = open_socket(client, fd, status.st_ino);
        client->tried_at = client->received_at = uv_now(client->loop);
        if (!client->socket)
            return;
    }
    if (client->socket->interest == interest)
        return;
    client->socket->interest = interest;
    int events = (interest & ZOOKEEPER_READ ? UV_READABLE : 0) |
                 (interest & ZOOKEEPER_WRITE ? UV_WRITABLE : 0);
    uv_poll_start(&client->socket->poll, events, on_poll);
}

/* ---- library handles: one per connection ---- */

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    struct bw_zk_client *client = (struct bw_zk_client *)zoo_get_context(zh);
    (void)path;
    (void)context;
    if (type != ZOO_SESSION_EVENT)
        return;
    if (client->ready && state != ZOO_CONNECTED_STATE)
        client->lost = true;
    client->ready = state == ZOO_CONNECTED_STATE && !client->lost;
}

static void no_log(const char *message)
{
    (void)message;
}

static void retry_later(struct bw_zk_client *client, const char *why)
{
    uint64_t most = ttl_ms(client) / 12;
    client->open_at = uv_now(client->loop) + jittered(client, client->backoff);
    client->backoff = client->backoff * 2 < most ? client->backoff * 2 : client->backoff;
    client->failed = true;
    bw_store_explain(client->why, 0, "%s", why);
}

static void open_handle(struct bw_zk_client *client)
{
    char hosts[HOSTS_TEXT_MAX];
    bw_zk_hosts_text(&client->hosts, client->first++, hosts, sizeof hosts);
    zoo_deterministic_conn_order(1); /* this client rotates the list itself */
    client->lost = client->ready = client->passing = false;
    if (hosts[0])
        client->zh = zookeeper_init2(hosts, on_session, client->wanted_ms, &client->id, client,
                                     ZOO_NO_LOG_CLIENTENV, no_log);
    if (!client->zh) {
        retry_later(client, hosts[0] ? "no memory for a ZooKeeper connection"
                                     : "cannot resolve any host of the ZooKeeper URL");
        return;
    }
    /* The hosts are addresses. Without this call the library would resolve them again each time. */
    zoo_set_servers_resolution_delay(client->zh, -1);
    client->tried_at = client->received_at = uv_now(client->loop);
    client->retry_at = 0;
    if (!client->failed)
        bw_store_explain(client->why, 0, "no reply from the ZooKeeper servers %s", hosts);
    if (client->auth)
        zoo_add_auth(client->zh, "digest", client->auth, (int)strlen(client->auth), NULL, NULL);
}

/* Pending calls get their reply, ZCLOSING, from here. */
static void close_handle(struct bw_zk_client *client)
{
    zhandle_t *zh = client->zh;
    client->ready = false;
    drop_socket(client);
    if (zh)
        zookeeper_close(zh);
    client->zh = NULL;
    bw_zk_calls_free_refused(client);
}

static void forget_session(struct bw_zk_client *client)
{
    memset(&client->id, 0, sizeof client->id);
    client->generation++;
    client->seen_at = uv_now(client->loop);
    client->hooks.expired(client);
}

static void on_lost(struct bw_zk_client *client)
{
    int state = zoo_state(client->zh);
    bool expired = state == ZOO_EXPIRED_SESSION_STATE, denied = state == ZOO_AUTH_FAILED_STATE;
    bool bad_reply = client->bad_reply;
    close_handle(client);
    client->lost = client->bad_reply = false;
    client->failed = true;
    client->open_at = uv_now(client->loop);
    if (denied)
        retry_later(client, "ZooKeeper rejected the user name or the password");
    else if (bad_reply)
        retry_later(client, "a server sent an invalid ZooKeeper reply");
    client->hooks.lost(client);
    if (expired)
        forget_session(client);
}

static void on_ready(struct bw_zk_client *client)
{
    client->id = *zoo_client_id(client->zh);
    client->granted_ms = zoo_recv_timeout(client->zh);
    client->backoff = BACKOFF_MIN_MS;
    client->failed = false;
    client->seen_at = uv_now(client->loop);
    client->tried_at = 0;
    client->hooks.ready(client);
}

/* Handles what the library reported about the session. */
static void handle_session_events(struct bw_zk_client *client)
{
    if (client->closed || !client->zh)
        return;
    if (client->ready && zoo_state(client->zh) != ZOO_CONNECTED_STATE)
        client->lost = true;
    if (client->lost || is_unrecoverable(client->zh) == ZINVALIDSTATE)
        on_lost(client);
    else if (client->ready && client->tried_at)
        on_ready(client);
}

/* ---- timeouts ---- */

/* Ends the connection to a server that does not reply in time; the library tries the next one. */
static void check_server(struct bw_zk_client *client, uint64_t now)
{
    uint64_t limit = limit_ms(client);
    if (client->ready)
        client->seen_at = now;
    bool slow = !client->ready && client->socket && now >= client->tried_at + limit;
    uint64_t timeout = limit + limit / 3; /* TTL/6: an elector does not wait longer for a reply */
    bool silent = client->ready && client->pending > 0 && now >= client->pending_since + timeout &&
                  now >= client->received_at + timeout;
    if (slow || silent)
        break_socket(client);
}

/* After a whole TTL without a connection, each holder has ended its leadership by its own clock,
 * and the client starts a new session. A late attempt to resume the old session would keep it and
 * its nodes alive. */
static void check_session(struct bw_zk_client *client, uint64_t now)
{
    if (client->ready || client->id.client_id == 0 || now < client->seen_at + ttl_ms(client))
        return;
    close_handle(client);
    client->lost = false;
    client->open_at = now;
    client->abandoned = client->id;
    forget_session(client);
}

/* Lets the library connect and ping, and polls for the events it waits for. */
static void call_library(struct bw_zk_client *client, uint64_t now)
{
    int fd = -1, interest = 0;
    struct timeval span = {0, 0};
    if (!client->socket && now < client->retry_at)
        return;
    if (client->socket && now < client->rest_at)
        return;
    int rc = zookeeper_interest(client->zh, &fd, &interest, &span);
    uint64_t ms = (uint64_t)span.tv_sec * 1000 + (uint64_t)span.tv_usec / 1000;
    client->library_at = now + ms + 1;
    if (rc == ZOK && fd >= 0) {
        poll_socket(client, fd, interest);
        return;
    }
    drop_socket(client);
    client->failed = true;
    uint64_t most = ttl_ms(client) / 12;
    /* after an error of the library (rc != ZOK), try the next server at once */
    uint64_t pause = rc == ZOK ? jittered(client, client->backoff) : 1;
    if (rc == ZOK && client->backoff * 2 < most)
        client->backoff *= 2;
    client->retry_at = client->library_at = now + pause;
}

static void begin(struct bw_zk_client *client, uint64_t now)
{
    client->tried_at = now;
    if (bw_zk_hosts_find(&client->hosts))
        open_handle(client);
    else
        bw_store_explain(client->why, 0, "the hosts of the ZooKeeper URL are not resolved yet");
}

static void on_hosts(struct bw_zk_hosts *hosts)
{
    struct bw_zk_client *client = hosts->context;
    open_handle(client);
    drive(client);
}

static void tick(struct bw_zk_client *client, uint64_t now)
{
    if (now < client->tick_at)
        return;
    client->tick_at = now + (client->ready ? limit_ms(client) : limit_ms(client) / 4);
    if (client->hooks.tick(client) && client->ready)
        bw_zk_exists(client, "/", 0, NULL, NULL);
}

static void on_timer(uv_timer_t *timer)
{
    drive(timer->data);
}

/* Time of the next action. */
static uint64_t next_at(const struct bw_zk_client *client, uint64_t now)
{
    uint64_t next = min_ms(client->tick_at, now + IDLE_MS), limit = limit_ms(client);
    if (!client->zh)
        return min_ms(next, client->hosts.busy ? client->tried_at + limit : client->open_at);
    next = min_ms(next, client->library_at);
    if (client->rest_at > now)
        next = min_ms(next, client->rest_at);
    if (!client->ready && client->socket)
        next = min_ms(next, client->tried_at + limit);
    return next;
}

static void drive(struct bw_zk_client *client)
{
    if (client->closed)
        return;
    uv_update_time(client->loop);
    uint64_t now = uv_now(client->loop);
    if (client->zh)
        check_server(client, now);
    check_session(client, now);
    if (client->closed) /* a hook has closed the client */
        return;
    if (!client->zh && client->hosts.busy && now >= client->tried_at + limit_ms(client)) {
        bw_zk_hosts_stop(&client->hosts);
        open_handle(client);
    } else if (!client->zh && !client->hosts.busy && now >= client->open_at) {
        begin(client, now);
    }
    tick(client, now);
    if (client->zh)
        call_library(client, now);
    handle_session_events(client);
    if (client->closed)
        return;
    uint64_t at = next_at(client, now);
    uv_timer_start(&client->timer, on_timer, at > now ? at - now : 1, 0);
}

void bw_zk_client_break(struct bw_zk_client *client)
{
    break_socket(client); /* or the library would end the session when it closes its handle */
    client->lost = true;
    client->ready = false;
    if (!client->closed) /* later: the library may have called us */
        uv_timer_start(&client->timer, on_timer, 0, 0);
}

void bw_zk_client_flush(struct bw_zk_client *client)
{
    if (client->zh && client->ready)
        call_library(client, uv_now(client->loop));
}

/* ---- open and close ---- */

int bw_zk_session_ms(bw_time ttl_ns)
{
    bw_time ms = (ttl_ns + BW_MS - 1) / BW_MS;
    return (int)bw_time_min(ms + (ms + 1) / 2, INT_MAX);
}

int bw_zk_client_open(struct bw_zk_client *client, const struct bw_url *url, uv_loop_t *loop,
                      bw_time ttl_ns, const struct bw_zk_hooks *hooks)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        return BW_EIO;
    memset(client, 0, sizeof *client);
    client->loop = loop;
    client->hooks = *hooks;
    client->ttl_ns = ttl_ns;
    client->wanted_ms = bw_zk_session_ms(ttl_ns);
    client->backoff = BACKOFF_MIN_MS;
    client->generation = 1;
    client->seen_at = uv_now(loop);
    bw_rng_init(&client->rng, seed);
    client->first = (unsigned)bw_rng_below(&client->rng, BW_ZK_ADDRESSES_MAX);
    bw_zk_hosts_init(&client->hosts, url, loop, on_hosts, client);
    zoo_set_debug_level((ZooLogLevel)0);
    uv_timer_init(loop, &client->timer);
    client->timer.data = client;
    bw_store_explain(client->why, 0, "the ZooKeeper session is not open yet");
    uv_timer_start(&client->timer, on_timer, 0, 0);
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct bw_zk_client *client = handle->data;
    client->on_closed(client);
}

void bw_zk_client_close(struct bw_zk_client *client, bool end,
                        void (*closed)(struct bw_zk_client *client))
{
    struct pollfd writable = {.fd = client->socket ? client->socket->fd : -1, .events = POLLOUT};
    bool open = client->ready && poll(&writable, 1, 0) == 1 && writable.revents == POLLOUT;
    client->closed = true;
    client->on_closed = closed;
    /* break the connection first: the library would block until its close request is sent */
    if (!end || !open)
        break_socket(client);
    bw_zk_hosts_stop(&client->hosts);
    close_handle(client);
    free(client->frame);
    client->frame = NULL;
    uv_close((uv_handle_t *)&client->timer, on_timer_closed);
}
