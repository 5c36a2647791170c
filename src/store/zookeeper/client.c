/* One ZooKeeper session on the loop; see client.h.
 *
 * The library is called from two places only, `process` and `turn`; what it says about the session
 * is acted on after it has returned (`settle`), as a handle cannot be closed from within. Its
 * socket is polled by a duplicate: the library closes and opens sockets when it likes, and libuv
 * must not poll a descriptor that is somebody else's by now. */
#include "store/zookeeper/client.h"

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

#define FRAMES_PER_TURN 64     /* replies read before others on the loop have their turn */
#define BACKOFF_MIN_MS  50u    /* doubled up to TTL/12 while no server answers */
#define LIMIT_MIN_MS    100u   /* however short the TTL is */
#define WHOLE_MAX       65536u /* bytes of a frame that are awaited before it is looked at */
#define RECEIVE_BYTES   262144 /* ... and must therefore fit into the kernel's buffer */
#define REST_MS         2u
#define IDLE_MS         60000u
#define HOSTS_TEXT_MAX  (BW_ZK_ADDRESSES_MAX * (BW_ZK_ADDRESS_MAX + 1) + 1)

struct bw_zk_socket {
    uv_poll_t poll;
    struct bw_zk_client *client;
    int fd; /* the duplicate */
    ino_t inode;
    int interest;
};

enum gate { GATE_OPEN, GATE_NOTHING, GATE_WAIT, GATE_SHUT };

static void drive(struct bw_zk_client *client);

static uint64_t ttl_ms(const struct bw_zk_client *client)
{
    return (uint64_t)(client->ttl_ns / BW_MS);
}

/* How long a server may keep us waiting. */
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

/* ---- the socket ---- */

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

/* The library then finds its connection broken, and takes the next server. */
static void break_socket(struct bw_zk_client *client)
{
    if (client->socket)
        shutdown(client->socket->fd, SHUT_RDWR);
}

static void settle(struct bw_zk_client *client);

/* Whole, so that it can be looked at; large ones, lists of many candidates, only begin so: the
 * kernel would not hold them. */
static enum gate look_at_frame(struct bw_zk_client *client, uint32_t length)
{
    struct bw_zk_expected expected;
    size_t whole = 4 + (size_t)length, wanted = whole < WHOLE_MAX ? whole : 4 + BW_ZK_HEADER;
    bw_zk_calls_expect(client, &expected);
    if (wanted > client->frame_size) {
        unsigned char *frame = realloc(client->frame, wanted);
        if (!frame)
            return GATE_SHUT;
        client->frame = frame;
        client->frame_size = wanted;
    }
    ssize_t got = recv(client->socket->fd, client->frame, wanted, MSG_PEEK | MSG_DONTWAIT);
    if (got < (ssize_t)wanted)
        return GATE_WAIT;
    if (wanted < whole) {
        client->passing = true;
        return bw_zk_frame_begins(client->frame + 4, length, &expected) ? GATE_OPEN : GATE_SHUT;
    }
    return bw_zk_frame_is_good(client->frame + 4, length, &expected) ? GATE_OPEN : GATE_SHUT;
}

