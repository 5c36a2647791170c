/* Peers as a store: the elections are decided by the instances themselves (peer/node.h), and this
 * one is one of them.
 *
 * Model: a process crashes, pauses and restarts; the network loses, delays and cuts; nobody who has
 * a key lies. What is promised in a partition is the algorithm's own sentence (elector.h). With
 * Raft or the quorum guard a leadership has a token that only grows, and nobody leads before
 * whoever led can no longer act: the promise to it has run out, or its work is known to be dead.
 * Without them two may lead in a partition, and there is no token.
 *
 * There is no record anywhere: what a reader sees is made up here from what this peer was told. So
 * there are no candidates to list, and what an earlier holder left behind is known by name only. */
#include "store/peer/peer.h"

#include "store/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL_MIN_NS     (100 * BW_MS)
#define KEY_LOOK_MS    1000u
#define WHY_BYTES(why) (int)BW_WHY_MAX, (why)

/* ---- what the peer says ---- */

static void say(struct bw_store *store, const char *event, const char *line)
{
    if (store->options.event)
        store->options.event(store->options.context, event, line);
}

static void on_announced(void *context, uint32_t election,
                         const struct bw_announcement *announcement)
{
    struct bw_store *store = context;
    struct peer_place *place = &store->places[election];
    peers_look(store, place, peer_seat_hear(&place->seat, announcement, peers_now()));
}

static void on_held(void *context, uint32_t election, bool held)
{
    struct bw_store *store = context;
    struct peer_place *place = &store->places[election];
    say(store, held ? "held" : "resumed", held ? "a recovery holds all work" : "work may go on");
    peers_look(store, place, peer_seat_hold(&place->seat, held, peers_now()));
}

static const char *name_of(struct bw_store *store, bw_node node)
{
    const char *name = bw_peer_name(store->peer, node);
    return name ? name : "somebody unknown";
}

/* Of the two the one with the lower number recovers, so that one does. */
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
    snprintf(line, sizeof line, "two led at once: '%.100s' (term %llu) and '%.100s' (term %llu)",
             name_of(store, one->node), (unsigned long long)one->term, name_of(store, other->node),
             (unsigned long long)other->term);
    store->options.event(store->options.context, low == self ? "split-brain" : "split-seen", line);
}

static void on_differs(void *context, bw_node node, const char *line)
{
    (void)node;
    say(context, "settings-differ", line);
}

static void on_formed(void *context)
{
    struct bw_store *store = context;
    for (uint32_t i = 0; i < store->places_count; i++)
        peers_look(store, &store->places[i], true);
}

/* Its work has ended for good somewhere. */
static void on_done(void *context, uint32_t election)
{
    struct bw_store *store = context;
    store->places[election].done = true;
    peers_look(store, &store->places[election], true);
}

static void on_ordered(void *context, const struct bw_peer_order *order)
{
    peers_ordered(context, order);
}

static int on_outcome(void *context, uint32_t election, bw_node to)
{
    return peers_outcome(context, election, to);
}

/* Nobody leads here any more, and what is asked from here on is refused with this line; only that
 * our work is dead is still told. */
static void on_ended(void *context, int error, const char *why)
{
    struct bw_store *store = context;
    struct bw_announcement nobody = {.leader = BW_NODE_NONE};
    snprintf(store->ended, sizeof store->ended, "%.*s", WHY_BYTES(why));
    if (store->options.ended)
        store->options.ended(store->options.context, error, why);
    for (uint32_t i = 0; i < store->places_count; i++)
        peers_look(store, &store->places[i],
                   peer_seat_hear(&store->places[i].seat, &nobody, peers_now()));
}

static void on_letters(void *context, uint32_t election)
{
    struct bw_store *store = context;
    if (store->options.words)
        store->options.words(store->options.context, store->places[election].election);
}

/* ---- opening and closing ---- */

