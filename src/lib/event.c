/* Pending callbacks. Each leadership has at most one pending event of each kind, so the queue
 * stays bounded even if the program never dispatches. `lost` is delivered after its `elected`. Of
 * several changes of the leader, only the latest is delivered. */
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

void bw_lib_queue_event(struct bw_leadership *l, unsigned event)
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

void bw_lib_drop_event(struct bw_leadership *l, unsigned event)
{
    l->events &= ~event;
    if (l->events == 0 && l->event_queued)
        unqueue(l);
}

struct event_copy {
    struct bw_leadership *leadership;
    unsigned event;
    uint64_t token;
    enum bw_loss reason;
    char leader[BW_CANDIDATE_ID_MAX + 1], value[BW_VALUE_MAX + 1];
};

/* Copies the next event and removes it from the queue. The caller holds the mutex. */
static bool take(struct bw_handle *h, struct event_copy *out)
{
    struct bw_leadership *l = h->events;
    if (!l)
        return false;
    out->leadership = l;
    out->event = l->events & -l->events; /* the lowest bit */
    out->reason = l->reason;
    out->token = atomic_load(&l->token);
    if (out->event == EVENT_LEADER) {
        out->token = l->leader_token;
        memcpy(out->leader, l->leader, sizeof out->leader);
        memcpy(out->value, l->leader_value, sizeof out->value);
    }
    bw_lib_drop_event(l, out->event);
    return true;
}

static void deliver(const struct bw_options *callbacks, const struct event_copy *event,
                    void *context)
{
    if (event->event == EVENT_ELECTED)
        callbacks->elected(event->leadership, event->token, context);
    else if (event->event == EVENT_LOST)
        callbacks->lost(event->leadership, event->reason, context);
    else if (event->event == EVENT_PREPARE)
        callbacks->prepare(event->leadership, context);
    else
        callbacks->leader_changed(event->leadership, event->leader, event->token, event->value,
                                  context);
}

int bw_lib_dispatch(struct bw_handle *h)
{
    struct event_copy event;
    int delivered = 0;
    pthread_mutex_lock(&h->mutex);
    while (take(h, &event)) {
        void *context = event.leadership->context;
        h->notifying = event.leadership;
        h->notifying_thread = pthread_self();
        pthread_mutex_unlock(&h->mutex);
        /* The callback may free the leadership, so it is not used after this call. */
        deliver(&h->options, &event, context);
        delivered++;
        pthread_mutex_lock(&h->mutex);
        h->notifying = NULL;
        pthread_cond_broadcast(&h->changed);
    }
    pthread_mutex_unlock(&h->mutex);
    return delivered;
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
    bool busy = h->notifying;
    pthread_mutex_unlock(&h->mutex);
    if (busy)
        return bw_lib_fail(BW_EBUSY,
                           "cannot dispatch: another bw_dispatch is running on this handle");
    (void)!read(h->event_fd, &count,
                /* Reset the descriptor before reading the queue: an event queued later sets it
                 * again. */
                sizeof count);
    return bw_lib_dispatch(h);
}
