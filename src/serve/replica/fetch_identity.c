/* Asks the members for the identity of a new node; see fetch_identity.h. One question per
 * connection (mesh.h, JOIN). */
#include "serve/replica/fetch_identity.h"

#include "core/base/error.h"
#include "core/base/little.h"
#include "os/clock.h"
#include "serve/mesh/mesh.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STEP_S    2 /* timeout of a connection and of an answer */
#define PAUSE_MS  100
#define FRAME_MAX (5u + BW_MESH_ANSWER + 12u + BW_MEMBER_LIST_BYTES_MAX)
#define BYTES     16384u

struct talk {
    int fd;
    struct bw_tls *tls;
    unsigned char in[FRAME_MAX];
    size_t used;
};

static uint64_t now_ms(void)
{
    return (uint64_t)(bw_clock_monotonic() / BW_MS);
}

static int connect_to(const struct bw_replica_member *member)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct timeval limit = {.tv_sec = STEP_S};
    char port[8];
    int fd = -1;
    snprintf(port, sizeof port, "%u", member->port);
    if (getaddrinfo(member->host, port, &hints, &found) != 0)
        return -1;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static bool send_all(int fd, const unsigned char *bytes, size_t length)
{
    while (length) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

/* Sends pending TLS records. */
static bool push(struct talk *talk)
{
    unsigned char bytes[BYTES];
    size_t length;
    while (talk->tls && (length = bw_tls_take(talk->tls, bytes, sizeof bytes)) > 0)
        if (!send_all(talk->fd, bytes, length))
            return false;
    return true;
}

/* Receives more plaintext or handshake data. Returns false at the end of the stream or if it is too
 * long. */
static bool pull(struct talk *talk, char *why)
{
    unsigned char bytes[BYTES];
    size_t space = sizeof talk->in - talk->used;
    ssize_t got =
        recv(talk->fd, talk->tls ? bytes : talk->in + talk->used, talk->tls ? BYTES : space, 0);
    if (got <= 0)
        return false;
    if (!talk->tls) {
        talk->used += (size_t)got;
        return true;
    }
    int error = bw_tls_feed(talk->tls, bytes, (size_t)got, why);
    if (!push(talk) || error)
        return false;
    int clear = 0;
    while (bw_tls_is_up(talk->tls) && talk->used < sizeof talk->in &&
           (clear = bw_tls_read(talk->tls, talk->in + talk->used, sizeof talk->in - talk->used,
                                why)) > 0)
        talk->used += (size_t)clear;
    return clear >= 0;
}

static bool send_question(struct talk *talk, const struct bw_replica_member *self)
{
    unsigned char frame[17 + BW_REPLICA_HOST_MAX];
    size_t host = strlen(self->host), length = 17 + host;
    bw_put32(frame, (uint32_t)(13 + host));
    frame[4] = BW_FRAME_JOIN;
    bw_put32(frame + 5, BW_MESH_VERSION);
    bw_put32(frame + 9, BW_MESH_VERSION_MIN);
    bw_put32(frame + 13, self->port);
    memcpy(frame + 17, self->host, host);
    if (!talk->tls)
        return send_all(talk->fd, frame, length);
    return bw_tls_write(talk->tls, frame, length) == 0 && push(talk);
}

static bool is_complete(const struct talk *talk)
{
    return talk->used >= 4 && talk->used >= 4 + (size_t)bw_get32(talk->in);
}

static int take_answer(const struct talk *talk, const struct bw_replica_member *self,
                       struct bw_identity *out)
{
    static const int meaning[BW_MESH_VERDICTS] = {[BW_MESH_TOO_NEW] = BW_EVERSION,
                                                  [BW_MESH_TOO_OLD] = BW_EVERSION,
                                                  [BW_MESH_UNKNOWN] = BW_ENOTMEMBER,
                                                  [BW_MESH_STARTED] = BW_ESTALE,
                                                  [BW_MESH_CERTIFICATE] = BW_EDENIED};
    const unsigned char *at = talk->in + 5;
    size_t length = (size_t)bw_get32(talk->in) - 1;
    if (talk->in[4] != BW_FRAME_ANSWER || length < BW_MESH_ANSWER ||
        bw_get32(at + 8) >= BW_MESH_VERDICTS)
        return BW_EMALFORMED;
    if (bw_get32(at + 8) != BW_MESH_OK)
        return meaning[bw_get32(at + 8)] ? meaning[bw_get32(at + 8)] : BW_EMALFORMED;
    if (length < BW_MESH_ANSWER + 12)
        return BW_EMALFORMED;
    at += BW_MESH_ANSWER;
    *out = (struct bw_identity){.cluster = bw_get64(at), .self = bw_get32(at + 8), .joined = true};
    memcpy(out->name, self->name, sizeof out->name);
    return bw_member_list_decode(&out->first, at + 12, length - BW_MESH_ANSWER - 12);
}

static int ask_one(const struct bw_introduce *introduce, const struct bw_replica_member *member,
                   struct bw_identity *out, char *why)
{
    static struct talk talk;
    talk = (struct talk){.fd = connect_to(member)};
    if (talk.fd < 0)
        return BW_EIO;
    if (introduce->tls)
        talk.tls = bw_tls_new(introduce->tls, member->host);
    bool good = !introduce->tls || (talk.tls && push(&talk));
    while (good && talk.tls && !bw_tls_is_up(talk.tls))
        good = pull(&talk, why);
    good = good && send_question(&talk, introduce->self);
    while (good && !is_complete(&talk))
        good = pull(&talk, why);
    int error = good ? take_answer(&talk, introduce->self, out) : BW_EIO;
    bw_tls_free(talk.tls);
    close(talk.fd);
    return error;
}

static int explain(int error, const struct bw_introduce *introduce, char *why)
{
    const struct bw_replica_member *self = introduce->self;
    char last[BW_TLS_WHY_MAX + 1];
    snprintf(last, sizeof last, "%s", why);
    switch (error) {
    case BW_ENOTMEMBER:
        snprintf(
            why, BW_REPLICA_WHY_MAX + 1,
            "no member of the cluster has the address %s:%u; add it first with `bellwether cluster "
            "add`",
            self->host, self->port);
        return BW_EDENIED;
    case BW_ESTALE:
        snprintf(why, BW_REPLICA_WHY_MAX + 1,
                 "the member at %s:%u has already joined the cluster, but its data directory is "
                 "empty; restore the data, or remove that member and add it again",
                 self->host, self->port);
        return BW_EDENIED;
    case BW_EDENIED:
        snprintf(why, BW_REPLICA_WHY_MAX + 1,
                 "the members refuse the certificate of this node: it is not valid for %s",
                 self->host);
        return BW_EDENIED;
    case BW_EVERSION:
        snprintf(why, BW_REPLICA_WHY_MAX + 1,
                 "this version of bellwether and the members' have no protocol in common; use an "
                 "intermediate version first; nothing was changed here");
        return BW_EVERSION;
    default:
        snprintf(why, BW_REPLICA_WHY_MAX + 1, "no member answers at --join%s%s",
                 last[0] ? ": " : "", last);
        return BW_ETIMEDOUT;
    }
}

int bw_introduce(const struct bw_introduce *introduce, struct bw_identity *out, char *why)
{
    uint64_t until = now_ms() + introduce->within_ms;
    int best = BW_EIO; /* the most informative answer so far */
    why[0] = '\0';
    do {
        for (uint32_t i = 0; i < introduce->count; i++) {
            int error = ask_one(introduce, &introduce->members[i], out, why);
            if (!error)
                return 0;
            if (error == BW_ESTALE || error == BW_EVERSION || error == BW_EDENIED)
                return explain(error, introduce, why);
            best = error == BW_ENOTMEMBER ? error : best;
        }
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000l}, NULL);
    } while (now_ms() < until);
    return explain(best, introduce, why);
}
