/* Roles that users define: permissions on ranges of keys; see users.h.
 *
 * A role has a slot in a table of fixed size, and a user lists the slots of its roles. Slots are
 * local to a node: entries and snapshots name roles. The permissions of a role are a list in the
 * registry's memory, ordered by key and end. */
#include "core/base/bug.h"
#include "core/registry/entry.h"
#include "core/registry/registry_state.h"

#include <string.h>

#define PERM_COST 64u /* what a permission counts against the quota, beside its bytes */

struct perm {
    bw_ref next;
    uint32_t key_length, end_length;
    enum bw_perm_type type;
    unsigned char bytes[]; /* key, then end */
};

static struct perm *perm_at(const struct bw_registry *r, bw_ref ref)
{
    return bw_heap_at(&r->versions, ref);
}

static struct bw_keys keys_of(const struct perm *perm)
{
    return (struct bw_keys){.key = {perm->bytes, perm->key_length},
                            .end = {perm->bytes + perm->key_length, perm->end_length}};
}

static struct bw_slice name_of(const char *name)
{
    return (struct bw_slice){(const unsigned char *)name, strlen(name)};
}

static struct bw_key_role *find(const struct bw_registry *r, const char *name)
{
    for (uint32_t i = 0; i < BW_KEY_ROLES_MAX; i++)
        if (r->roles[i].name[0] && strcmp(r->roles[i].name, name) == 0)
            return &r->roles[i];
    return NULL;
}

static uint16_t slot_of(const struct bw_registry *r, const struct bw_key_role *role)
{
    return (uint16_t)(role - r->roles + 1);
}

/* ---- reading ---- */

const struct bw_key_role *bw_registry_role(const struct bw_registry *r, const char *name)
{
    return find(r, name);
}

const struct bw_key_role *bw_registry_role_at(const struct bw_registry *r, uint32_t place)
{
    return place < BW_KEY_ROLES_MAX ? &r->roles[place] : NULL;
}

bool bw_registry_role_perm(const struct bw_registry *r, const struct bw_key_role *role, bw_ref *at,
                           struct bw_perm *out)
{
    bw_ref next = *at ? perm_at(r, *at)->next : role->first;
    if (!next)
        return false;
    *at = next;
    *out = (struct bw_perm){.type = perm_at(r, next)->type, .keys = keys_of(perm_at(r, next))};
    return true;
}

const char *bw_registry_granted(const struct bw_registry *r, const struct bw_user *user,
                                uint32_t place)
{
    return place < BW_USER_ROLES_MAX && user->granted[place]
               ? r->roles[user->granted[place] - 1].name
               : NULL;
}

/* ---- what a user may do ---- */

/* A range without an end is one key: its end is the next key, `key` and a zero byte. */
static int compare_end(const struct bw_keys *a, const struct bw_keys *b)
{
    bool open_a = a->end.length == 1 && a->end.at[0] == 0;
    bool open_b = b->end.length == 1 && b->end.at[0] == 0;
    if (open_a || open_b)
        return open_a - open_b;
    struct bw_slice x = a->end.length ? a->end : a->key, y = b->end.length ? b->end : b->key;
    int order = slice_compare(x, y);
    if (order == 0)
        return (a->end.length == 0) - (b->end.length == 0);
    /* `key` and a zero byte against another end: equal only if the end is exactly that */
    if (a->end.length == 0 && order < 0 && y.length == x.length + 1 && b->end.length &&
        y.at[x.length] == 0 && memcmp(x.at, y.at, x.length) == 0)
        return 0;
    if (b->end.length == 0 && order > 0 && x.length == y.length + 1 && a->end.length &&
        x.at[y.length] == 0 && memcmp(x.at, y.at, y.length) == 0)
        return 0;
    return order;
}

/* Whether a range that begins at the end of `before` begins inside of, or right at, `perm`. */
static bool reaches(const struct bw_keys *perm, const struct bw_keys *before)
{
    struct bw_slice end = before->end.length ? before->end : before->key;
    int order = slice_compare(perm->key, end);
    if (before->end.length == 0) /* its end is `end` and a zero byte */
        return order <= 0 || (perm->key.length == end.length + 1 && perm->key.at[end.length] == 0 &&
                              memcmp(perm->key.at, end.at, end.length) == 0);
    return order <= 0;
}

static bool allows(const struct perm *perm, enum bw_perm_type needs)
{
    return perm->type == needs || perm->type == BW_PERM_READWRITE;
}

