/* Reads the current leader: one READ, with a timeout of a sixth of the TTL. */
#include "lib/lib.h"

#include <stdio.h>
#include <string.h>

struct question {
    struct bw_handle *handle;
    struct bw_asker_client *asked; /* T */
    const char *election;
    bw_time within_ns;
    bool answered; /* M */
    int error;     /* M */
    struct bw_leader_info info;
    char why[BW_WHY_MAX + 1];
};

static void act(void *context, const struct bw_lease_action *action)
{
    (void)context;
    (void)action;
}

static void answer(void *context, const struct bw_store_reply *reply)
{
    struct question *q = context;
    const struct bw_store_record *record = &reply->record;
    pthread_mutex_lock(&q->handle->mutex);
    q->answered = true;
    if (reply->outcome != BW_OUTCOME_DONE) {
        q->error = BW_EIO;
        memcpy(q->why, reply->why, sizeof q->why);
    } else if (record->held && !record->proved_dead) {
        memcpy(q->info.id, record->holder, sizeof record->holder);
        memcpy(q->info.value, record->value, sizeof record->value);
        q->info.token = record->token;
    }
    pthread_cond_broadcast(&q->handle->changed);
    pthread_mutex_unlock(&q->handle->mutex);
}

_Static_assert(sizeof((struct bw_leader_info *)0)->id == BW_CANDIDATE_ID_MAX + 1, "an id fits");
_Static_assert(sizeof((struct bw_leader_info *)0)->value == BW_VALUE_MAX + 1, "a value fits");

static int ask(struct bw_handle *h, void *arg)
{
    static const struct bw_asker_client_hooks hooks = {.act = act, .answer = answer};
    struct question *q = arg;
    struct bw_store_request request = {
        .op = BW_STORE_READ, .id = 1, .election = q->election, .candidate = h->id};
    int error = bw_store_request_check(&request, 0);
    if (!error)
        error = bw_asker_client_new(&q->asked, h->asker, NULL, &hooks, q);
    return error ? error : bw_asker_client_request(q->asked, &request, q->within_ns);
}

static int forget(struct bw_handle *h, void *arg)
{
    struct question *q = arg;
    (void)h;
    bw_asker_client_free(q->asked);
    return 0;
}

static int await(struct question *q)
{
    struct bw_handle *h = q->handle;
    pthread_mutex_lock(&h->mutex);
    h->busy++;
    while (!q->answered && !atomic_load(&h->interrupted))
        bw_lib_wait(h, BW_TIME_NEVER);
    int error = q->answered ? q->error : BW_EINTERRUPTED;
    h->busy--;
    pthread_mutex_unlock(&h->mutex);
    return error;
}

int bw_leader(struct bw_handle *h, const char *election, struct bw_leader_info *out)
{
    struct question q = {.handle = h, .election = election};
    struct settings settings;
    int error = bw_lib_check(h);
    if (error)
        return error;
    if (!election || out->size < sizeof out->size || bw_lib_on_thread(h))
        return bw_lib_fail(BW_EINVAL,
                           "cannot read the leader: no election, out->size not set, or called "
                           "on the library's thread");
    bw_lib_settings(h, 0, &settings); /* cannot fail: bw_open has checked the settings */
    q.within_ns = settings.terms.ttl_ns / 6;
    error = bw_lib_call(h, ask, &q);
    if (!error) {
        error = await(&q);
        bw_lib_call(h, forget, &q);
    }
    if (error)
        return bw_lib_fail(error, "%s", q.why[0] ? q.why : bw_error_text(error));
    q.info.size = out->size;
    memcpy(out, &q.info, out->size < sizeof q.info ? out->size : sizeof q.info);
    return 0;
}
