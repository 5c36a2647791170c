/* Sends requests to running peers; see client.h. */
#include "cli/peer/client.h"

#include "core/base/error.h"
#include "core/base/parse_values.h"
#include "net/sealed/datagram.h"
#include "os/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define AGAIN_NS    (100 * BW_MS)
#define ADDRESSES   64u
#define ANSWERS_MAX (BW_PEER_MEMBERS_MAX + 1)

struct bw_peer_client {
    const struct bw_cli_command *command;
    struct bw_keyring *keyring;
    struct bw_seal *seal;
    int fd[2]; /* IPv4, IPv6; -1: not available */
    bw_time timeout_ns;
    uint32_t shard;
    uint64_t next_request;
    struct sockaddr_storage join[ADDRESSES];
    uint32_t joins;
};

/* ---- opening ---- */

/* Splits "HOST:PORT" or "[IPv6]:PORT" into its two parts. */
static bool split(const char *text, size_t length, char *host, size_t size, char *port)
{
    const char *colon = memrchr(text, ':', length);
    if (!colon || colon == text || (size_t)(text + length - colon - 1) > 5)
        return false;
    bool bracketed = text[0] == '[' && colon[-1] == ']';
    size_t bytes = (size_t)(colon - text) - (bracketed ? 2 : 0);
    if (bytes == 0 || bytes >= size)
        return false;
    memcpy(host, text + bracketed, bytes);
    host[bytes] = '\0';
    memcpy(port, colon + 1, (size_t)(text + length - colon - 1));
    port[text + length - colon - 1] = '\0';
    return true;
}

static int resolve(struct bw_peer_client *c, const char *text, size_t length)
{
    char host[256], port[6];
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found = NULL;
    if (!split(text, length, host, sizeof host, port))
        return bw_usage_error(c->command, "invalid --join '%.*s': expected HOST:PORT", (int)length,
                              text);
    int error = getaddrinfo(host, port, &hints, &found);
    if (error) {
        fprintf(stderr, "%s: cannot resolve --join %.*s: %s\n", c->command->path, (int)length, text,
                gai_strerror(error));
        return BW_PEER_EXIT_UNANSWERED;
    }
    for (struct addrinfo *at = found; at && c->joins < ADDRESSES; at = at->ai_next)
        if (at->ai_addrlen <= sizeof c->join[0])
            memcpy(&c->join[c->joins++], at->ai_addr, at->ai_addrlen);
    freeaddrinfo(found);
    return BW_GO_ON;
}

static int resolve_all(struct bw_peer_client *c, const char *join)
{
    int code = BW_GO_ON;
    while (code == BW_GO_ON && *join) {
        size_t length = strcspn(join, ",");
        code = resolve(c, join, length);
        join += length + (join[length] == ',');
    }
    return code;
}

static int open_keys(struct bw_peer_client *c, const struct bw_peer_look *look)
{
    char why[BW_KEYRING_WHY_MAX + 1] = "";
    if (!look->key_file)
        c->keyring = bw_keyring_public();
    else if (bw_keyring_load(&c->keyring, look->key_file, why) != 0)
        return bw_usage_error(c->command, "--key-file: %s", why);
    struct bw_seal_options options = {.ring = c->keyring,
                                      .cluster = bw_seal_cluster(look->election),
                                      .self = BW_NODE_NONE,
                                      .peers_max = BW_PEER_MEMBERS_MAX};
    if (c->keyring && options.cluster && bw_seal_new(&c->seal, &options) == 0)
        return BW_GO_ON;
    fprintf(stderr, "%s: cannot start: out of memory or random numbers\n", c->command->path);
    return BW_EXIT_IO;
}

static int open_sockets(struct bw_peer_client *c)
{
    static const int families[] = {AF_INET, AF_INET6};
    for (unsigned i = 0; i < 2; i++)
        c->fd[i] = socket(families[i], SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd[0] >= 0 || c->fd[1] >= 0)
        return BW_GO_ON;
    fprintf(stderr, "%s: cannot open a socket: %s\n", c->command->path, strerror(errno));
    return BW_EXIT_IO;
}

