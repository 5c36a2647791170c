/* Carries what lease electors ask to a store, and the answers back; keeps their time.
 *
 * One asker is one open store on one libuv loop, shared by any number of electors. It keeps three
 * promises that no store, socket or kernel time-out is trusted with: every request of an elector is
 * answered exactly once; an answer that is not there within the time the elector allowed is UNKNOWN
 * and the request is cancelled; deadlines are CLOCK_BOOTTIME's, by a timerfd (libuv's own timers
 * are MONOTONIC and sleep with the machine). The answer to a request counts from when the elector
 * asked, whatever it waited for here.
 *
 * Everything happens on the loop's thread. No hook is ever called from within a call of yours, with
 * one exception: actions of a step, from the call that makes it. */
#ifndef BW_STORE_ASKER_H
#define BW_STORE_ASKER_H

#include "core/lease/lease.h"
#include "store/store.h"

struct bw_asker;
struct bw_asked; /* one who asks: an elector, or somebody with a single question */

/* Now on CLOCK_BOOTTIME: the clock of every instant here. */
bw_time bw_asker_now(void);

struct bw_asker_options {
    void *context;
    /* The store stopped answering, or answers again; `error` is an enum bw_error or 0, `why` a line
     * for people. Called again while it is away if the reason is another one, a few times. May be
     * NULL. */
    void (*away)(void *context, bool away, int error, const char *why);
    /* The store saw something that people must hear of (store.h). May be NULL. */
    void (*event)(void *context, const char *event, const char *line);
    /* The store can do nothing any more; its last words changed (store.h). May be NULL. */
    void (*ended)(void *context, int error, const char *line);
    void (*words)(void *context);
};

/* Opens the store of a URL. Returns 0, or an error with a line in why[BW_WHY_MAX + 1]. */
int bw_asker_open(struct bw_asker **out, const char *url, struct uv_loop_s *loop,
                  const struct bw_asker_options *options, char *why);

const struct bw_store_ops *bw_asker_store_ops(const struct bw_asker *asker);
struct bw_store *bw_asker_store(struct bw_asker *asker);

/* All who ask have been freed. The loop has to run until it has closed the handles; the memory is
 * gone then. */
void bw_asker_close(struct bw_asker *asker);

struct bw_asked_hooks {
    /* An action of the elector other than ASK, in order; strings are borrowed. */
    void (*act)(void *context, const struct bw_lease_action *action);
    /* Optional. A request is about to go: fill in what the elector does not know (containment,
     * settled). False holds it back until bw_asked_go; its time runs on. One at a time. */
    bool (*before)(void *context, struct bw_store_request *request);
    /* Optional. An answer, UNKNOWN ones included, before the elector sees it. */
    void (*answer)(void *context, const struct bw_store_reply *reply);
    /* Optional. The elector's steps are done for now: look at its status, if you like. */
    void (*stepped)(void *context);
    /* Optional. The instant of bw_asked_alarm has come. */
    void (*alarm)(void *context, bw_time now);
};

/* A new elector, not yet started. The strings of the config are borrowed for its life; its seed and
 * traits are set here. Without a config: somebody who asks by bw_asked_ask only. Returns 0,
 * BW_EINVAL (the config) or BW_ENOMEM. */
int bw_asked_new(struct bw_asked **out, struct bw_asker *asker,
                 const struct bw_lease_config *config, const struct bw_asked_hooks *hooks,
                 void *context);

/* Forgets it: nothing more comes, its requests are cancelled (their effect may still happen). Not
 * from within a hook. NULL is nothing. */
void bw_asked_free(struct bw_asked *asked);

/* One step of the elector with the present time. From within a hook: done after the actions that
 * are being carried out, in order; at most a few may wait. */
void bw_asked_step(struct bw_asked *asked, enum bw_lease_event_kind kind, bool yes);
/* RESIGN in favour of a named successor; `to` is copied. */
void bw_asked_transfer(struct bw_asked *asked, const char *to);

/* The alarm hook is called once `at` has come; NEVER: not. */
void bw_asked_alarm(struct bw_asked *asked, bw_time at);

/* Lets the request that was held back go. */
void bw_asked_go(struct bw_asked *asked);

/* A question of one's own; the id is set here. The answer comes by the answer hook. Returns 0 or
 * BW_ELIMIT. */
int bw_asked_ask(struct bw_asked *asked, const struct bw_store_request *request, bw_time within_ns);

/* True while an answer other than a watch's is awaited. */
bool bw_asked_waits(const struct bw_asked *asked);

const struct bw_lease *bw_asked_lease(const struct bw_asked *asked);

#endif
