/* The store `peer:`. The peers decide the elections themselves (peer/node.h); this process is one
 * of them.
 *
 * Model: a process crashes, pauses and restarts. The network loses, delays and partitions. No
 * process that has a key lies.
 *
 * Guarantees:
 * - In a partition: what the algorithm promises (elector.h).
 * - With Raft or the quorum guard: each leadership has a token that only grows. A peer leads only
 *   when no earlier leader can act any more: the promise to it has expired, or its work is known to
 *   be dead.
 * - Without them: two peers may lead in a partition, and there is no token.
 *
 * No record is stored anywhere: each peer derives the record it shows from the announcements it
 * received. So there is no list of candidates, and of an earlier holder only its name is known. */
#include "store/peer/peer.h"

#include "os/clock.h"
#include "store/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL_MIN_NS     (100 * BW_MS)
#define KEY_POLL_MS    1000u
#define WHY_BYTES(why) (int)BW_WHY_MAX, (why)

/* ---- callbacks of the peer ---- */

static void report_event(struct bw_store *store, const char *event, const char *line)
{
    if (store->options.event)
        store->options.event(store->options.context, event, line);
}

static void on_announced(void *context, uint32_t election,
                         const struct bw_announcement *announcement)
{
    struct bw_store *store = context;
    struct peer_shard *shard = &store->shards[election];
    peers_update(store, shard, leader_slot_announce(&shard->slot, announcement, bw_clock_boot()));
}

static void on_held(void *context, uint32_t election, bool held)
{
    struct bw_store *store = context;
    struct peer_shard *shard = &store->shards[election];
    report_event(store, held ? "held" : "resumed",
                 held ? "a recovery has stopped all work" : "work may continue");
    peers_update(store, shard, leader_slot_hold(&shard->slot, held, bw_clock_boot()));
}

static const char *name_of(struct bw_store *store, bw_node node)
{
    const char *name = bw_peer_name(store->peer, node);
    return name ? name : "an unknown peer";
}

/* Of the two leaders, the one with the lower number recovers, so that exactly one does. */
static void on_split(void *context, uint32_t election, const struct bw_peer_claim *one,
                     const struct bw_peer_claim *other)
{
    struct bw_store *store = context;
    char line[BW_WHY_MAX + 1];
    bw_node self = store->settings.id;
    bw_node low = other->node == BW_NODE_NONE || one->node < other->node ? one->node : other->node;
    (void)election;
    if (!store->options.event)
        return;
    snprintf(line, sizeof line, "two leaders: '%.100s' (term %llu) and '%.100s' (term %llu)",
             name_of(store, one->node), (unsigned long long)one->term, name_of(store, other->node),
             (unsigned long long)other->term);
    store->options.event(store->options.context, low == self ? "split-brain" : "split-seen", line);
}

static void on_differs(void *context, bw_node node, const char *line)
{
    (void)node;
    report_event(context, "settings-differ", line);
}

static void on_formed(void *context)
{
    struct bw_store *store = context;
    for (uint32_t i = 0; i < store->shards_count; i++)
        peers_update(store, &store->shards[i], true);
}

/* The work of this shard has ended for good on some peer. */
static void on_done(void *context, uint32_t election)
{
    struct bw_store *store = context;
    store->shards[election].done = true;
    peers_update(store, &store->shards[election], true);
}

static void on_ordered(void *context, const struct bw_peer_order *order)
{
    peers_ordered(context, order);
}

static int on_outcome(void *context, uint32_t election, bw_node to)
{
    return peers_outcome(context, election, to);
}

/* Called when this peer can no longer take part. It leads nothing any more, and requests fail with
 * the text `why`. Only RELEASE is still accepted, to notify the others that our work is dead. */
static void on_ended(void *context, int error, const char *why)
{
    struct bw_store *store = context;
    struct bw_announcement no_leader = {.leader = BW_NODE_NONE};
    snprintf(store->ended, sizeof store->ended, "%.*s", WHY_BYTES(why));
    if (store->options.ended)
        store->options.ended(store->options.context, error, why);
    for (uint32_t i = 0; i < store->shards_count; i++)
        peers_update(store, &store->shards[i],
                     leader_slot_announce(&store->shards[i].slot, &no_leader, bw_clock_boot()));
}