/* A search for the permissions of a user that cover a range from its first key on. The permissions
 * of each role are ordered by key, so each of them is visited once. */
struct search {
    bw_ref next[BW_USER_ROLES_MAX]; /* of each role: the first permission not visited yet */
    struct bw_keys covered;         /* the permission that reaches furthest */
    bool found;                     /* `covered` is set */
};

/* Whether the covered part reaches these keys: their first key is covered, or the next one. */
static bool is_reached(const struct search *s, const struct bw_keys *wanted,
                       const struct bw_keys *keys)
{
    return s->found ? reaches(keys, &s->covered) : slice_compare(keys->key, wanted->key) <= 0;
}

/* Visits the permissions that the covered part reaches. Returns false if none extends it. */
static bool extend(const struct bw_registry *r, struct search *s, enum bw_perm_type needs,
                   const struct bw_keys *wanted)
{
    struct bw_keys best = s->covered;
    bool extended = false;
    for (uint32_t i = 0; i < BW_USER_ROLES_MAX; i++)
        for (; s->next[i]; s->next[i] = perm_at(r, s->next[i])->next) {
            const struct perm *perm = perm_at(r, s->next[i]);
            struct bw_keys keys = keys_of(perm);
            if (!is_reached(s, wanted, &keys))
                break;
            bool begins = s->found || keys_hold(&keys, wanted->key);
            bool first = !s->found && !extended;
            if (!allows(perm, needs) || !begins || (!first && compare_end(&keys, &best) <= 0))
                continue;
            best = keys;
            extended = true;
        }
    s->covered = best;
    s->found |= extended;
    return extended;
}

/* Several permissions together may cover the range, as in etcd. */
static bool covers(const struct bw_registry *r, const struct bw_user *user, enum bw_perm_type needs,
                   const struct bw_keys *wanted)
{
    struct search search = {0};
    for (uint32_t i = 0; i < BW_USER_ROLES_MAX && user->granted[i]; i++)
        search.next[i] = r->roles[user->granted[i] - 1].first;
    while (extend(r, &search, needs, wanted))
        if (compare_end(&search.covered, wanted) >= 0)
            return true;
    return false;
}

enum bw_refusal bw_registry_permits(const struct bw_registry *r, const struct bw_requester *by,
                                    enum bw_perm_type needs, const struct bw_keys *keys)
{
    enum bw_role role = needs == BW_PERM_READ ? BW_ROLE_OBSERVE : BW_ROLE_CAMPAIGN;
    if (needs == BW_PERM_READWRITE) {
        enum bw_refusal read = bw_registry_permits(r, by, BW_PERM_READ, keys);
        return read ? read : bw_registry_permits(r, by, BW_PERM_WRITE, keys);
    }
    enum bw_refusal refusal = bw_registry_authorize(r, by, role);
    if (refusal || !r->users_enabled || by->kind == BW_REQUESTER_NODE)
        return refusal;
    const struct bw_user *user = bw_registry_user(r, by->name);
    if (BW_NEVER(!user)) /* bw_registry_authorize refuses unknown users */
        return BW_REFUSED_DENIED;
    if (bw_user_role(user) >= role || BW_BUG(roles_ignore_keys))
        return BW_REFUSED_NONE;
    return covers(r, user, needs, keys) ? BW_REFUSED_NONE : BW_REFUSED_DENIED;
}

/* Whether the user may write all keys of the lease. Remembers the result, so that each key is
 * visited once while the rights and the user stay the same, not for each put with this lease. */
static enum bw_refusal permits_writing(const struct bw_registry *r, const struct bw_user *user,
                                       struct lease *lease)
{
    uint32_t place = (uint32_t)(user - r->users) + 1;
    if (lease->checked_for != place || lease->checked_rights != r->rights) {
        lease->checked_for = place;
        lease->checked_rights = r->rights;
        lease->checked_until = lease->denied = 0;
    }
    for (bw_ref at = lease->first; at && !lease->denied; at = node_at(r, at)->lease_next) {
        struct bw_keys keys = {.key = node_key(r, at)};
        if (node_at(r, at)->attached <= lease->checked_until)
            break;
        if (!covers(r, user, BW_PERM_WRITE, &keys))
            lease->denied = node_at(r, at)->attached;
        if (BW_BUG(roles_trust_the_newest_key))
            break;
    }
    if (lease->denied)
        return BW_REFUSED_DENIED;
    lease->checked_until = node_at(r, lease->first)->attached;
    return BW_REFUSED_NONE;
}