/* May the library read? Of a connected server it reads one frame at a time. */
static enum gate gate(struct bw_zk_client *client)
{
    unsigned char bytes[4];
    bool connected = zoo_state(client->zh) == ZOO_CONNECTED_STATE; /* its watcher hears later */
    if (!connected || client->passing || !client->socket)
        return GATE_OPEN;
    ssize_t got = recv(client->socket->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return GATE_NOTHING; /* what comes from now on has not been looked at */
    if (got <= 0)
        return GATE_OPEN; /* the library is told of an end or an error */
    if (got < (ssize_t)sizeof bytes)
        return GATE_WAIT;
    uint32_t length = bw_zk_frame_length(bytes);
    if (length < BW_ZK_HEADER || length > BW_ZK_FRAME_MAX)
        return GATE_SHUT;
    return look_at_frame(client, length);
}

static int process(struct bw_zk_client *client, int flags)
{
    uint64_t answers = client->answers;
    int rc = zookeeper_process(client->zh, flags);
    if (client->answers != answers)
        client->passing = false;
    return rc;
}

/* As many frames as are there, up to a bound. */
static void read_frames(struct bw_zk_client *client)
{
    enum gate state = GATE_OPEN;
    int rc = ZOK;
    for (int i = 0; i < FRAMES_PER_TURN && rc == ZOK && !client->lost; i++) {
        if ((state = gate(client)) != GATE_OPEN)
            break;
        client->heard_at = uv_now(client->loop);
        rc = process(client, ZOOKEEPER_READ);
    }
    if (state == GATE_SHUT) {
        break_socket(client);
        client->lost = client->lied = true; /* the library must not read what is there */
    } else if (state == GATE_WAIT) {        /* the rest of a frame: not by asking all the time */
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
    settle(client);
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
    fcntl(fd, F_SETFD, FD_CLOEXEC); /* the work we start has no business with it */
    s->poll.data = s;
    return s;
}

/* Polls the library's socket for what it wants now. */
static void adopt(struct bw_zk_client *client, int fd, int interest)
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
        client->tried_at = client->heard_at = uv_now(client->loop);
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

/* ---- handles: one per connection ---- */

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
    bw_store_say(client->why, 0, "%s", why);
}

static void open_handle(struct bw_zk_client *client)
{
    char hosts[HOSTS_TEXT_MAX];
    bw_zk_hosts_text(&client->hosts, client->first++, hosts, sizeof hosts);
    zoo_deterministic_conn_order(1); /* we turn the list ourselves */
    client->lost = client->ready = client->passing = false;
    if (hosts[0])
        client->zh = zookeeper_init2(hosts, on_session, client->wanted_ms, &client->id, client,
                                     ZOO_NO_LOG_CLIENTENV, no_log);
    if (!client->zh) {
        retry_later(client, hosts[0] ? "no memory for a ZooKeeper handle"
                                     : "no host of the ZooKeeper URL has an address");
        return;
    }
    /* Its hosts are addresses. It would look up each of them again at every turn. */
    zoo_set_servers_resolution_delay(client->zh, -1);
    client->tried_at = client->heard_at = uv_now(client->loop);
    client->retry_at = 0;
    if (!client->failed)
        bw_store_say(client->why, 0, "no ZooKeeper server of %s answers", hosts);
    if (client->auth)
        zoo_add_auth(client->zh, "digest", client->auth, (int)strlen(client->auth), NULL, NULL);
}

/* Calls under way are answered from here, with ZCLOSING. */
static void close_handle(struct bw_zk_client *client)
{
    zhandle_t *zh = client->zh;
    client->ready = false;
    drop_socket(client);
    if (zh)
        zookeeper_close(zh);
    client->zh = NULL;
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
    bool lied = client->lied;
    close_handle(client);
    client->lost = client->lied = false;
    client->failed = true;
    client->open_at = uv_now(client->loop);
    if (denied)
        retry_later(client, "ZooKeeper does not accept the user and password");
    else if (lied)
        retry_later(client, "a server sent what is not ZooKeeper's protocol");
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

/* What the library said about the session while it was called. */
static void settle(struct bw_zk_client *client)
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

/* ---- time ---- */

/* A server that keeps us waiting is left for the next one. */
static void judge(struct bw_zk_client *client, uint64_t now)
{
    uint64_t limit = limit_ms(client);
    if (client->ready)
        client->seen_at = now;
    bool slow = !client->ready && client->socket && now >= client->tried_at + limit;
    uint64_t patience = limit + limit / 3; /* TTL/6: no elector waits longer for an answer */
    bool silent = client->ready && client->pending > 0 && now >= client->pending_since + patience &&
                  now >= client->heard_at + patience;
    if (slow || silent)
        break_socket(client);
}

/* Without a connection for a whole TTL all leads are over by their holders' own count, and a new
 * session is begun: each try to go on with the old one that reaches a server late would keep it
 * alive there, and its nodes with it. */
static void judge_session(struct bw_zk_client *client, uint64_t now)
{
    if (client->ready || client->id.client_id == 0 || now < client->seen_at + ttl_ms(client))
        return;
    close_handle(client);
    client->lost = false;
    client->open_at = now;
    client->given_up = client->id;
    forget_session(client);
}

/* The library's turn: it connects, pings, and says what it waits for. */
static void turn(struct bw_zk_client *client, uint64_t now)
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
        adopt(client, fd, interest);
        return;
    }
    drop_socket(client);
    client->failed = true;
    uint64_t most = ttl_ms(client) / 12;
    uint64_t pause = rc == ZOK ? jittered(client, client->backoff) : 1; /* else the next server */
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
        bw_store_say(client->why, 0, "the hosts of the ZooKeeper URL are not resolved yet");
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

/* When something is to be done next. */
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
        judge(client, now);
    judge_session(client, now);
    if (client->closed) /* by a hook */
        return;
    if (!client->zh && client->hosts.busy && now >= client->tried_at + limit_ms(client)) {
        bw_zk_hosts_stop(&client->hosts);
        open_handle(client);
    } else if (!client->zh && !client->hosts.busy && now >= client->open_at) {
        begin(client, now);
    }
    tick(client, now);
    if (client->zh)
        turn(client, now);
    settle(client);
    if (client->closed)
        return;
    uint64_t at = next_at(client, now);
    uv_timer_start(&client->timer, on_timer, at > now ? at - now : 1, 0);
}

void bw_zk_client_flush(struct bw_zk_client *client)
{
    if (client->zh && client->ready)
        turn(client, uv_now(client->loop));
}

/* ---- opening and closing ---- */

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
    bw_store_say(client->why, 0, "the ZooKeeper session is not open yet");
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
    if (!end || !open) /* the library would wait for its goodbye to be sent */
        break_socket(client);
    bw_zk_hosts_stop(&client->hosts);
    close_handle(client);
    free(client->frame);
    client->frame = NULL;
    uv_close((uv_handle_t *)&client->timer, on_timer_closed);
}