static void on_notices_changed(void *context, uint32_t election)
{
    struct bw_store *store = context;
    if (store->options.notices_changed)
        store->options.notices_changed(store->options.context, store->shards[election].election);
}

/* ---- opening and closing ---- */

static void free_store(struct bw_store *store)
{
    if (store->credentials)
        bw_credentials_close(store->credentials);
    bw_keyring_free(store->keyring);
    free(store->shards);
    free(store->notices);
    free(store->messages);
    free(store);
}

static void one_closed(struct bw_store *store)
{
    if (--store->handles == 0)
        free_store(store);
}

static void on_jobs_closed(struct bw_jobs *jobs)
{
    one_closed(jobs->context);
}

static void on_handle_closed(uv_handle_t *handle)
{
    one_closed(handle->data);
}

static void on_peer_closed(void *context)
{
    one_closed(context);
}

/* Reloads the key file when it changes. If that fails, the old keys stay in force. Death notices
 * are sealed again, because their key may have been removed. This is no uv_fs_poll_t, which ends
 * the process if memory runs out. */
static void on_key_timer(uv_timer_t *timer)
{
    struct bw_store *store = timer->data;
    char why[BW_KEYRING_WHY_MAX + 1] = "";
    struct bw_stamp found = bw_stamp_of(store->settings.key_file);
    if (bw_stamp_same(found, store->key_seen))
        return;
    int error = bw_keyring_reload(store->keyring, why);
    if (error != BW_ENOMEM)
        store->key_seen = found;
    if (error) {
        report_event(store, "keys-refused", why);
        return;
    }
    report_event(store, "keys-read", "key file reloaded; new keys are in force");
    for (uint32_t i = 0; i < store->shards_count; i++)
        on_notices_changed(store, i);
}

static int open_keys(struct bw_store *store, char *why)
{
    const char *file = store->settings.key_file;
    char line[BW_KEYRING_WHY_MAX + 1] = "";
    if (!file[0]) {
        store->keyring = bw_keyring_public();
        return store->keyring ? 0 : bw_store_explain(why, BW_ENOMEM, "no memory left");
    }
    store->key_seen = bw_stamp_of(file);
    int error = bw_keyring_load(&store->keyring, file, line);
    bool lasts = error == BW_EIO || error == BW_EMALFORMED || error == BW_ELIMIT;
    return error ? bw_store_explain(why, lasts ? BW_EINVAL : error, "%s", line) : 0;
}

static void on_tls_event(void *context, enum bw_priority priority, const char *line)
{
    (void)priority;
    report_event(context, "tls", line);
}

static int open_tls(struct bw_store *store, char *why)
{
    static const char *const protocols[] = {"bellwether-peer", NULL};
    struct peer_settings *s = &store->settings;
    char line[BW_TLS_WHY_MAX + 1] = "";
    struct bw_credentials_options options = {.loop = store->loop,
                                             .files = {.ca_file = s->tls_ca,
                                                       .cert_file = s->tls_cert,
                                                       .key_file = s->tls_key,
                                                       .protocols = protocols},
                                             .whose = "peer",
                                             .dials = true,
                                             .context = store,
                                             .say = on_tls_event};
    if (!s->tls_cert[0])
        return 0;
    int error = bw_credentials_open(&store->credentials, &options, line);
    return error ? bw_store_explain(why, error == BW_EIO ? BW_EINVAL : error, "%s", line) : 0;
}

static int open_peer(struct bw_store *store, char *why)
{
    char line[BW_PEER_WHY_MAX + 1] = "";
    struct bw_peer_options options = {.loop = store->loop,
                                      .keyring = store->keyring,
                                      .credentials = store->credentials,
                                      .context = store,
                                      .formed = on_formed,
                                      .announced = on_announced,
                                      .death_notices_changed = on_notices_changed,
                                      .ordered = on_ordered,
                                      .outcome = on_outcome,
                                      .held = on_held,
                                      .done = on_done,
                                      .split = on_split,
                                      .differs = on_differs,
                                      .ended = on_ended};
    peer_settings_fill(&store->settings, &options);
    int error = bw_peer_open(&store->peer, &options, line);
    return error ? bw_store_explain(why, error, "%.*s", WHY_BYTES(line)) : 0;
}

