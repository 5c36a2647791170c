/* Sends the requests of lease electors to a store, delivers the replies, and runs the electors'
 * timers.
 *
 * An asker is one open store on one libuv loop, shared by any number of clients. A client is a
 * lease elector, or a program that sends single requests.
 *
 * Guarantees, which do not depend on any store, socket or kernel timeout:
 * - Each request is answered exactly once.
 * - If the store does not answer within the time that the elector allowed, the answer is UNKNOWN
 *   and the asker cancels the request. The time counts from when the elector made the request, even
 *   if a hook held the request back.
 * - Deadlines are instants of CLOCK_BOOTTIME, kept by a timerfd. (libuv's own timers use
 *   CLOCK_MONOTONIC, which stops while the machine sleeps.)
 *
 * Everything runs on the loop's thread. No hook is called from within a call of the caller, with
 * one exception: a call that makes a step carries out the actions of that step. */
#ifndef BW_STORE_ASKER_ASKER_H
#define BW_STORE_ASKER_ASKER_H

#include "core/lease/lease.h"
#include "store/store.h"

struct bw_asker;
struct bw_asker_client; /* a client: an elector, or a sender of single requests */

struct bw_asker_options {
    void *context;
    /* The store stopped answering (`away`) or answers again. `error` is an enum bw_error or 0,
     * `why` a line for the user. Called again, a few times, if the cause changes while the store
     * does not answer. May be NULL. */
    void (*away)(void *context, bool away, int error, const char *why);
    /* See store.h, `event`. May be NULL. */
    void (*event)(void *context, const char *event, const char *line);
    /* See store.h, `ended` and `notices_changed`. May be NULL. */
    void (*ended)(void *context, int error, const char *line);
    void (*notices_changed)(void *context);
};

/* Opens the store of a URL. Returns 0, or an error and a line in why[BW_WHY_MAX + 1]. */
int bw_asker_open(struct bw_asker **out, const char *url, struct uv_loop_s *loop,
                  const struct bw_asker_options *options, char *why);

const struct bw_store_ops *bw_asker_store_ops(const struct bw_asker *asker);
struct bw_store *bw_asker_store(struct bw_asker *asker);

/* Closes the asker. All its clients must have been freed. The memory is freed when the loop has
 * closed the handles. */
void bw_asker_close(struct bw_asker *asker);

struct bw_asker_client_hooks {
    /* Carries out an action of the elector other than ASK, in order. Strings are borrowed. */
    void (*act)(void *context, const struct bw_lease_action *action);
    /* Optional. Called before a request is sent, to set what the elector does not know
     * (containment, settled). Returning false holds the request back until
     * bw_asker_client_send_held; its timeout continues to run. Only one request may be held back at
     * a time. */
    bool (*before)(void *context, struct bw_store_request *request);
    /* Optional. Called with each reply, UNKNOWN ones included, before the elector gets it. */
    void (*answer)(void *context, const struct bw_store_reply *reply);
    /* Optional. Called when the elector has finished its steps and its status may have changed. */
    void (*stepped)(void *context);
    /* Optional. Called at the time that bw_asker_client_alarm has set. */
    void (*alarm)(void *context, bw_time now);
    /* The replies are only displayed: they do not decide whether the store counts as away. */
    bool display;
};

/* Creates a client with an elector, not yet started. The config's strings are borrowed for its
 * lifetime; its seed and traits are set here. Without a config, the client only sends requests by
 * bw_asker_client_request. Returns 0, BW_EINVAL (invalid config) or BW_ENOMEM. */
int bw_asker_client_new(struct bw_asker_client **out, struct bw_asker *asker,
                        const struct bw_lease_config *config,
                        const struct bw_asker_client_hooks *hooks, void *context);

/* Frees a client and cancels its requests, which may still take effect. Must not be called from a
 * hook. NULL is allowed. */
void bw_asker_client_free(struct bw_asker_client *asked);

/* Makes a step of the elector, at the current time. If called from a hook, the step is queued (up
 * to ASKER_STEPS_MAX) and made after the actions of the current step. */
void bw_asker_client_step(struct bw_asker_client *asked, enum bw_lease_event_kind kind, bool yes);
/* RESIGN in favour of a named successor; `to` is copied. */
void bw_asker_client_transfer(struct bw_asker_client *asked, const char *to);

/* Calls the alarm hook once, at time `at`. BW_TIME_NEVER: no alarm. */
void bw_asker_client_alarm(struct bw_asker_client *asked, bw_time at);

/* Sends the request that was held back. */
void bw_asker_client_send_held(struct bw_asker_client *asked);

/* Sends a single request; only for clients without an elector. The asker sets the id. The reply
 * comes through the answer hook. Returns 0 or BW_ELIMIT. */
int bw_asker_client_request(struct bw_asker_client *asked, const struct bw_store_request *request,
                            bw_time within_ns);

/* Returns true while a reply other than a WATCH's is pending. */
bool bw_asker_client_is_waiting(const struct bw_asker_client *asked);

const struct bw_lease *bw_asker_client_lease(const struct bw_asker_client *asked);

#endif