/* For a user that roles_permit has found. */
static enum bw_refusal permits_lease(const struct bw_registry *r, const struct bw_requester *by,
                                     int64_t id)
{
    bw_ref ref = id ? lease_find(r, id) : 0;
    bool has_keys = ref && lease_at(r, ref)->first;
    return has_keys ? permits_writing(r, bw_registry_user(r, by->name), lease_at(r, ref))
                    : BW_REFUSED_NONE;
}

enum bw_refusal bw_registry_permits_lease(const struct bw_registry *r,
                                          const struct bw_requester *by, enum bw_perm_type needs,
                                          int64_t id)
{
    bw_ref lease = id ? lease_find(r, id) : 0;
    for (bw_ref at = lease ? lease_at(r, lease)->first : 0; at; at = node_at(r, at)->lease_next) {
        struct bw_keys keys = {.key = node_key(r, at)};
        enum bw_refusal refusal = bw_registry_permits(r, by, needs, &keys);
        if (refusal)
            return refusal;
    }
    return BW_REFUSED_NONE;
}

static enum bw_refusal permits_put(const struct bw_registry *r, const struct bw_requester *by,
                                   const struct bw_put *put)
{
    struct bw_keys keys = {.key = put->key};
    enum bw_perm_type needs = put->previous ? BW_PERM_READWRITE : BW_PERM_WRITE;
    enum bw_refusal refusal = bw_registry_permits(r, by, needs, &keys);
    return refusal ? refusal : permits_lease(r, by, put->lease);
}

static enum bw_refusal permits_delete(const struct bw_registry *r, const struct bw_requester *by,
                                      const struct bw_delete *delete)
{
    return bw_registry_permits(r, by, delete->previous ? BW_PERM_READWRITE : BW_PERM_WRITE,
                               &delete->keys);
}

static enum bw_refusal permits_txn(const struct bw_registry *r, const struct bw_requester *by,
                                   const struct bw_txn *txn);

/* Recursion depth is bounded by bw_txn_shape. */
static enum bw_refusal permits_ops(const struct bw_registry *r, const struct bw_requester *by,
                                   const struct bw_op *ops, uint32_t count)
{
    enum bw_refusal refusal = BW_REFUSED_NONE;
    for (uint32_t i = 0; i < count && !refusal; i++)
        switch (ops[i].kind) {
        case BW_OP_RANGE:
            refusal = bw_registry_permits(r, by, BW_PERM_READ, &ops[i].range.keys);
            break;
        case BW_OP_PUT:
            refusal = permits_put(r, by, &ops[i].put);
            break;
        case BW_OP_DELETE:
            refusal = permits_delete(r, by, &ops[i].delete);
            break;
        case BW_OP_TXN:
            refusal = permits_txn(r, by, &ops[i].txn);
            break;
        }
    return refusal;
}

/* Both branches count, whichever is taken: a refusal must not depend on keys that the user may not
 * read. */
static enum bw_refusal permits_txn(const struct bw_registry *r, const struct bw_requester *by,
                                   const struct bw_txn *txn)
{
    enum bw_refusal refusal = BW_REFUSED_NONE;
    for (uint32_t i = 0; i < txn->compare_count && !refusal; i++)
        refusal = bw_registry_permits(r, by, BW_PERM_READ, &txn->compares[i].keys);
    if (!refusal)
        refusal = permits_ops(r, by, txn->then, txn->then_count);
    return refusal ? refusal : permits_ops(r, by, txn->otherwise, txn->otherwise_count);
}

enum bw_refusal roles_permit(const struct bw_registry *r, const struct bw_entry *entry)
{
    if (!r->users_enabled || entry->by.kind != BW_REQUESTER_USER)
        return BW_REFUSED_NONE;
    const struct bw_user *user = bw_registry_user(r, entry->by.name);
    if (!user || bw_user_role(user) >= BW_ROLE_CAMPAIGN)
        return BW_REFUSED_NONE; /* bw_registry_authorize has decided */
    switch (entry->kind) {
    case BW_ENTRY_PUT:
        return permits_put(r, &entry->by, &entry->put);
    case BW_ENTRY_DELETE:
        return permits_delete(r, &entry->by, &entry->delete);
    case BW_ENTRY_TXN:
        return permits_txn(r, &entry->by, &entry->txn);
    case BW_ENTRY_REVOKE:
    case BW_ENTRY_BIND: /* the lease then ends with the requester's connection */
        return permits_lease(r, &entry->by, entry->lease.id);
    default:
        return BW_REFUSED_NONE;
    }
}

