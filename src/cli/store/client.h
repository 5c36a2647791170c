/* A store as a short-lived command needs it: open it, ask one thing, wait for the answer or for
 * news, leave in good order on Ctrl-C. Everything runs on one loop in the calling thread. */
#ifndef BW_CLI_STORE_CLIENT_H
#define BW_CLI_STORE_CLIENT_H

#include "cli/options/options.h"
#include "store/store.h"

#include <uv.h>

#define BW_EXIT_NONE        66 /* no such store, election, candidate (EX_NOINPUT) */
#define BW_EXIT_LATE        75 /* not in time */
#define BW_EXIT_STALE       77 /* an older token */
#define BW_EXIT_INTERRUPTED 130

/* What every command here is told; the first member of its own options. */
struct bw_look {
    const char *store, *store_file, *election, *id;
    const char *shown; /* the store without its secret */
    bool json;
    bw_time timeout_ns;
    bool creates; /* makes a store that is not there; else it is refused */
};

/* Rows for a command's table; `type` has a struct bw_look first. */
#define BW_LOOK_STORE                                                                              \
    {                                                                                              \
        .name = "store", .form = "URL", .help = "where the election is kept: sqlite:PATH, ...",    \
        .set = bw_set_text, .offset = offsetof(struct bw_look, store)                              \
    }
#define BW_LOOK_STORE_FILE                                                                         \
    {                                                                                              \
        .name = "store-file", .form = "FILE",                                                      \
        .help = "reads the URL from a file, for one that holds a password", .set = bw_set_text,    \
        .offset = offsetof(struct bw_look, store_file)                                             \
    }
#define BW_LOOK_ELECTION                                                                           \
    {                                                                                              \
        .name = "election", .form = "NAME", .help = "the name contended for", .set = bw_set_text,  \
        .offset = offsetof(struct bw_look, election)                                               \
    }
#define BW_LOOK_ID                                                                                 \
    {                                                                                              \
        .name = "id", .form = "ID", .help = "who asks, as others will see it (user@host)",         \
        .set = bw_set_text, .offset = offsetof(struct bw_look, id)                                 \
    }
#define BW_LOOK_JSON                                                                               \
    {                                                                                              \
        .name = "json", .help = "JSON instead of text", .set = bw_set_switch,                      \
        .offset = offsetof(struct bw_look, json)                                                   \
    }
#define BW_LOOK_TIMEOUT                                                                            \
    {                                                                                              \
        .name = "timeout", .form = "D", .help = "how long the store may take to answer (5s)",      \
        .set = bw_set_duration, .low = 1, .offset = offsetof(struct bw_look, timeout_ns)           \
    }

/* Defaults, bw_options_parse, -w for --wait, which store is meant (as `bellwether run` means it),
 * and that an election was named. `look` is the target's first member. */
int bw_look_parse(const struct bw_cli_command *command, int argc, char **argv, struct bw_look *look,
                  struct bw_parsed *parsed);

/* Which store is meant, as `bellwether run` means it. BW_GO_ON or an exit code. */
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
    /* Set: every reply goes there; else only the awaited one is kept. */
    void *context;
    void (*on_reply)(void *context, const struct bw_store_reply *reply);
    uint64_t awaited;
    bool answered, late, interrupted;
    struct bw_store_reply reply; /* the last one awaited; `candidates` is a copy, valid until the
                                    next LIST */
    struct bw_candidate *candidates;
};

enum bw_wait { BW_WAIT_ANSWERED, BW_WAIT_LATE, BW_WAIT_INTERRUPTED };

/* BW_GO_ON, or an exit code after one line on stderr. `look` must live as long as the client. */
int bw_client_open(struct bw_client *client, const struct bw_cli_command *command,
                   const struct bw_look *look);
void bw_client_close(struct bw_client *client);

/* A request with a fresh id, for the election of `look`. */
struct bw_store_request bw_client_request(struct bw_client *client, enum bw_store_op op);

/* Sends it and waits; an unavailable store is asked again until look->timeout_ns is over. BW_GO_ON
 * with client->reply DONE or REFUSED, or an exit code after one line. */
int bw_client_ask(struct bw_client *client, const struct bw_store_request *request);

/* READ; with BW_EXIT_NONE and a line when the election was never heard of. */
int bw_client_read(struct bw_client *client);

/* NOTE of that kind to the holder (or for `to`), from look->id. */
int bw_client_note(struct bw_client *client, enum bw_note_kind kind, const char *to);

/* Waits until the record's version is not `version` (by WATCH; where a store cannot, by looking
 * once a second), or until `until` on bw_client_now. ANSWERED: client->reply, whatever its outcome.
 */
enum bw_wait bw_client_news(struct bw_client *client, uint64_t version, bw_time until);

/* Lets time pass on the loop; LATE is the good end. ANSWERED: something else on the loop has set
 * `answered`. */
enum bw_wait bw_client_pause(struct bw_client *client, bw_time span_ns);

bw_time bw_client_now(void); /* CLOCK_BOOTTIME */
/* Of an odd number of spans; sorts them. */
bw_time bw_client_median(bw_time *spans, size_t count);

/* One line on stderr, behind the command's path; returns `code`. */
__attribute__((format(printf, 3, 4))) int bw_client_fail(const struct bw_client *client, int code,
                                                         const char *format, ...);

#endif