static int make_shards(struct bw_store *store, char *why)
{
    const struct peer_settings *s = &store->settings;
    store->shards_count = s->shards ? s->shards : 1;
    store->shards = calloc(store->shards_count, sizeof *store->shards);
    if (!store->shards)
        return bw_store_explain(why, BW_ENOMEM, "no memory for a peer");
    for (uint32_t i = 0; i < store->shards_count; i++) {
        struct peer_shard *shard = &store->shards[i];
        shard->number = i;
        shard->version = 1;
        leader_slot_init(&shard->slot, s->id, s->ttl_ns);
        if (s->shards)
            snprintf(shard->election, sizeof shard->election, "%.*s.%u",
                     (int)BW_ELECTION_NAME_MAX - 11, s->election, (unsigned)i);
        else
            snprintf(shard->election, sizeof shard->election, "%s", s->election);
    }
    return 0;
}

static int open_parts(struct bw_store *store, const char *url, char *why)
{
    int error = peer_settings_read(&store->settings, url, why);
    if (!error)
        error = make_shards(store, why);
    if (!error)
        error = open_keys(store, why);
    if (!error)
        error = open_tls(store, why);
    return error ? error : open_peer(store, why);
}

static void start_handles(struct bw_store *store)
{
    uv_timer_init(store->loop, &store->timer);
    store->timer.data = store;
    store->handles = 3; /* jobs, peer, timer */
    if (!store->settings.key_file[0])
        return;
    uv_timer_init(store->loop, &store->key_watch);
    store->key_watch.data = store;
    store->handles++;
    uv_timer_start(&store->key_watch, on_key_timer, KEY_POLL_MS, KEY_POLL_MS);
}

static int peer_open(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                     const struct bw_store_options *options, char *why)
{
    struct bw_store *store = calloc(1, sizeof *store);
    if (!store)
        return bw_store_explain(why, BW_ENOMEM, "no memory for a peer");
    store->loop = loop;
    store->options = *options;
    int error = open_parts(store, url, why);
    if (error) {
        free_store(store);
        return error;
    }
    start_handles(store);
    if (bw_jobs_open(&store->jobs, loop, options, NULL, store) != 0) {
        store->handles--;
        bw_peer_close(store->peer, false, on_peer_closed);
        uv_close((uv_handle_t *)&store->timer, on_handle_closed);
        if (store->settings.key_file[0])
            uv_close((uv_handle_t *)&store->key_watch, on_handle_closed);
        return bw_store_explain(why, BW_ENOMEM, "no memory for a peer");
    }
    *out = store;
    return 0;
}

static void peer_close(struct bw_store *store)
{
    bw_jobs_close(&store->jobs, on_jobs_closed);
    bw_peer_close(store->peer, store->settings.leave, on_peer_closed);
    uv_close((uv_handle_t *)&store->timer, on_handle_closed);
    if (store->settings.key_file[0])
        uv_close((uv_handle_t *)&store->key_watch, on_handle_closed);
}

/* ---- requests ---- */

static int peer_request(struct bw_store *store, const struct bw_store_request *request)
{
    return bw_store_request_check(request, TTL_MIN_NS) != 0 ? BW_EINVAL
                                                            : peers_request(store, request);
}

static void peer_cancel(struct bw_store *store, uint64_t id)
{
    bw_jobs_cancel(&store->jobs, id);
}

static bool peer_about(struct bw_store *store, char *about)
{
    const struct peer_settings *s = &store->settings;
    snprintf(about, BW_WHY_MAX + 1, "peer %u at %s; %s%s: %s", (unsigned)s->id,
             bw_peer_address(store->peer), s->algorithm->name, s->quorum ? " with a quorum" : "",
             s->quorum ? bw_elect_guard.promise : s->algorithm->promise);
    return true;
}

