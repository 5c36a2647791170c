/* A client of running peers that is not a peer itself. It is anonymous, has the shared key and
 * sends sealed datagrams (net/sealed/seal.h, core/peer/frame.h).
 *
 * Peer and client trust each other only after each has answered the other's challenge. Requests
 * sent before that are lost, as any datagram may be. Therefore the client repeats a request
 * until it gets a response or the time is over. All functions block: they are for short-lived
 * commands. */
#ifndef BW_CLI_PEER_CLIENT_H
#define BW_CLI_PEER_CLIENT_H

#include "cli/options/options.h"
#include "core/base/limits.h"
#include "core/peer/frame.h"

#include <sys/socket.h>

#define BW_PEER_EXIT_NONE       66 /* no such peer */
#define BW_PEER_EXIT_UNANSWERED 69
#define BW_PEER_EXIT_LATE       75

/* Options of every command that uses this client; the first member of the command's own options. */
struct bw_peer_look {
    const char *join, *election, *key_file;
    bool json;
    bw_time timeout_ns;
    uint32_t shard; /* with peer --shards: the shard; other elections have one */
};

#define BW_PEER_SHARD_NONE UINT32_MAX /* no shard was given */

#define BW_PEER_SHARD_ROW                                                                          \
    {                                                                                              \
        .name = "shard", .form = "I",                                                              \
        .help = "shard to use, if the peers have --shards (default: 0, or all for status)",        \
        .set = bw_set_u32, .offset = offsetof(struct bw_peer_look, shard), .low = 0,               \
        .high = BW_SHARDS_MAX - 1                                                                  \
    }

#define BW_PEER_LOOK_ROWS                                                                          \
    {.name = "join",                                                                               \
     .form = "ADDR,...",                                                                           \
     .help = "addresses of peers to ask, HOST:PORT,...; the first response counts (required)",     \
     .set = bw_set_text,                                                                           \
     .offset = offsetof(struct bw_peer_look, join)},                                               \
        {.name = "election",                                                                       \
         .form = "NAME",                                                                           \
         .help = "name of the peers' election (default: peer)",                                    \
         .set = bw_set_text,                                                                       \
         .offset = offsetof(struct bw_peer_look, election)},                                       \
        {.name = "key-file",                                                                       \
         .form = "FILE",                                                                           \
         .help = "file with the keys that the peers share (default: none)",                        \
         .set = bw_set_text,                                                                       \
         .offset = offsetof(struct bw_peer_look, key_file)},                                       \
        {.name = "timeout",                                                                        \
         .form = "D",                                                                              \
         .help = "maximum time to wait for a response (default: 2s)",                              \
         .set = bw_set_duration,                                                                   \
         .offset = offsetof(struct bw_peer_look, timeout_ns),                                      \
         .low = 1},                                                                                \
    {                                                                                              \
        .name = "json", .help = "print JSON (default: text)", .set = bw_set_switch,                \
        .offset = offsetof(struct bw_peer_look, json)                                              \
    }

struct bw_peer_client;

/* Parses the options and opens the client. Returns BW_GO_ON, or an exit code after one line on
 * stderr. */
int bw_peer_client_open(struct bw_peer_client **out, const struct bw_cli_command *command, int argc,
                        char **argv, struct bw_peer_look *look, struct bw_parsed *parsed);
void bw_peer_client_close(struct bw_peer_client *client);

/* One request to one address. bw_peer_client_ask sets the frame's request number. */
struct bw_peer_question_to {
    struct sockaddr_storage to;
    struct bw_peer_frame frame; /* the request; after it was answered, the response */
    bool answered;
    bw_node from; /* the peer that responded */
};

/* Sends the requests until all are answered (with `any`: one of them), or the time is over. Returns
 * the number of responses. */
uint32_t bw_peer_client_ask(struct bw_peer_client *client, struct bw_peer_question_to *questions,
                            uint32_t count, bool any);

/* All parts of one kind of view, from the first peer at --join that responds. The functions return
 * 0, or an exit code after one line on stderr. The caller frees `out`. */
struct bw_peer_answer {
    bw_node from;
    bool formed;
    struct sockaddr_storage at;       /* address of the peer that responded */
    struct bw_peer_member_view *seen; /* members */
    uint32_t count;
    struct bw_peer_election_view standing; /* state of the election; leader NONE: no leader */
};

int bw_peer_client_members(struct bw_peer_client *client, struct bw_peer_answer *out);
int bw_peer_client_standing(struct bw_peer_client *client, struct bw_peer_answer *out);
/* The members, the leader among them and its address. `row` is NULL if there is no leader or its
 * address is unknown. Results as above. */
struct bw_peer_leader {
    const struct bw_peer_row *row;
    struct sockaddr_storage at;
    bw_term term;
};
int bw_peer_client_leader(struct bw_peer_client *client, struct bw_peer_answer *members,
                          struct bw_peer_leader *out);
/* Prints one line with the reason and returns the code. */
int bw_peer_client_report(const struct bw_cli_command *command, int code, const char *sentence);
/* Sends an order to the leader. Returns 0, the error that the leader answered, or BW_ETIMEDOUT. */
int bw_peer_client_order(struct bw_peer_client *client, const struct sockaddr_storage *leader,
                         uint8_t kind, bw_node node);

/* Returns the member with this id, or NULL. */
const struct bw_peer_row *bw_peer_client_row(const struct bw_peer_answer *members, bw_node node);
/* Returns the member with this name or id that has not left, or NULL. */
const struct bw_peer_row *bw_peer_client_named(const struct bw_peer_answer *members,
                                               const char *name);
/* Writes the member's address. Returns false if it has none. */
bool bw_peer_client_address(const struct bw_peer_row *row, struct sockaddr_storage *out);
/* Writes the member's name, or its id if it has no name, to out[BW_PEER_NAME_MAX + 1]. */
const char *bw_peer_client_name(const struct bw_peer_row *row, char *out);

#endif