int bw_peer_client_open(struct bw_peer_client **out, const struct bw_cli_command *command, int argc,
                        char **argv, struct bw_peer_look *look, struct bw_parsed *parsed)
{
    look->timeout_ns = 2 * BW_SEC;
    look->election = "peer";
    look->shard = BW_PEER_SHARD_NONE;
    int code = bw_options_parse(command, argc, argv, look, parsed);
    if (code != BW_GO_ON)
        return code;
    if (!look->join)
        return bw_usage_error(command, "missing option: --join HOST:PORT; see '%s --help'",
                              command->path);
    struct bw_peer_client *c = calloc(1, sizeof *c);
    if (!c)
        return BW_EXIT_IO;
    *c =
        (struct bw_peer_client){.command = command, .fd = {-1, -1}, .timeout_ns = look->timeout_ns};
    c->shard = look->shard == BW_PEER_SHARD_NONE ? 0 : look->shard;
    if (getrandom(&c->next_request, sizeof c->next_request, 0) != sizeof c->next_request)
        code = BW_EXIT_IO;
    if (code == BW_GO_ON)
        code = resolve_all(c, look->join);
    if (code == BW_GO_ON)
        code = open_keys(c, look);
    if (code == BW_GO_ON)
        code = open_sockets(c);
    if (code == BW_GO_ON)
        *out = c;
    else
        bw_peer_client_close(c);
    return code;
}

void bw_peer_client_close(struct bw_peer_client *c)
{
    for (unsigned i = 0; i < 2; i++)
        if (c->fd[i] >= 0)
            close(c->fd[i]);
    bw_seal_free(c->seal);
    bw_keyring_free(c->keyring);
    free(c);
}

/* ---- asking ---- */

static void send_bytes(struct bw_peer_client *c, const struct sockaddr *to,
                       const unsigned char *bytes, size_t length)
{
    int fd = c->fd[to->sa_family == AF_INET6];
    if (fd >= 0)
        (void)!sendto(fd, bytes, length, MSG_NOSIGNAL, to,
                      (socklen_t)(to->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                            : sizeof(struct sockaddr_in)));
}

static void put_question(struct bw_peer_client *c, const struct bw_peer_question_to *q)
{
    unsigned char payload[BW_PEER_FRAME_MAX], frame[BW_DATAGRAM_MAX];
    int length = bw_peer_frame_encode(&q->frame, payload, sizeof payload);
    int sealed = length < 0 ? length
                            : bw_seal_make(c->seal, BW_NODE_NONE, q->frame.kind, payload,
                                           (size_t)length, frame, sizeof frame);
    if (sealed > 0)
        send_bytes(c, (const struct sockaddr *)&q->to, frame, (size_t)sealed);
}

static uint64_t request_of(const struct bw_peer_frame *frame)
{
    switch (frame->kind) {
    case BW_PEER_QUERY:
        return frame->query.request;
    case BW_PEER_VIEW:
        return frame->view.request;
    case BW_PEER_ORDER:
        return frame->order.request;
    default:
        return 0;
    }
}

static void number_question(struct bw_peer_client *c, struct bw_peer_frame *frame)
{
    uint64_t request = ++c->next_request;
    if (frame->kind == BW_PEER_ORDER)
        frame->order.request = request;
    else
        frame->query.request = request;
}

static bool is_answer(const struct bw_peer_frame *frame)
{
    return frame->kind == BW_PEER_VIEW || (frame->kind == BW_PEER_ORDER && frame->order.answer);
}

/* Handles one datagram. If it completes a handshake, sends the question again: the peer has dropped
 * what it received before. */
static uint32_t take_frame(struct bw_peer_client *c, const unsigned char *bytes, size_t length,
                           const struct sockaddr_storage *from,
                           struct bw_peer_question_to *questions, uint32_t count)
{
    static struct bw_peer_frame frame;
    struct bw_sealed opened;
    int result = bw_seal_open(c->seal, bytes, length, &opened);
    if (result == BW_SEAL_REPLY)
        send_bytes(c, (const struct sockaddr *)from, opened.reply, opened.reply_length);
    if (result == BW_SEAL_REPLY || result == BW_SEAL_NOTHING) {
        for (uint32_t i = 0; i < count; i++)
            if (!questions[i].answered && memcmp(&questions[i].to, from, sizeof *from) == 0)
                put_question(c, &questions[i]);
        return 0;
    }
    frame.kind = (enum bw_peer_frame_kind)opened.kind;
    if (result != BW_SEAL_FRAME || opened.kind >= BW_PEER_FRAME_KINDS ||
        bw_peer_frame_decode(&frame, opened.payload, opened.length) != 0 || !is_answer(&frame))
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (!questions[i].answered && request_of(&questions[i].frame) == request_of(&frame)) {
            questions[i].answered = true;
            questions[i].from = opened.from;
            questions[i].frame = frame;
            return 1;
        }
    return 0;
}

static uint32_t take_all(struct bw_peer_client *c, struct bw_peer_question_to *questions,
                         uint32_t count)
{
    unsigned char bytes[BW_DATAGRAM_MAX + 1];
    uint32_t answered = 0;
    bw_seal_clock(c->seal, bw_clock_boot());
    for (unsigned i = 0; i < 2; i++)
        for (unsigned n = 0; c->fd[i] >= 0 && n < ANSWERS_MAX; n++) {
            struct sockaddr_storage from;
            socklen_t size = sizeof from;
            memset(&from, 0, sizeof from);
            ssize_t got =
                recvfrom(c->fd[i], bytes, sizeof bytes, 0, (struct sockaddr *)&from, &size);
            if (got < 0)
                break;
            answered += take_frame(c, bytes, (size_t)got, &from, questions, count);
        }
    return answered;
}

