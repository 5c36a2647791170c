/* A store seen by a test: ask and wait for the answer. */
#ifndef BW_TESTS_CONFORMANCE_CLIENT_H
#define BW_TESTS_CONFORMANCE_CLIENT_H

#include "store/store.h"

#include <uv.h>

#define CLIENT_KEPT_MAX 4096u

struct client {
    uv_loop_t loop;
    uv_timer_t patience;
    const struct bw_store_ops *ops;
    struct bw_store *store; /* NULL after client_close */
    const char *id;
    uint64_t next_id;
    bool calling, late, out_of_time;
    bool settles;   /* what it asks; set by its user */
    uint32_t count; /* replies that nobody has asked for yet */
    struct bw_store_reply *kept;
    struct bw_candidate listed[64]; /* of the last LIST */
    uint32_t listed_count;
    uint32_t total; /* replies ever */
};

/* Fails the test if the store cannot be opened. */
void client_open(struct client *client, const char *url, const char *id);
void client_close(struct client *client);

/* A request with the client's id, a new request id and a TTL every store takes. */
struct bw_store_request client_request(struct client *client, enum bw_store_op op,
                                       const char *election);
/* Sends it; fails the test if the store does not take it. Returns its id. */
uint64_t client_send(struct client *client, const struct bw_store_request *request);
/* The answer to request `id`; false if none comes within `ms`. */
bool client_wait(struct client *client, uint64_t id, unsigned ms, struct bw_store_reply *reply);
/* Let time pass on the loop. */
void client_idle(struct client *client, unsigned ms);

/* Send and wait; fails the test if no answer comes. */
/* What an elector does when a server was too busy or its connection ended: it looks whether what it
 * asked was done, and asks again if not. */
struct bw_store_reply client_settle(struct client *client, const struct bw_store_request *request,
                                    struct bw_store_reply reply);
/* The reply; settled if the client does that. */
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
