/* What a peer shows of the election as a record; see store.h.
 *
 * It is free only while the next who asks here gets it. Otherwise it is held: by us, by another
 * peer, or, while nobody leads, by nobody in particular, for a free record would be asked for in
 * vain. */
#include "store/peer/peer.h"

#include "core/base/text.h"

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

static void put_own(const struct peer_place *place, struct bw_store_record *record)
{
    const struct bw_announcement *told = &place->seat.told;
    record->held = true;
    record->request = place->request;
    record->token = place->seat.token;
    record->left_ns =
        told->act_until == BW_TIME_NEVER ? BW_TIME_NEVER : told->act_until - peers_now();
    memcpy(record->holder, place->candidate, sizeof record->holder);
    memcpy(record->value, place->value, sizeof record->value);
    memcpy(record->containment, place->containment, sizeof record->containment);
}

static void put_others(struct bw_store *store, const struct peer_place *place,
                       struct bw_store_record *record)
{
    struct bw_peer_status status;
    bw_peer_status(store->peer, place->number, &status);
    record->held = true;
    record->token = place->seat.told.token;
    put_name(store, record->holder, sizeof record->holder, place->seat.told.leader);
    if (status.leader_is && status.leader_is->id == place->seat.told.leader)
        snprintf(record->value, sizeof record->value, "%s", status.leader_is->value);
}

void peers_record(struct bw_store *store, const struct peer_place *place,
                  struct bw_store_record *record)
{
    const struct peer_seat *seat = &place->seat;
    memset(record, 0, sizeof *record);
    record->version = place->version;
    record->ttl_ns = store->settings.ttl_ns;
    record->left_ns = BW_TIME_NEVER;
    record->note = place->note;
    if (seat->holds && !seat->lost) {
        put_own(place, record);
    } else if (seat->was_free) {
        record->clean = !seat->before || bw_peer_is_dead(store->peer, place->number, seat->before);
        put_name(store, record->holder, sizeof record->holder, seat->before);
    } else {
        put_others(store, place, record);
        if (place->done)
            snprintf(record->value, sizeof record->value, "%s", BW_STORE_VALUE_DONE);
        record->held = !seat->lost; /* makes whoever held it ask at once */
    }
}

bw_node peers_named(struct bw_store *store, const char *name)
{
    uint32_t count = bw_peer_members(store->peer, NULL, 0);
    struct bw_peer_member *members = calloc(count + 1, sizeof *members);
    uint64_t number = 0;
    bw_node by_name = BW_NODE_NONE, by_number = BW_NODE_NONE;
    if (!members)
        return BW_NODE_NONE;
    (void)bw_text_number(name, strlen(name), UINT32_MAX, &number); /* else there is no node 0 */
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