static void free_store(struct bw_store *store)
{
    if (store->credentials)
        bw_credentials_close(store->credentials);
    bw_keyring_free(store->keyring);
    free(store->places);
    free(store->words);
    free(store->letters);
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

/* A file that cannot be used leaves the keys in force. Last words are sealed anew: the key of the
 * old ones may have gone. */
static void on_key_file(uv_fs_poll_t *handle, int status, const uv_stat_t *before,
                        const uv_stat_t *after)
{
    struct bw_store *store = handle->data;
    char why[BW_KEYRING_WHY_MAX + 1] = "the key file cannot be found";
    (void)before;
    (void)after;
    if (status != 0 || bw_keyring_reload(store->keyring, why) != 0) {
        say(store, "keys-refused", why);
        return;
    }
    say(store, "keys-read", "the key file changed: its keys are in force");
    for (uint32_t i = 0; i < store->places_count; i++)
        on_letters(store, i);
}

static int open_keys(struct bw_store *store, char *why)
{
    const char *file = store->settings.key_file;
    char line[BW_KEYRING_WHY_MAX + 1] = "";
    if (!file[0]) {
        store->keyring = bw_keyring_public();
        return store->keyring ? 0 : bw_store_say(why, BW_ENOMEM, "no memory left");
    }
    int error = bw_keyring_load(&store->keyring, file, line);
    bool lasts = error == BW_EIO || error == BW_EMALFORMED || error == BW_ELIMIT;
    return error ? bw_store_say(why, lasts ? BW_EINVAL : error, "%s", line) : 0;
}

static void on_tls_said(void *context, const char *line)
{
    say(context, "tls", line);
}

static int open_tls(struct bw_store *store, char *why)
{
    struct peer_settings *s = &store->settings;
    char line[BW_TLS_WHY_MAX + 1] = "";
    struct bw_credentials_options options = {
        .loop = store->loop,
        .files = {.ca_file = s->tls_ca, .cert_file = s->tls_cert, .key_file = s->tls_key},
        .whose = "peer",
        .dials = true,
        .context = store,
        .say = on_tls_said};
    if (!s->tls_cert[0])
        return 0;
    int error = bw_credentials_open(&store->credentials, &options, line);
    return error ? bw_store_say(why, error == BW_EIO ? BW_EINVAL : error, "%s", line) : 0;
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
                                      .letters = on_letters,
                                      .ordered = on_ordered,
                                      .outcome = on_outcome,
                                      .held = on_held,
                                      .done = on_done,
                                      .split = on_split,
                                      .differs = on_differs,
                                      .ended = on_ended};
    peer_settings_fill(&store->settings, &options);
    int error = bw_peer_open(&store->peer, &options, line);
    return error ? bw_store_say(why, error, "%.*s", WHY_BYTES(line)) : 0;
}

static int make_places(struct bw_store *store, char *why)
{
    const struct peer_settings *s = &store->settings;
    store->places_count = s->shards ? s->shards : 1;
    store->places = calloc(store->places_count, sizeof *store->places);
    if (!store->places)
        return bw_store_say(why, BW_ENOMEM, "no memory for a peer");
    for (uint32_t i = 0; i < store->places_count; i++) {
        struct peer_place *place = &store->places[i];
        place->number = i;
        place->version = 1;
        peer_seat_init(&place->seat, s->id, s->ttl_ns);
        if (s->shards)
            snprintf(place->election, sizeof place->election, "%.*s.%u",
                     (int)BW_ELECTION_NAME_MAX - 11, s->election, (unsigned)i);
        else
            snprintf(place->election, sizeof place->election, "%s", s->election);
    }
    return 0;
}

static int open_parts(struct bw_store *store, const char *url, char *why)
{
    int error = peer_settings_read(&store->settings, url, why);
    if (!error)
        error = make_places(store, why);
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
    uv_fs_poll_init(store->loop, &store->key_watch);
    store->key_watch.data = store;
    store->handles++;
    uv_fs_poll_start(&store->key_watch, on_key_file, store->settings.key_file, KEY_LOOK_MS);
}