uint32_t bw_peer_client_ask(struct bw_peer_client *c, struct bw_peer_question_to *questions,
                            uint32_t count, bool any)
{
    bw_time now = bw_clock_boot(), until = bw_time_add(now, c->timeout_ns), again = now;
    uint32_t answered = 0;
    for (uint32_t i = 0; i < count; i++)
        number_question(c, &questions[i].frame);
    while (now < until && answered < (any && count ? 1 : count)) {
        if (now >= again) {
            bw_seal_clock(c->seal, now);
            for (uint32_t i = 0; i < count; i++)
                if (!questions[i].answered)
                    put_question(c, &questions[i]);
            again = now + AGAIN_NS;
        }
        struct pollfd polled[2] = {{.fd = c->fd[0], .events = POLLIN},
                                   {.fd = c->fd[1], .events = POLLIN}};
        bw_time wait = bw_time_min(again, until) - now;
        poll(polled, 2, (int)((wait + BW_MS - 1) / BW_MS));
        answered += take_all(c, questions, count);
        now = bw_clock_boot();
    }
    return answered;
}

/* ---- requests of the commands ---- */

static int no_response(const struct bw_peer_client *c)
{
    fprintf(stderr,
            "%s: no peer responds at --join; check that --election and --key-file are those of the "
            "peers\n",
            c->command->path);
    return BW_PEER_EXIT_UNANSWERED;
}

/* Sends the same question to all addresses of --join. Returns the questions, which the caller
 * frees, or NULL after an error message. */
static struct bw_peer_question_to *ask_joined(struct bw_peer_client *c, enum bw_peer_question what,
                                              uint32_t *found)
{
    struct bw_peer_question_to *questions = calloc(c->joins, sizeof *questions);
    for (uint32_t i = 0; questions && i < c->joins; i++) {
        questions[i].to = c->join[i];
        questions[i].frame.kind = BW_PEER_QUERY;
        questions[i].frame.query.what = what;
        if (what == BW_PEER_ASK_ELECTIONS)
            questions[i].frame.query.first = c->shard;
    }
    if (questions && bw_peer_client_ask(c, questions, c->joins, true) > 0) {
        while (!questions[*found].answered)
            ++*found;
        return questions;
    }
    no_response(c);
    free(questions);
    return NULL;
}

int bw_peer_client_standing(struct bw_peer_client *c, struct bw_peer_answer *out)
{
    uint32_t i = 0;
    struct bw_peer_question_to *q = ask_joined(c, BW_PEER_ASK_ELECTIONS, &i);
    if (!q)
        return BW_PEER_EXIT_UNANSWERED;
    const struct bw_peer_view *view = &q[i].frame.view;
    *out = (struct bw_peer_answer){.from = q[i].from, .formed = view->formed, .at = q[i].to};
    if (view->what == BW_PEER_ASK_ELECTIONS && view->count > 0)
        out->standing = view->standing[0];
    free(q);
    return 0;
}

static int add_part(struct bw_peer_answer *out, const struct bw_peer_view *view)
{
    if (view->what != BW_PEER_ASK_MEMBERS || view->first != out->count ||
        view->total > BW_PEER_MEMBERS_MAX || view->count > view->total - out->count)
        return BW_EMALFORMED;
    if (!out->seen)
        out->seen = calloc(BW_PEER_MEMBERS_MAX, sizeof *out->seen);
    if (!out->seen)
        return BW_ENOMEM;
    memcpy(out->seen + out->count, view->seen, view->count * sizeof *out->seen);
    out->count += view->count;
    return 0;
}

/* A peer that listens on all addresses (0.0.0.0) does not know its own one. It answered at the
 * address that we asked, so we show and use that. */
static void fill_own_address(struct bw_peer_answer *out)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)&out->at;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&out->at;
    for (uint32_t i = 0; i < out->count; i++) {
        struct bw_peer_address *own = &out->seen[i].row.address;
        if (out->seen[i].row.id != out->from || own->family != 0)
            continue;
        if (out->at.ss_family == AF_INET) {
            *own = (struct bw_peer_address){.family = 4, .port = ntohs(four->sin_port)};
            memcpy(own->bytes, &four->sin_addr, sizeof four->sin_addr);
        } else if (out->at.ss_family == AF_INET6) {
            *own = (struct bw_peer_address){
                .family = 6, .port = ntohs(six->sin6_port), .scope = six->sin6_scope_id};
            memcpy(own->bytes, &six->sin6_addr, sizeof six->sin6_addr);
        }
    }
}

