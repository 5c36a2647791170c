/* Callbacks for Go, see shim.h. A byte that does not fit into the pipe is not needed: the goroutine
 * has not yet read the bytes before it. */
#include "shim.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct bw_go_watch {
    int wake;
    pthread_mutex_t lock; /* protects `latest` */
    struct bw_leader_info latest;
};

struct bw_go_watch *bw_go_watch_new(int wake)
{
    struct bw_go_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    watch->wake = wake;
    watch->latest = bw_leader_info_default();
    pthread_mutex_init(&watch->lock, NULL);
    return watch;
}

void bw_go_watch_free(struct bw_go_watch *watch)
{
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

static void on_lost(struct bw_leadership *l, enum bw_loss reason, void *context)
{
    struct bw_go_watch *watch = context;
    (void)l;
    (void)reason;
    (void)!write(watch->wake, "l", 1);
}

static void on_leader(struct bw_leadership *l, const char *leader, uint64_t token,
                      const char *value, void *context)
{
    struct bw_go_watch *watch = context;
    (void)l;
    pthread_mutex_lock(&watch->lock);
    snprintf(watch->latest.id, sizeof watch->latest.id, "%s", leader);
    snprintf(watch->latest.value, sizeof watch->latest.value, "%s", value);
    watch->latest.token = token;
    pthread_mutex_unlock(&watch->lock);
    (void)!write(watch->wake, "c", 1);
}

void bw_go_watch_loss(struct bw_go_watch *watch, struct bw_options *options,
                      struct bw_campaign_options *campaign)
{
    options->lost = on_lost;
    campaign->context = watch;
}

void bw_go_watch_leader(struct bw_go_watch *watch, struct bw_options *options,
                        struct bw_campaign_options *campaign)
{
    options->leader_changed = on_leader;
    campaign->observer = true;
    campaign->context = watch;
}

void bw_go_watch_latest(struct bw_go_watch *watch, struct bw_leader_info *out)
{
    pthread_mutex_lock(&watch->lock);
    *out = watch->latest;
    pthread_mutex_unlock(&watch->lock);
}