/* ---- death notices ---- */

static bool allocate_notices(struct bw_store *store)
{
    if (!store->notices)
        store->notices = calloc(BW_DEATH_NOTICES_MAX, sizeof *store->notices);
    if (!store->messages)
        store->messages = calloc(BW_DEATH_NOTICES_MAX, sizeof *store->messages);
    return store->notices && store->messages;
}

static bool copy_notice(struct bw_death_notice *word, const struct bw_peer_death_notice *notice)
{
    if (notice->to_length > sizeof word->to || notice->length > sizeof word->bytes)
        return false;
    word->to_length = (uint16_t)notice->to_length;
    word->length = (uint16_t)notice->length;
    memcpy(word->to, &notice->to, notice->to_length);
    memcpy(word->bytes, notice->bytes, notice->length);
    return true;
}

static bool peer_death_notices(struct bw_store *store, const char *election,
                               struct bw_death_notices *out)
{
    const struct peer_shard *shard = peers_shard(store, election);
    if (!shard || !allocate_notices(store))
        return false;
    uint32_t count =
        bw_peer_death_notices(store->peer, shard->number, store->messages, BW_DEATH_NOTICES_MAX);
    *out = (struct bw_death_notices){.rows = store->notices, .socket = bw_peer_socket(store->peer)};
    for (uint32_t i = 0; i < count; i++)
        out->count += copy_notice(&store->notices[out->count], &store->messages[i]);
    return out->count > 0;
}

/* ---- counters ---- */

static uint32_t peer_counts(struct bw_store *store, struct bw_store_count out[BW_STORE_COUNTS_MAX])
{
    static const char dropped[] = "peer_frames_dropped_total", why[] = "Frames dropped";
    struct bw_peer_counters c;
    const char *reason;
    uint64_t number = 0;
    bw_peer_counters(store->peer, &c);
    const struct bw_store_count rows[] = {
        {"peer_frames_received_total", "Frames received from other peers", NULL, c.frames_in},
        {"peer_frames_sent_total", "Frames sent to other peers", NULL, c.frames_out},
        {"peer_bytes_sent_total", "Bytes sent to other peers", NULL, c.bytes_out},
        {dropped, why, "not_a_frame", c.malformed},
        {dropped, why, "no_member", c.unknown_senders}};
    uint32_t count = sizeof rows / sizeof rows[0];
    memcpy(out, rows, sizeof rows);
    for (unsigned i = 0;
         count < BW_STORE_COUNTS_MAX && (reason = bw_peer_dropped(store->peer, i, &number)) != NULL;
         i++)
        out[count++] = (struct bw_store_count){dropped, why, reason, number};
    return count;
}

static const char whose_clock[] = "each peer's own clock, from the moment of its promise";

#define PEER_OPS(more, text)                                                                       \
    {                                                                                              \
        .scheme = "peer",                                                                          \
        .traits =                                                                                  \
            BW_STORE_QUEUE | BW_STORE_NOTIFIES | BW_STORE_NOTES | BW_STORE_LATE_RELEASE | (more),  \
        .ttl_min_ns = TTL_MIN_NS, .ttl_unit_ns = BW_MS, .summary = (text), .open = peer_open,      \
        .request = peer_request, .cancel = peer_cancel, .close = peer_close, .clock = whose_clock, \
        .about = peer_about, .death_notices = peer_death_notices, .counts = peer_counts,           \
        .members = peers_members,                                                                  \
    }

static const struct bw_store_ops with_token = PEER_OPS(
    BW_STORE_TOKEN, "peers with a quorum: one leader at a time, with a token that grows; a "
                    "minority has no leader");
static const struct bw_store_ops without_token =
    PEER_OPS(0, "peers without a quorum: two may lead in a partition, and there is no token");

static const struct bw_store_ops *find_ops(const char *url, char *why)
{
    struct peer_settings settings;
    if (peer_settings_read(&settings, url, why) != 0)
        return NULL;
    return peer_settings_token(&settings) ? &with_token : &without_token;
}

BW_STORE_MODULE(find_ops);