/* ---- changing ---- */

static size_t perm_bytes(size_t key, size_t end)
{
    return sizeof(struct perm) + key + end;
}

static void perm_free(struct bw_registry *r, bw_ref ref)
{
    size_t length = perm_bytes(perm_at(r, ref)->key_length, perm_at(r, ref)->end_length);
    r->bytes -= PERM_COST + length;
    r->permissions -= PERM_COST + length;
    bw_heap_give(&r->versions, ref, length);
}

void roles_move(struct bw_registry *r, struct bw_heap *to)
{
    for (uint32_t i = 0; i < BW_KEY_ROLES_MAX; i++)
        for (bw_ref *at = &r->roles[i].first; *at;) {
            const struct perm *old = perm_at(r, *at);
            size_t length = perm_bytes(old->key_length, old->end_length);
            *at = bw_heap_take(to, length);
            struct perm *new = bw_heap_at(to, *at);
            memcpy(new, old, length);
            at = &new->next;
        }
}

/* The link to the first permission that is not before these keys. */
static bw_ref *place_of(struct bw_registry *r, struct bw_key_role *role, const struct bw_keys *keys)
{
    bw_ref *at = &role->first;
    while (*at) {
        struct bw_keys have = keys_of(perm_at(r, *at));
        int order = slice_compare(have.key, keys->key);
        if (order > 0 || (order == 0 && slice_compare(have.end, keys->end) >= 0))
            break;
        at = &perm_at(r, *at)->next;
    }
    return at;
}

static bool is_same(const struct bw_registry *r, bw_ref at, const struct bw_keys *keys)
{
    if (!at)
        return false;
    struct bw_keys have = keys_of(perm_at(r, at));
    return slice_compare(have.key, keys->key) == 0 && slice_compare(have.end, keys->end) == 0;
}

static enum bw_refusal allow(struct bw_registry *r, struct bw_key_role *role,
                             const struct bw_perm *perm)
{
    const struct bw_keys *keys = &perm->keys;
    bw_ref *at = place_of(r, role, keys);
    if (is_same(r, *at, keys)) {
        perm_at(r, *at)->type = perm->type;
        return BW_REFUSED_NONE;
    }
    size_t length = perm_bytes(keys->key.length, keys->end.length);
    if (role->count == BW_ROLE_PERMS_MAX || !make_space(r, PERM_COST + length))
        return BW_REFUSED_ROLES_FULL;
    bw_ref new = bw_heap_take(&r->versions, length);
    BW_ASSERT(new);               /* make_space has reserved it */
    at = place_of(r, role, keys); /* it may have moved */
    struct perm *made = perm_at(r, new);
    *made = (struct perm){.next = *at,
                          .key_length = (uint32_t)keys->key.length,
                          .end_length = (uint32_t)keys->end.length,
                          .type = perm->type};
    memcpy(made->bytes, keys->key.at, keys->key.length);
    if (keys->end.length)
        memcpy(made->bytes + keys->key.length, keys->end.at, keys->end.length);
    *at = new;
    role->count++;
    r->bytes += PERM_COST + length;
    r->permissions += PERM_COST + length;
    return BW_REFUSED_NONE;
}

static enum bw_refusal disallow(struct bw_registry *r, struct bw_key_role *role,
                                const struct bw_keys *keys)
{
    bw_ref *at = place_of(r, role, keys), old = *at;
    if (!is_same(r, old, keys))
        return BW_REFUSED_PERM_NOT_GRANTED;
    *at = perm_at(r, old)->next;
    perm_free(r, old);
    role->count--;
    return BW_REFUSED_NONE;
}

enum bw_refusal roles_add(struct bw_registry *r, const char *name)
{
    if (find(r, name))
        return BW_REFUSED_ROLE_EXISTS;
    for (uint32_t i = 0; i < BW_KEY_ROLES_MAX; i++)
        if (r->roles[i].name[0] == '\0') {
            r->roles[i] = (struct bw_key_role){0};
            memcpy(r->roles[i].name, name, strlen(name) + 1);
            return BW_REFUSED_NONE;
        }
    return BW_REFUSED_ROLES_FULL;
}