static int peer_open(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                     const struct bw_store_options *options, char *why)
{
    struct bw_store *store = calloc(1, sizeof *store);
    if (!store)
        return bw_store_say(why, BW_ENOMEM, "no memory for a peer");
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
        return bw_store_say(why, BW_ENOMEM, "no memory for a peer");
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
    return bw_store_request_check(request, TTL_MIN_NS) != 0 ? BW_EINVAL : peers_ask(store, request);
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

/* ---- last words ---- */

static bool make_room(struct bw_store *store)
{
    if (!store->words)
        store->words = calloc(BW_LAST_WORDS_MAX, sizeof *store->words);
    if (!store->letters)
        store->letters = calloc(BW_LAST_WORDS_MAX, sizeof *store->letters);
    return store->words && store->letters;
}

static bool put_word(struct bw_last_word *word, const struct bw_peer_letter *letter)
{
    if (letter->to_length > sizeof word->to || letter->length > sizeof word->bytes)
        return false;
    word->to_length = (uint16_t)letter->to_length;
    word->length = (uint16_t)letter->length;
    memcpy(word->to, &letter->to, letter->to_length);
    memcpy(word->bytes, letter->bytes, letter->length);
    return true;
}

static bool peer_last_words(struct bw_store *store, const char *election, struct bw_last_words *out)
{
    const struct peer_place *place = peers_place(store, election);
    if (!place || !make_room(store))
        return false;
    uint32_t count =
        bw_peer_last_words(store->peer, place->number, store->letters, BW_LAST_WORDS_MAX);
    *out = (struct bw_last_words){.rows = store->words, .socket = bw_peer_socket(store->peer)};
    for (uint32_t i = 0; i < count; i++)
        out->count += put_word(&store->words[out->count], &store->letters[i]);
    return out->count > 0;
}

/* ---- counters ---- */

static uint32_t peer_counts(struct bw_store *store, struct bw_store_count out[BW_STORE_COUNTS_MAX])
{
    static const char dropped[] = "peer_frames_dropped_total", why[] = "Frames that were not heard";
    struct bw_peer_counters c;
    const char *reason;
    uint64_t number = 0;
    bw_peer_counters(store->peer, &c);
    const struct bw_store_count rows[] = {
        {"peer_frames_received_total", "Frames of other peers that were heard", NULL, c.frames_in},
        {"peer_frames_sent_total", "Frames that were sent", NULL, c.frames_out},
        {"peer_bytes_sent_total", "Their bytes", NULL, c.bytes_out},
        {dropped, why, "not_a_frame", c.malformed},
        {dropped, why, "no_member", c.strangers}};
    uint32_t count = sizeof rows / sizeof rows[0];
    memcpy(out, rows, sizeof rows);
    for (unsigned i = 0;
         count < BW_STORE_COUNTS_MAX && (reason = bw_peer_dropped(store->peer, i, &number)) != NULL;
         i++)
        out[count++] = (struct bw_store_count){dropped, why, reason, number};
    return count;
}

static const char whose_clock[] = "every peer's own clock, counted from what it promised";

#define PEER_OPS(more, text)                                                                       \
    {                                                                                              \
        .scheme = "peer",                                                                          \
        .traits = BW_STORE_QUEUE | BW_STORE_NOTIFIES | BW_STORE_NOTES | BW_STORE_TOLD | (more),    \
        .ttl_min_ns = TTL_MIN_NS, .ttl_unit_ns = BW_MS, .summary = (text), .open = peer_open,      \
        .request = peer_request, .cancel = peer_cancel, .close = peer_close, .clock = whose_clock, \
        .about = peer_about, .last_words = peer_last_words, .counts = peer_counts,                 \
    }

static const struct bw_store_ops with_token =
    PEER_OPS(BW_STORE_TOKEN, "peers with a quorum: one leads at a time, with a token that grows; a "
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
