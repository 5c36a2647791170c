/* Verified sessions; see seal.h. Nodes are in a table of fixed size with a hash index. Clients,
 * which come and go, share a few slots; the least recently used one is replaced. */
#include "core/base/bug.h"
#include "net/sealed/state.h"

#include <string.h>

struct peer *seal_find(const struct bw_seal *seal, bw_node node)
{
    uint32_t at = bw_node_index_find(&seal->index, node);
    return node == BW_NODE_NONE || at == BW_NODE_INDEX_NONE ? NULL : &seal->peers[at];
}

struct peer *seal_find_or_add(struct bw_seal *seal, bw_node node)
{
    struct peer *peer = seal_find(seal, node);
    if (peer || node == BW_NODE_NONE)
        return peer;
    uint32_t at = bw_node_index_add(&seal->index, node);
    if (at == BW_NODE_INDEX_NONE)
        return NULL;
    peer = &seal->peers[at];
    *peer = (struct peer){0};
    memcpy(peer->sent, seal->sent_floor, sizeof peer->sent);
    return peer;
}

/* Removes a node. If it returns, counters to it must not be reused, because that would reuse a
 * nonce. Pending answers become invalid too. */
void seal_remove(struct bw_seal *seal, struct peer *peer)
{
    for (unsigned lane = 0; lane < SENT_LANES; lane++)
        if (peer->sent[lane] > seal->sent_floor[lane] && !BW_BUG(seal_counter_comes_again))
            seal->sent_floor[lane] = peer->sent[lane];
    seal->era++;
    bw_node_index_remove(&seal->index, (uint32_t)(peer - seal->peers));
    *peer = seal->peers[seal->index.count];
    OPENSSL_cleanse(&seal->peers[seal->index.count], sizeof *peer);
}

static bool is_session(const struct session *session, const struct header *header)
{
    return session->verified && memcmp(session->id, header->session, BW_SEAL_SESSION) == 0;
}

static struct session *client_session(struct bw_seal *seal, const struct header *header)
{
    for (uint32_t i = 0; i < BW_SEAL_CLIENTS_MAX; i++)
        if (is_session(&seal->clients[i].now, header)) {
            seal->clients[i].last_used = ++seal->last_used;
            return &seal->clients[i].now;
        }
    return NULL;
}

struct session *seal_session(struct bw_seal *seal, const struct header *header)
{
    if (header->from == BW_NODE_NONE)
        return client_session(seal, header);
    struct peer *peer = seal_find(seal, header->from);
    if (peer && is_session(&peer->now, header))
        return &peer->now;
    if (peer && header->lane == LANE_KEPT && is_session(&peer->before, header))
        return &peer->before;
    return NULL;
}

uint32_t seal_generation(const struct bw_seal *seal, bw_node node)
{
    const struct peer *peer = seal_find(seal, node);
    return node == BW_NODE_NONE ? seal->client_generation : peer ? peer->generation : 0;
}

static struct session *client_slot(struct bw_seal *seal)
{
    struct client *oldest = &seal->clients[0];
    for (uint32_t i = 0; i < BW_SEAL_CLIENTS_MAX; i++)
        if (seal->clients[i].last_used < oldest->last_used)
            oldest = &seal->clients[i];
    if (oldest->now.verified) /* a late answer must not restore the old session */
        seal->client_generation++;
    oldest->last_used = ++seal->last_used;
    return &oldest->now;
}

static struct session *peer_slot(struct bw_seal *seal, bw_node node, bool *restarted)
{
    struct peer *peer = seal_find_or_add(seal, node);
    if (!peer)
        return NULL;
    *restarted = peer->now.verified;
    if (*restarted)
        peer->before = peer->now;
    if (!BW_BUG(seal_answer_is_good_twice))
        peer->generation++;
    return &peer->now;
}

/* Frames sent before the answer were meant for an earlier process of ours, or were recorded, so
 * they count as received. Kept frames may have been sealed long ago and still be in flight. */
bool seal_mark_verified(struct bw_seal *seal, const struct header *header, const unsigned char *key,
                        const uint64_t sent[SENT_LANES], bool *restarted)
{
    *restarted = false;
    struct session *session =
        header->from == BW_NODE_NONE ? client_slot(seal) : peer_slot(seal, header->from, restarted);
    if (!session)
        return false;
    session->verified = true;
    memcpy(session->id, header->session, BW_SEAL_SESSION);
    session->key_id = header->key_id;
    memcpy(session->key, key, BW_KEY_BYTES);
    for (unsigned lane = 0; lane < SENT_LANES; lane++)
        bw_replay_init(&session->window[lane], BW_BUG(seal_accepts_frames_before_the_answer)
                                                   ? 0
                                                   : sent[lane] & COUNTER_MASK);
    bw_replay_init(&session->window[LANE_KEPT], 0);
    bw_replay_init(&session->window[LANE_OPEN], header->counter + 1);
    seal->counts.met++;
    return true;
}
