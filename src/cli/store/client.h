/* A store client for short-lived commands: opens the store, sends a request, waits for the reply or
 * for a change, and closes cleanly on Ctrl-C. Everything runs on one loop in the calling thread. */
#ifndef BW_CLI_STORE_CLIENT_H
#define BW_CLI_STORE_CLIENT_H

#include "cli/options/options.h"
#include "store/store.h"

#include <uv.h>

#define BW_EXIT_NONE        66 /* no such store, election, candidate (EX_NOINPUT) */
#define BW_EXIT_LATE        75 /* timeout */
#define BW_EXIT_STALE       77 /* stale token */
#define BW_EXIT_INTERRUPTED 130

/* Options of every command that uses this client; the first member of the command's own options. */
struct bw_look {
    const char *store, *store_file, *election, *id;
    const char *shown; /* the URL without its secret */
    bool is_default;   /* no store was named: it is the default store */
    bool json;
    bw_time timeout_ns;
    bool all;        /* the election is optional: without it, the command shows all of them */
    bool reads_only; /* the command changes nothing, so it needs no write permission */
    bool creates;    /* creates a missing store; else a missing store is an error */
};

/* Rows for a command's option table. The command's options begin with a struct bw_look. */
#define BW_LOOK_STORE                                                                              \
    {                                                                                              \
        .name = "store", .form = "URL",                                                            \
        .help =                                                                                    \
            "store of the election: sqlite:PATH or another URL (default: that of bellwether run)", \
        .set = bw_set_text, .offset = offsetof(struct bw_look, store)                              \
    }
#define BW_LOOK_STORE_FILE                                                                         \
    {                                                                                              \
        .name = "store-file", .form = "FILE",                                                      \
        .help =                                                                                    \
            "read the URL of the store from a file, for a URL with a password (default: none)",    \
        .set = bw_set_text, .offset = offsetof(struct bw_look, store_file)                         \
    }
#define BW_LOOK_ELECTION                                                                           \
    {                                                                                              \
        .name = "election", .form = "NAME", .help = "name of the election (required)",             \
        .set = bw_set_text, .offset = offsetof(struct bw_look, election)                           \
    }
#define BW_LOOK_ELECTION_OR_ALL                                                                    \
    {                                                                                              \
        .name = "election", .form = "NAME",                                                        \
        .help = "name of the election (default: list all elections of the store)",                 \
        .set = bw_set_text, .offset = offsetof(struct bw_look, election)                           \
    }
#define BW_LOOK_TRIAL_ELECTION                                                                     \
    {                                                                                              \
        .name = "election", .form = "NAME",                                                        \
        .help = "name of the trial election (default: bellwether-check)", .set = bw_set_text,      \
        .offset = offsetof(struct bw_look, election)                                               \
    }
#define BW_LOOK_ID                                                                                 \
    {                                                                                              \
        .name = "id", .form = "ID",                                                                \
        .help = "name of the requester in notes to the leader (default: user@host)",               \
        .set = bw_set_text, .offset = offsetof(struct bw_look, id)                                 \
    }
#define BW_LOOK_JSON                                                                               \
    {                                                                                              \
        .name = "json", .help = "print JSON (default: text)", .set = bw_set_switch,                \
        .offset = offsetof(struct bw_look, json)                                                   \
    }
#define BW_LOOK_TIMEOUT                                                                            \
    {                                                                                              \
        .name = "timeout", .form = "D",                                                            \
        .help = "maximum time to wait for the store (default: 5s)", .set = bw_set_duration,        \
        .low = 1, .offset = offsetof(struct bw_look, timeout_ns)                                   \
    }

/* Sets defaults, parses the options (-w for --wait), finds the store as `bellwether run` does, and
 * checks that an election is given, unless look->all. `look` is the target's first member. */
int bw_look_parse(const struct bw_cli_command *command, int argc, char **argv, struct bw_look *look,
                  struct bw_parsed *parsed);

/* Finds the store as `bellwether run` does. Returns BW_GO_ON or an exit code. */
int bw_look_store(const struct bw_cli_command *command, struct bw_look *look);

struct bw_client {
    const struct bw_cli_command *command;
    const struct bw_look *look;
    const struct bw_store_ops *ops;
    struct bw_store *store;
    uv_loop_t loop;
    uv_timer_t timer;
    uv_signal_t signals[2];
    uint64_t next_id;
    /* If set, receives every reply; otherwise only the awaited reply is kept. */
    void *context;
    void (*on_reply)(void *context, const struct bw_store_reply *reply);
    uint64_t awaited;
    bool answered, late, interrupted;
    /* the last awaited reply; its `candidates` are a copy, valid until the next LIST */
    struct bw_store_reply reply;
    struct bw_candidate *candidates;
    struct bw_election_name *elections; /* the same for ELECTIONS */
};

enum bw_wait { BW_WAIT_ANSWERED, BW_WAIT_LATE, BW_WAIT_INTERRUPTED };

/* Returns BW_GO_ON, or an exit code after one line on stderr. `look` must outlive the client. */
int bw_client_open(struct bw_client *client, const struct bw_cli_command *command,
                   const struct bw_look *look);
void bw_client_close(struct bw_client *client);

/* Returns a request with a fresh id for the election of `look`. */
struct bw_store_request bw_client_request(struct bw_client *client, enum bw_store_op op);

/* The reply to a request that the store's client did not send. BW_ELIMIT: this process lacks
 * memory, so the store counts as unavailable; it has not refused anything. */
struct bw_store_reply bw_client_not_sent(const struct bw_store_request *request, int error);

/* Sends the request and waits for the reply; retries an unavailable store until look->timeout_ns is
 * over. Returns BW_GO_ON with a reply DONE or REFUSED in client->reply, or an exit code after one
 * line on stderr. */
int bw_client_ask(struct bw_client *client, const struct bw_store_request *request);

/* Reads the record. Returns BW_EXIT_NONE after one line if the election does not exist. */
int bw_client_read(struct bw_client *client);

/* Writes a note of this kind to the holder (or for `to`), from look->id. */
int bw_client_note(struct bw_client *client, enum bw_note_kind kind, const char *to);

/* Waits until the record's version differs from `version`, or until `until` on bw_clock_boot. Uses
 * WATCH; polls once a second if the store has no watches. Returns ANSWERED with client->reply of
 * any outcome. */
enum bw_wait bw_client_wait_change(struct bw_client *client, uint64_t version, bw_time until);

/* Runs the loop for a while. Returns LATE when the time is over, ANSWERED if a callback has set
 * `answered`. */
enum bw_wait bw_client_pause(struct bw_client *client, bw_time span_ns);

/* Returns the median of an odd number of spans; sorts them. */
bw_time bw_client_median(bw_time *spans, size_t count);

/* Prints one line on stderr after the command's path and returns `code`. */
__attribute__((format(printf, 3, 4))) int bw_client_fail(const struct bw_client *client, int code,
                                                         const char *format, ...);

#endif
