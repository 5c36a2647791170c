/* Callbacks: each leadership has at most one event of each kind to be told, so nothing grows when
 * nobody listens. `lost` is told after the `elected` it belongs to; changes of the leader are told
 * as the latest one. */
#include "lib/lib.h"

#include <string.h>
#include <unistd.h>

static unsigned wanted(const struct bw_options *callbacks)
{
    return (callbacks->elected ? (unsigned)EVENT_ELECTED : 0u) |
           (callbacks->lost ? (unsigned)EVENT_LOST : 0u) |
           (callbacks->leader_changed ? (unsigned)EVENT_LEADER : 0u) |
           (callbacks->prepare ? (unsigned)EVENT_PREPARE : 0u);
}

void bw_lib_tell(struct bw_leadership *l, unsigned event)
{
    struct bw_handle *h = l->handle;
    l->events |= event & wanted(&h->options);
    if (l->events == 0 || l->event_queued)
        return;
    l->event_queued = true;
    l->event_next = NULL;
    *h->events_end = l;
    h->events_end = &l->event_next;
    uint64_t one = 1;
    if (h->event_fd >= 0)
        (void)!write(h->event_fd, &one, sizeof one);
}

static void unqueue(struct bw_leadership *l)
{
    struct bw_handle *h = l->handle;
    struct bw_leadership **at = &h->events;
    while (*at != l)
        at = &(*at)->event_next;
    *at = l->event_next;
    if (h->events_end == &l->event_next)
        h->events_end = at;
    l->event_queued = false;
}

void bw_lib_untell(struct bw_leadership *l, unsigned event)
{
    l->events &= ~event;
    if (l->events == 0 && l->event_queued)
        unqueue(l);
}

struct news {
    struct bw_leadership *about;
    unsigned event;
    uint64_t token;
    enum bw_loss reason;
    char leader[BW_CANDIDATE_ID_MAX + 1], value[BW_VALUE_MAX + 1];
};

/* The next one event, copied; the mutex is held. */
static bool take(struct bw_handle *h, struct news *out)
{
    struct bw_leadership *l = h->events;
    if (!l)
        return false;
    out->about = l;
    out->event = l->events & -l->events; /* the lowest bit */
    out->reason = l->reason;
    out->token = atomic_load(&l->token);
    if (out->event == EVENT_LEADER) {
        out->token = l->leader_token;
        memcpy(out->leader, l->leader, sizeof out->leader);
        memcpy(out->value, l->leader_value, sizeof out->value);
    }
    bw_lib_untell(l, out->event);
    return true;
}

static void deliver(const struct bw_options *callbacks, const struct news *news, void *context)
{
    if (news->event == EVENT_ELECTED)
        callbacks->elected(news->about, news->token, context);
    else if (news->event == EVENT_LOST)
        callbacks->lost(news->about, news->reason, context);
    else if (news->event == EVENT_PREPARE)
        callbacks->prepare(news->about, context);
    else
        callbacks->leader_changed(news->about, news->leader, news->token, news->value, context);
}

int bw_lib_dispatch(struct bw_handle *h)
{
    struct news news;
    int told = 0;
    pthread_mutex_lock(&h->mutex);
    while (take(h, &news)) {
        void *context = news.about->context;
        h->telling = news.about;
        h->teller = pthread_self();
        pthread_mutex_unlock(&h->mutex);
        deliver(&h->options, &news, context); /* may end the leadership: not touched again */
        told++;
        pthread_mutex_lock(&h->mutex);
        h->telling = NULL;
        pthread_cond_broadcast(&h->changed);
    }
    pthread_mutex_unlock(&h->mutex);
    return told;
}

int bw_fd(const struct bw_handle *h)
{
    return h->pid == getpid() ? h->event_fd : -1;
}

int bw_dispatch(struct bw_handle *h)
{
    uint64_t count;
    int error = bw_lib_check(h);
    if (error)
        return error;
    if (h->event_fd < 0)
        return bw_lib_fail(BW_EINVAL, "the handle was not opened with options.pollable");
    pthread_mutex_lock(&h->mutex);
    bool busy = h->telling;
    pthread_mutex_unlock(&h->mutex);
    if (busy)
        return bw_lib_fail(BW_EBUSY, "bw_dispatch within bw_dispatch, or in two threads");
    (void)!read(h->event_fd, &count,
                sizeof count); /* before looking: what comes later rings again */
    return bw_lib_dispatch(h);
}
