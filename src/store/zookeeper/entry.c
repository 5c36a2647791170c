/* A candidate's node: an ephemeral sequential child of the election's path.
 *
 * A create whose reply is lost may have taken effect. So the node's name contains a GUID, and the
 * next attempt does a sync and searches for that GUID before it creates a node again. The found
 * node is ours only if our session owns it: a node of an earlier session may exist until the
 * servers have expired that session. So each session gets new GUIDs. */
#include "store/kit/record_json.h"
#include "store/zookeeper/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CREATES_MAX 4u /* parents may disappear: servers remove empty containers */

static void seek(struct bw_zk_entry *entry);

static void new_guid(struct bw_zk_entry *entry)
{
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != sizeof random) /* cannot fail for 16 bytes */
        memset(random, 0, sizeof random);
    bw_zk_guid_make(entry->guid, random);
    entry->tried = false;
}

struct bw_zk_entry *bw_zk_entry_find(const struct bw_zk_election *election, const char *id)
{
    struct bw_zk_entry *entry = id ? election->entries : NULL;
    while (entry && strcmp(entry->id, id) != 0)
        entry = entry->next;
    return entry;
}

struct bw_zk_entry *bw_zk_entry_make(struct bw_zk_session *session, struct bw_zk_election *election,
                                     const char *id)
{
    struct bw_zk_entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->election = election;
    election->uses++;
    entry->session = session;
    snprintf(entry->id, sizeof entry->id, "%s", id);
    new_guid(entry);
    bw_zk_target_add(session->store, &entry->target);
    entry->next = election->entries;
    election->entries = entry;
    entry->next_in_session = session->entries;
    session->entries = entry;
    return entry;
}

void bw_zk_entry_path(const struct bw_zk_entry *entry, char path[BW_ZK_PATH_MAX + 1])
{
    snprintf(path, BW_ZK_PATH_MAX + 1, "%.*s/%s", (int)(BW_ZK_PATH_MAX - BW_ZK_NODE_MAX - 1),
             entry->election->paths.latch, entry->node);
}

/* ---- parents ---- */