int bw_peer_client_members(struct bw_peer_client *c, struct bw_peer_answer *out)
{
    uint32_t i = 0;
    struct bw_peer_question_to *q = ask_joined(c, BW_PEER_ASK_MEMBERS, &i);
    if (!q)
        return BW_PEER_EXIT_UNANSWERED;
    struct bw_peer_view *view = &q[i].frame.view;
    *out = (struct bw_peer_answer){.from = q[i].from, .formed = view->formed, .at = q[i].to};
    int error = add_part(out, view);
    while (!error && out->count < view->total && view->count > 0) {
        q[i].answered = false;
        q[i].frame.kind = BW_PEER_QUERY;
        q[i].frame.query = (struct bw_peer_query){.what = BW_PEER_ASK_MEMBERS, .first = out->count};
        error = bw_peer_client_ask(c, &q[i], 1, true) ? add_part(out, view) : BW_ETIMEDOUT;
    }
    free(q);
    if (!error)
        fill_own_address(out);
    if (!error)
        return 0;
    free(out->seen);
    out->seen = NULL;
    fprintf(stderr, "%s: incomplete response: %s\n", c->command->path, bw_error_text(error));
    return BW_PEER_EXIT_UNANSWERED;
}

int bw_peer_client_leader(struct bw_peer_client *c, struct bw_peer_answer *members,
                          struct bw_peer_leader *out)
{
    struct bw_peer_answer now;
    *out = (struct bw_peer_leader){.row = NULL};
    int code = bw_peer_client_members(c, members);
    if (code == 0)
        code = bw_peer_client_standing(c, &now);
    if (code)
        return code;
    bw_node leader = now.standing.leader;
    out->term = now.standing.term;
    const struct bw_peer_row *row = leader ? bw_peer_client_row(members, leader) : NULL;
    if (row && bw_peer_client_address(row, &out->at))
        out->row = row;
    return 0;
}

int bw_peer_client_report(const struct bw_cli_command *command, int code, const char *sentence)
{
    fprintf(stderr, "%s: %s\n", command->path, sentence);
    return code;
}

int bw_peer_client_order(struct bw_peer_client *c, const struct sockaddr_storage *leader,
                         uint8_t kind, bw_node node)
{
    static struct bw_peer_question_to q;
    q = (struct bw_peer_question_to){.to = *leader};
    q.frame.kind = BW_PEER_ORDER;
    q.frame.order =
        (struct bw_peer_hand_over){.kind = kind, .election = (uint16_t)c->shard, .node = node};
    if (!bw_peer_client_ask(c, &q, 1, true))
        return BW_ETIMEDOUT;
    return -(int)q.frame.order.error;
}

const struct bw_peer_row *bw_peer_client_row(const struct bw_peer_answer *members, bw_node node)
{
    for (uint32_t i = 0; i < members->count; i++)
        if (members->seen[i].row.id == node)
            return &members->seen[i].row;
    return NULL;
}

const struct bw_peer_row *bw_peer_client_named(const struct bw_peer_answer *members,
                                               const char *name)
{
    uint64_t number = 0;
    (void)bw_text_number(name, strlen(name), UINT32_MAX, &number);
    for (uint32_t i = 0; i < members->count; i++)
        if (!members->seen[i].row.left && strcmp(members->seen[i].row.name, name) == 0)
            return &members->seen[i].row;
    const struct bw_peer_row *row = number ? bw_peer_client_row(members, (bw_node)number) : NULL;
    return row && !row->left ? row : NULL;
}

bool bw_peer_client_address(const struct bw_peer_row *row, struct sockaddr_storage *out)
{
    const struct bw_peer_address *from = &row->address;
    memset(out, 0, sizeof *out);
    if (from->family == 4) {
        struct sockaddr_in *four = (struct sockaddr_in *)out;
        four->sin_family = AF_INET;
        four->sin_port = htons(from->port);
        memcpy(&four->sin_addr, from->bytes, sizeof four->sin_addr);
    } else if (from->family == 6) {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(from->port);
        six->sin6_scope_id = from->scope;
        memcpy(&six->sin6_addr, from->bytes, sizeof six->sin6_addr);
    }
    return from->family == 4 || from->family == 6;
}

const char *bw_peer_client_name(const struct bw_peer_row *row, char *out)
{
    if (row->name[0])
        snprintf(out, BW_PEER_NAME_MAX + 1, "%s", row->name);
    else
        snprintf(out, BW_PEER_NAME_MAX + 1, "%u", (unsigned)row->id);
    return out;
}
