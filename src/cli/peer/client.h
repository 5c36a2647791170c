/* Asking running peers, as somebody who is none of them: an anonymous client with the key, by
 * sealed datagrams (net/sealed/seal.h, core/cluster/frame.h).
 *
 * A peer believes a client only after it has answered a challenge, and the client believes the peer
 * in the same way; what was asked before that is lost, as any datagram may be. So a question is
 * repeated until it is answered or the time is over. All of it blocks: it is for commands that end.
 */
#ifndef BW_CLI_PEER_CLIENT_H
#define BW_CLI_PEER_CLIENT_H

#include "cli/options/options.h"
#include "core/base/limits.h"
#include "core/cluster/frame.h"

#include <sys/socket.h>

#define BW_PEER_EXIT_NONE       66 /* no such peer */
#define BW_PEER_EXIT_UNANSWERED 69
#define BW_PEER_EXIT_LATE       75

/* What every command here is told; the first member of its own options. */
struct bw_peer_look {
    const char *join, *election, *key_file;
    bool json;
    bw_time timeout_ns;
    uint32_t shard; /* of those that are spread over the peers; plain elections have one */
};

#define BW_PEER_SHARD_NONE UINT32_MAX /* not said which */

#define BW_PEER_SHARD_ROW                                                                          \
    {                                                                                              \
        .name = "shard", .form = "I", .help = "which one, of peer --shards", .set = bw_set_u32,    \
        .offset = offsetof(struct bw_peer_look, shard), .low = 0, .high = BW_SHARDS_MAX - 1        \
    }

#define BW_PEER_LOOK_ROWS                                                                          \
    {.name = "join",                                                                               \
     .form = "ADDR,...",                                                                           \
     .help = "peers to ask: HOST:PORT, the first that answers (required)",                         \
     .set = bw_set_text,                                                                           \
     .offset = offsetof(struct bw_peer_look, join)},                                               \
        {.name = "election",                                                                       \
         .form = "NAME",                                                                           \
         .help = "what they elect for (default: peer)",                                            \
         .set = bw_set_text,                                                                       \
         .offset = offsetof(struct bw_peer_look, election)},                                       \
        {.name = "key-file",                                                                       \
         .form = "FILE",                                                                           \
         .help = "the keys they share",                                                            \
         .set = bw_set_text,                                                                       \
         .offset = offsetof(struct bw_peer_look, key_file)},                                       \
        {.name = "timeout",                                                                        \
         .form = "D",                                                                              \
         .help = "how long they may take to answer (default 2s)",                                  \
         .set = bw_set_duration,                                                                   \
         .offset = offsetof(struct bw_peer_look, timeout_ns),                                      \
         .low = 1},                                                                                \
    {                                                                                              \
        .name = "json", .help = "JSON instead of text", .set = bw_set_switch,                      \
        .offset = offsetof(struct bw_peer_look, json)                                              \
    }

struct bw_peer_client;

/* Parses, completes, and opens the client. BW_GO_ON, or an exit code after one line. */
int bw_peer_client_open(struct bw_peer_client **out, const struct bw_cli_command *command, int argc,
                        char **argv, struct bw_peer_look *look, struct bw_parsed *parsed);
void bw_peer_client_close(struct bw_peer_client *client);

/* One question to one address. The frame's request number is set here. */
struct bw_peer_question_to {
    struct sockaddr_storage to;
    struct bw_peer_frame frame; /* the question; when answered, the answer */
    bool answered;
    bw_node from; /* who answered */
};

/* Until all have answered, or with `any` the first has, or the time is over. Returns how many
 * have. */
uint32_t bw_peer_client_ask(struct bw_peer_client *client, struct bw_peer_question_to *questions,
                            uint32_t count, bool any);

/* Whoever answers first at --join: what it sees of one kind, all parts of it. 0, or an exit code
 * after one line. `out` is freed by the caller. */
struct bw_peer_answer {
    bw_node from;
    bool formed;
    struct sockaddr_storage at; /* where it answered */
    struct bw_peer_seen *seen;  /* members */
    uint32_t count;
    struct bw_peer_standing standing; /* of the election; leader NONE: nobody */
};

int bw_peer_client_members(struct bw_peer_client *client, struct bw_peer_answer *out);
int bw_peer_client_standing(struct bw_peer_client *client, struct bw_peer_answer *out);
/* The members, and who of them leads and where it is asked; `row` NULL: nobody, or nobody knows
 * where. As above. */
struct bw_peer_leader {
    const struct bw_peer_row *row;
    struct sockaddr_storage at;
    bw_term term;
};
int bw_peer_client_leader(struct bw_peer_client *client, struct bw_peer_answer *members,
                          struct bw_peer_leader *out);
/* One line of why; returns the code. */
int bw_peer_client_say(const struct bw_cli_command *command, int code, const char *sentence);
/* To the leader; returns 0, a negative enum bw_error of the leader's, or BW_EUNAVAILABLE. */
int bw_peer_client_order(struct bw_peer_client *client, const struct sockaddr_storage *leader,
                         uint8_t kind, bw_node node);

/* The member of this number, or NULL. */
const struct bw_peer_row *bw_peer_client_row(const struct bw_peer_answer *members, bw_node node);
/* The member of this name or number that has not left, or NULL. */
const struct bw_peer_row *bw_peer_client_named(const struct bw_peer_answer *members,
                                               const char *name);
/* A member's address; false: it has none. */
bool bw_peer_client_address(const struct bw_peer_row *row, struct sockaddr_storage *out);
/* Its name, or its number. out[BW_PEER_NAME_MAX + 1] */
const char *bw_peer_client_name(const struct bw_peer_row *row, char *out);

#endif