static int make_parents(struct bw_zk_session *session, const struct bw_zk_election *election,
                        bw_zk_done done, void *context)
{
    struct bw_zk_client *client = &session->client;
    char path[BW_ZK_PATH_MAX + 1];
    snprintf(path, sizeof path, "%s", election->paths.side);
    char *first = session->store->base_made ? strrchr(path, '/') : path;
    for (char *at = strchr(first + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        int rc = bw_zk_create(client, path, "", ZOO_PERSISTENT, NULL, NULL);
        if (rc != ZOK)
            return rc;
        *at = '/';
    }
    int rc = bw_zk_create(client, election->paths.latch, "", ZOO_CONTAINER, NULL, NULL);
    return rc ? rc : bw_zk_create(client, path, "", ZOO_PERSISTENT, done, context);
}

static void on_op_parents(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_op *op = context;
    op->store->base_made = reply->rc == ZOK || reply->rc == ZNODEEXISTS;
    if (op->store->base_made)
        bw_zk_op_again(op);
    else
        bw_zk_op_broken(op, reply->rc);
}

void bw_zk_op_compare_failed(struct bw_zk_op *op)
{
    bool compared = op->rc == ZNONODE || op->rc == ZBADVERSION || op->rc == ZNODEEXISTS;
    if (op->rc == ZNONODE && op->tries == 0 && op->job) {
        int rc = make_parents(op->session, op->election, on_op_parents, op);
        if (rc != ZOK)
            bw_zk_op_broken(op, rc);
    } else if (compared) {
        bw_zk_op_again(op);
    } else {
        bw_zk_op_broken(op, op->rc);
    }
}

/* ---- creating ---- */

/* The node exists, or cannot be created now: continues or fails the waiting requests. */
static void place_all(struct bw_zk_entry *entry, int rc)
{
    entry->creating = false;
    entry->tries = 0;
    if (rc == ZOK)
        bw_zk_entry_describe(entry);
    while (entry->waiting.first) {
        struct bw_zk_op *op = entry->waiting.first;
        bw_zk_ops_remove(op);
        if (rc == ZOK)
            op->placed(op);
        else
            bw_zk_op_broken(op, rc);
    }
    if (entry->left && rc == ZOK)
        bw_zk_entry_leave(entry, true);
    entry->uses--;
    bw_zk_entry_free_if_left(entry);
}

static void confirm_node(struct bw_zk_entry *entry, int64_t czxid)
{
    entry->czxid = czxid;
    entry->tried = false;
    place_all(entry, ZOK);
}

static void on_parents(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_entry *entry = context;
    entry->session->store->base_made = reply->rc == ZOK || reply->rc == ZNODEEXISTS;
    if (entry->session->store->base_made)
        seek(entry);
    else
        place_all(entry, reply->rc);
}

static void on_created(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_entry *entry = context;
    if (reply->rc == ZOK) {
        const char *slash = strrchr(reply->text, '/');
        snprintf(entry->node, sizeof entry->node, "%s", slash ? slash + 1 : reply->text);
        confirm_node(entry, reply->stat->czxid);
    } else if (reply->rc == ZNONODE && entry->tries++ < CREATES_MAX) {
        entry->tried = false;
        int rc = make_parents(entry->session, entry->election, on_parents, entry);
        if (rc != ZOK)
            place_all(entry, rc);
    } else {
        place_all(entry, reply->rc);
    }
}

static void create(struct bw_zk_entry *entry)
{
    char path[BW_ZK_PATH_MAX + 1], prefix[BW_ZK_NODE_MAX + 1];
    bw_zk_node_prefix(prefix, entry->session->store->recipe, entry->guid);
    snprintf(path, sizeof path, "%.*s/%s", (int)(BW_ZK_PATH_MAX - BW_ZK_NODE_MAX - 1),
             entry->election->paths.latch, prefix);
    entry->tried = true;
    int rc = bw_zk_create(&entry->session->client, path, entry->id, ZOO_EPHEMERAL_SEQUENTIAL,
                          on_created, entry);
    if (rc != ZOK)
        place_all(entry, rc);
}

/* ---- finding an existing node ---- */

static void on_found(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_entry *entry = context;
    int64_t session = entry->session->client.id.client_id;
    if (reply->rc == ZOK && reply->stat->ephemeralOwner == session) {
        confirm_node(entry, reply->stat->czxid);
        return;
    }
    entry->node[0] = '\0';
    if (reply->rc == ZOK || reply->rc == ZNONODE) {
        new_guid(entry);
        create(entry);
    } else {
        place_all(entry, reply->rc);
    }
}

static void on_listed(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_entry *entry = context;
    struct bw_zk_node node;
    char path[BW_ZK_PATH_MAX + 1];
    if (reply->rc != ZOK && reply->rc != ZNONODE) {
        place_all(entry, reply->rc);
        return;
    }
    for (int32_t i = 0; reply->rc == ZOK && i < reply->names->count; i++) {
        if (!bw_zk_node_parse(&node, entry->session->store->recipe, reply->names->data[i]) ||
            strcmp(node.guid, entry->guid) != 0)
            continue;
        memcpy(entry->node, node.name, sizeof entry->node);
        bw_zk_entry_path(entry, path);
        int rc = bw_zk_exists(&entry->session->client, path, 0, on_found, entry);
        if (rc != ZOK) {
            entry->node[0] = '\0';
            place_all(entry, rc);
        }
        return;
    }
    create(entry);
}

static void seek(struct bw_zk_entry *entry)
{
    struct bw_zk_client *client = &entry->session->client;
    const char *latch = entry->election->paths.latch;
    if (!entry->tried) {
        create(entry);
        return;
    }
    int rc = bw_zk_sync(client, latch, NULL, NULL);
    if (rc == ZOK)
        rc = bw_zk_children(client, latch, 0, on_listed, entry);
    if (rc != ZOK)
        place_all(entry, rc);
}

static void begin(struct bw_zk_entry *entry)
{
    entry->creating = true;
    entry->uses++;
    seek(entry);
}

void bw_zk_entry_place(struct bw_zk_op *op, void (*placed)(struct bw_zk_op *op))
{
    struct bw_zk_entry *entry = op->entry;
    op->placed = placed;
    if (entry->node[0] && !entry->creating) {
        placed(op);
        return;
    }
    bw_zk_ops_add(&entry->waiting, op);
    if (!entry->creating)
        begin(entry);
}

void bw_zk_entry_describe(struct bw_zk_entry *entry)
{
    char path[BW_ZK_PATH_MAX + 1], text[BW_RECORD_JSON_MAX];
    struct bw_candidate candidate = {.priority = entry->priority};
    if (entry->priority == 0 && !entry->value[0])
        return;
    memcpy(candidate.id, entry->id, sizeof candidate.id);
    memcpy(candidate.value, entry->value, sizeof candidate.value);
    if (bw_candidate_pack(&candidate, text, sizeof text) < 0)
        return;
    bw_zk_side_path(path, &entry->election->paths, "at-", entry->guid);
    bw_zk_delete(&entry->session->client, path, NULL, NULL);
    bw_zk_create(&entry->session->client, path, text, ZOO_EPHEMERAL, NULL, NULL);
}

/* ---- leaving ---- */

void bw_zk_entry_lost(struct bw_zk_entry *entry)
{
    entry->node[0] = '\0';
    entry->czxid = 0;
    entry->leads = false;
    free(entry->record);
    entry->record = NULL;
    free(entry->turn);
    entry->turn = NULL;
    new_guid(entry);
}

static void unlink_entry(struct bw_zk_entry *entry)
{
    struct bw_zk_entry **at = &entry->election->entries;
    while (*at && *at != entry)
        at = &(*at)->next;
    if (*at)
        *at = entry->next;
}

static void on_removed(void *context, const struct bw_zk_reply *reply)
{
    struct bw_zk_entry *entry = context;
    /* retry with the next connection */
    bool again = reply->rc == ZCONNECTIONLOSS || reply->rc == ZCLOSING;
    entry->removing = false;
    entry->uses--;
    if (!again)
        entry->node[0] = '\0';
    bw_zk_entry_free_if_left(entry);
}

/* Until the server confirms the delete, the node may exist for as long as the session. */
static void remove_node(struct bw_zk_entry *entry)
{
    char path[BW_ZK_PATH_MAX + 1];
    if (!entry->node[0] || entry->removing)
        return;
    bw_zk_entry_path(entry, path);
    if (bw_zk_delete(&entry->session->client, path, on_removed, entry) != ZOK)
        return;
    entry->removing = true;
    entry->uses++;
}

void bw_zk_entry_leave(struct bw_zk_entry *entry, bool has_node)
{
    char path[BW_ZK_PATH_MAX + 1];
    entry->left = true;
    entry->leads = false;
    unlink_entry(entry);
    if (!has_node)
        entry->node[0] = '\0';
    remove_node(entry);
    if (entry->priority != 0 || entry->value[0]) {
        bw_zk_side_path(path, &entry->election->paths, "at-", entry->guid);
        bw_zk_delete(&entry->session->client, path, NULL, NULL);
    }
    entry->uses++; /* keeps the entry while its watches run */
    bw_zk_watches_fire(entry->session->store, entry->target.number);
    entry->uses--;
    bw_zk_entry_free_if_left(entry);
}

static void destroy(struct bw_zk_entry *entry)
{
    bw_zk_target_remove(entry->session->store, &entry->target);
    entry->election->uses--;
    free(entry->record);
    free(entry->turn);
    free(entry);
}

static void free_entry(struct bw_zk_entry *entry)
{
    struct bw_zk_entry **at = &entry->session->entries;
    while (*at != entry)
        at = &(*at)->next_in_session;
    *at = entry->next_in_session;
    destroy(entry);
}

void bw_zk_entry_free_if_left(struct bw_zk_entry *entry)
{
    bool busy = entry->uses > 0 || entry->creating || entry->waiting.first;
    bool may_exist = entry->node[0] || entry->tried;
    if (entry->left && !busy && !may_exist)
        free_entry(entry);
}

/* ---- all entries of a session ---- */

void bw_zk_entries_expired(struct bw_zk_session *session)
{
    struct bw_zk_entry *next;
    for (struct bw_zk_entry *entry = session->entries; entry; entry = next) {
        next = entry->next_in_session;
        bool led = entry->leads;
        bw_zk_entry_lost(entry);
        if (led || entry->left)
            bw_zk_entry_leave(entry, false);
    }
}

void bw_zk_entries_replace(struct bw_zk_session *session)
{
    struct bw_zk_entry *next;
    for (struct bw_zk_entry *entry = session->entries; entry; entry = next) {
        next = entry->next_in_session;
        if (entry->left && entry->node[0])
            remove_node(entry);
        else if (!entry->creating && !entry->node[0])
            begin(entry);
    }
}

bool bw_zk_entries_lapse(struct bw_zk_session *session)
{
    uint64_t now = uv_now(session->store->loop);
    bool leads = false;
    struct bw_zk_entry *next;
    for (struct bw_zk_entry *entry = session->entries; entry; entry = next) {
        next = entry->next_in_session;
        uint64_t span = entry->leads ? entry->ttl_ms : 3 * entry->ttl_ms;
        if (!entry->left && !entry->creating && now > entry->requested_at + span)
            bw_zk_entry_leave(entry, true);
        else
            leads = leads || entry->leads;
    }
    return leads;
}

void bw_zk_entries_free(struct bw_zk_session *session)
{
    struct bw_zk_entry *next;
    for (struct bw_zk_entry *entry = session->entries; entry; entry = next) {
        next = entry->next_in_session;
        destroy(entry);
    }
    session->entries = NULL;
}
