/* The record that a peer shows for an election; see store.h.
 *
 * The record is free only if the next ACQUIRE here would succeed. Otherwise it is held: by us, by
 * another peer, or, while there is no leader, by an empty name, because candidates would try to
 * acquire a free record in vain. */
#include "store/peer/peer.h"

#include "core/base/parse_values.h"
#include "os/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_name(struct bw_store *store, char *out, size_t size, bw_node node)
{
    const char *name = node ? bw_peer_name(store->peer, node) : "";
    if (name)
        snprintf(out, size, "%s", name);
    else
        snprintf(out, size, "%u", (unsigned)node);
}

static bool is_dead(struct bw_store *store, const struct peer_shard *shard, bw_node node)
{
    return bw_peer_is_dead(store->peer, shard->number, node);
}

/* Lists the earlier leaders whose work may still run, for the elector to make sure of. */
static void put_owed(struct bw_store *store, const struct peer_shard *shard,
                     struct bw_store_record *record)
{
    const struct leader_slot *slot = &shard->slot;
    size_t used = 0;
    for (uint32_t i = 0; i < slot->unsettled; i++) {
        char name[BW_CANDIDATE_ID_MAX + 1];
        put_name(store, name, sizeof name, slot->before[i]);
        size_t left = sizeof record->unconfirmed - used;
        if (!is_dead(store, shard, slot->before[i]) && strlen(name) + 2 < left)
            used += (size_t)snprintf(record->unconfirmed + used, left, "%s\t\n", name);
    }
}

static void put_own(struct bw_store *store, const struct peer_shard *shard,
                    struct bw_store_record *record)
{
    const struct bw_announcement *last = &shard->slot.announced;
    record->held = true;
    record->request = shard->request;
    record->token = shard->slot.token;
    record->left_ns =
        last->act_until == BW_TIME_NEVER ? BW_TIME_NEVER : last->act_until - bw_clock_boot();
    memcpy(record->holder, shard->candidate, sizeof record->holder);
    memcpy(record->value, shard->value, sizeof record->value);
    memcpy(record->containment, shard->containment, sizeof record->containment);
    put_owed(store, shard, record);
}

/* The record is free: shows the last leader, and whether any earlier work may still run. */
static void put_free(struct bw_store *store, const struct peer_shard *shard,
                     struct bw_store_record *record)
{
    const struct leader_slot *slot = &shard->slot;
    record->clean = true;
    for (uint32_t i = 0; i < slot->before_count; i++)
        record->clean = record->clean && is_dead(store, shard, slot->before[i]);
    if (slot->before_count)
        put_name(store, record->holder, sizeof record->holder,
                 slot->before[slot->before_count - 1]);
}

static void put_others(struct bw_store *store, const struct peer_shard *shard,
                       struct bw_store_record *record)
{
    struct bw_peer_status status;
    bw_peer_status(store->peer, shard->number, &status);
    record->held = true;
    record->token = shard->slot.announced.token;
    put_name(store, record->holder, sizeof record->holder, shard->slot.announced.leader);
    if (status.leader_member && status.leader_member->id == shard->slot.announced.leader)
        snprintf(record->value, sizeof record->value, "%s", status.leader_member->value);
}

void peers_record(struct bw_store *store, const struct peer_shard *shard,
                  struct bw_store_record *record)
{
    const struct leader_slot *slot = &shard->slot;
    memset(record, 0, sizeof *record);
    record->version = shard->version;
    record->ttl_ns = store->settings.ttl_ns;
    record->left_ns = BW_TIME_NEVER;
    record->note = shard->note;
    if (slot->holds && !slot->lost) {
        put_own(store, shard, record);
    } else if (slot->was_free) {
        put_free(store, shard, record);
    } else {
        put_others(store, shard, record);
        if (shard->done)
            snprintf(record->value, sizeof record->value, "%s", BW_STORE_VALUE_DONE);
        record->held = !slot->lost; /* makes the previous holder send a request immediately */
    }
}

bw_node peers_find_member(struct bw_store *store, const char *name)
{
    uint32_t count = bw_peer_members(store->peer, NULL, 0);
    struct bw_peer_member *members = calloc(count + 1, sizeof *members);
    uint64_t number = 0;
    bw_node by_name = BW_NODE_NONE, by_number = BW_NODE_NONE;
    if (!members)
        return BW_NODE_NONE;
    /* if `name` is not a number, `number` stays 0, which no node has */
    (void)bw_text_number(name, strlen(name), UINT32_MAX, &number);
    bw_peer_members(store->peer, members, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!members[i].left && strcmp(members[i].name, name) == 0)
            by_name = members[i].id;
        if (!members[i].left && members[i].id == number)
            by_number = members[i].id;
    }
    free(members);
    return by_name ? by_name : by_number;
}
