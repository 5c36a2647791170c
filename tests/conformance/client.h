/* A test's connection to a store: sends requests and waits for replies. */
#ifndef BW_TESTS_CONFORMANCE_CLIENT_H
#define BW_TESTS_CONFORMANCE_CLIENT_H

#include "store/store.h"

#include <uv.h>

#define CLIENT_KEPT_MAX 4096u

struct client {
    uv_loop_t loop;
    uv_timer_t timer;
    const struct bw_store_ops *ops;
    struct bw_store *store; /* NULL after client_close */
    const char *id;
    uint64_t next_id;
    bool calling, late, out_of_time;
    bool conforms;  /* opened by client_open_for_conformance */
    bool connected; /* its first request waits for this */
    uint32_t count; /* replies not yet fetched */
    struct bw_store_reply *kept;
    struct bw_candidate listed[64]; /* result of the last LIST */
    uint32_t listed_count;
    uint32_t total; /* all replies received */
};

/* Fails the test if the store cannot be opened. */
void client_open(struct client *client, const char *url, const char *id);
void client_close(struct client *client);
/* Like client_open, but the first request waits until the store is connected: before that, requests
 * may be UNAVAILABLE. The client's requests have a long TTL. */
void client_open_for_conformance(struct client *client, const char *url, const char *id);

/* Makes a request with the client's id, a new request id and a TTL that every store accepts. */
struct bw_store_request client_request(struct client *client, enum bw_store_op op,
                                       const char *election);
/* Sends a request; fails the test if the store does not accept it. Returns its id. */
uint64_t client_send(struct client *client, const struct bw_store_request *request);
/* Waits for the reply to request `id`. Returns false if none comes within `ms`. */
bool client_wait(struct client *client, uint64_t id, unsigned ms, struct bw_store_reply *reply);
/* Runs the loop for a while. */
void client_idle(struct client *client, unsigned ms);

/* Measures whether the machine stalled for a second, so that a request may have lost its reply:
 * client_measure_stalls begins, client_was_stalled tells, and then prints that `what` is not
 * judged. */
void client_measure_stalls(void);
bool client_was_stalled(const char *what);
/* Sends a request and returns the reply; fails the test if none comes. If the client `conforms`,
 * the reply is UNKNOWN or UNAVAILABLE, and the machine stalled, settles the request as an elector
 * does. */
struct bw_store_reply client_ask(struct client *client, const struct bw_store_request *request);
struct bw_store_reply client_do(struct client *client, enum bw_store_op op, const char *election);
struct bw_store_reply client_acquire(struct client *client, const char *election, uint64_t steal);
struct bw_store_reply client_renew(struct client *client, const char *election, bw_token token);
struct bw_store_reply client_release(struct client *client, const char *election, bw_token token,
                                     bool clean);
struct bw_store_reply client_note(struct client *client, const char *election,
                                  enum bw_note_kind kind, const char *to);
uint64_t client_watch(struct client *client, const char *election, uint64_t version);

#endif