/* Removes a slot from the list of a user. Returns false if the user does not have it. */
static bool take_away(struct bw_user *user, uint16_t slot)
{
    for (uint32_t i = 0; i < BW_USER_ROLES_MAX; i++)
        if (user->granted[i] == slot) {
            memmove(&user->granted[i], &user->granted[i + 1],
                    (BW_USER_ROLES_MAX - i - 1) * sizeof user->granted[0]);
            user->granted[BW_USER_ROLES_MAX - 1] = 0;
            return true;
        }
    return false;
}

static void drop(struct bw_registry *r, struct bw_key_role *role)
{
    for (uint32_t i = 0; i < r->user_count; i++)
        take_away(&r->users[i], slot_of(r, role));
    while (role->first) {
        bw_ref old = role->first;
        role->first = perm_at(r, old)->next;
        perm_free(r, old);
    }
    *role = (struct bw_key_role){0};
}

enum bw_refusal roles_grant(struct bw_registry *r, struct bw_user *user, const char *name)
{
    const struct bw_key_role *role = find(r, name);
    uint32_t place = 0;
    if (!role)
        return BW_REFUSED_ROLE_UNKNOWN;
    uint16_t slot = slot_of(r, role);
    while (place < BW_USER_ROLES_MAX && user->granted[place] && user->granted[place] != slot)
        place++;
    if (place == BW_USER_ROLES_MAX)
        return BW_REFUSED_ROLES_FULL;
    user->granted[place] = slot;
    return BW_REFUSED_NONE;
}

static enum bw_refusal change_user(struct bw_registry *r, struct bw_user *user,
                                   const struct bw_users_change *change)
{
    const struct bw_key_role *role = find(r, change->role_name);
    if (!user)
        return BW_REFUSED_USER_UNKNOWN;
    if (change->act == BW_USERS_ROLE_GRANT)
        return roles_grant(r, user, change->role_name);
    return role && take_away(user, slot_of(r, role)) ? BW_REFUSED_NONE
                                                     : BW_REFUSED_ROLE_NOT_GRANTED;
}

enum bw_refusal roles_change(struct bw_registry *r, struct bw_user *user,
                             const struct bw_users_change *change)
{
    struct bw_key_role *role = find(r, change->role_name);
    enum bw_refusal refusal = BW_REFUSED_NONE;
    if (change->act == BW_USERS_ROLE_ADD)
        refusal = roles_add(r, change->role_name);
    else if (change->act == BW_USERS_ROLE_GRANT || change->act == BW_USERS_ROLE_REVOKE)
        refusal = change_user(r, user, change);
    else if (!role)
        refusal = BW_REFUSED_ROLE_UNKNOWN;
    else if (change->act == BW_USERS_ROLE_DELETE)
        drop(r, role);
    else if (change->act == BW_USERS_ROLE_ALLOW)
        refusal = allow(r, role, &change->perm);
    else
        refusal = disallow(r, role, &change->perm.keys);
    r->users_revision += !refusal;
    return refusal;
}

enum bw_refusal roles_load_perm(struct bw_registry *r, const char *name, const struct bw_perm *perm)
{
    struct bw_key_role *role = find(r, name);
    return role ? allow(r, role, perm) : BW_REFUSED_ROLE_UNKNOWN;
}

/* ---- encoding ---- */

void bw_role_name_write(struct bw_writer *w, const char *name)
{
    bw_write_slice(w, name_of(name));
}

void bw_role_name_read(struct bw_reader *reader, char out[BW_USER_NAME_MAX + 1])
{
    struct bw_slice name = bw_read_slice(reader);
    if (reader->failed || !bw_user_name_is_good(name) || bw_role_named(name) != BW_ROLE_NONE) {
        reader->failed = true;
        return;
    }
    memcpy(out, name.at, name.length);
    out[name.length] = '\0';
}

void bw_perm_write(struct bw_writer *w, const struct bw_perm *perm)
{
    bw_write_number(w, perm->type);
    bw_write_slice(w, perm->keys.key);
    bw_write_slice(w, perm->keys.end);
}

void bw_perm_read(struct bw_reader *reader, struct bw_perm *out)
{
    out->type = (enum bw_perm_type)bw_read_below(reader, BW_PERM_READWRITE);
    out->keys.key = bw_read_slice(reader);
    out->keys.end = bw_read_slice(reader);
    if (out->keys.key.length == 0 || out->keys.key.length > BW_PERM_KEY_MAX ||
        out->keys.end.length > BW_PERM_KEY_MAX)
        reader->failed = true;
}
