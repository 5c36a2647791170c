/* Users: found by name, changed from the log, checked for every entry; see users.h. */
#include "core/registry/users.h"
#include "core/base/assert.h"

#include "core/base/bug.h"
#include "core/registry/registry_state.h"

#include <string.h>

static const char *const role_names[] = {[BW_ROLE_OBSERVE] = "observe",
                                         [BW_ROLE_CAMPAIGN] = "campaign",
                                         [BW_ROLE_ADMIN] = "admin",
                                         [BW_ROLE_ROOT] = "root"};

static bool is_name_character(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '@' || c == '-';
}

bool bw_user_name_is_good(struct bw_slice name)
{
    for (size_t i = 0; i < name.length; i++)
        if (!is_name_character(name.at[i]))
            return false;
    return name.length > 0 && name.length <= BW_USER_NAME_MAX;
}

const char *bw_role_name(enum bw_role role)
{
    return role_names[role];
}

enum bw_role bw_role_named(struct bw_slice name)
{
    for (unsigned i = BW_ROLE_OBSERVE; i <= BW_ROLE_ROOT; i++)
        if (strlen(role_names[i]) == name.length &&
            memcmp(role_names[i], name.at, name.length) == 0)
            return (enum bw_role)i;
    return BW_ROLE_NONE;
}

enum bw_role bw_user_role(const struct bw_user *user)
{
    if (user->roles >> BW_ROLE_ADMIN)
        return BW_ROLE_ADMIN;
    return user->roles >> BW_ROLE_CAMPAIGN  ? BW_ROLE_CAMPAIGN
           : user->roles >> BW_ROLE_OBSERVE ? BW_ROLE_OBSERVE
                                            : BW_ROLE_NONE;
}

static struct bw_slice name_of(const struct bw_user *user)
{
    return (struct bw_slice){(const unsigned char *)user->name, strlen(user->name)};
}

/* ── reading ── */

/* The index of the first user whose name is not before this one. */
static uint32_t place_of(const struct bw_registry *r, struct bw_slice name)
{
    uint32_t low = 0, high = r->user_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (slice_compare(name_of(&r->users[middle]), name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct bw_user *find(const struct bw_registry *r, struct bw_slice name)
{
    uint32_t place = place_of(r, name);
    bool there = place < r->user_count && slice_compare(name_of(&r->users[place]), name) == 0;
    return there ? &r->users[place] : NULL;
}

const struct bw_user *bw_registry_user(const struct bw_registry *r, struct bw_slice name)
{
    return find(r, name);
}

const struct bw_user *bw_registry_user_at(const struct bw_registry *r, uint32_t place)
{
    return place < r->user_count ? &r->users[place] : NULL;
}

void bw_registry_users_status(const struct bw_registry *r, struct bw_users_status *out)
{
    *out = (struct bw_users_status){
        .enabled = r->users_enabled, .revision = r->users_revision, .count = r->user_count};
}

enum bw_refusal bw_registry_authorize(const struct bw_registry *r, const struct bw_requester *by,
                                      enum bw_role least)
{
    if (!r->users_enabled || least == BW_ROLE_NONE || by->kind == BW_REQUESTER_NODE)
        return BW_REFUSED_NONE;
    if (by->kind == BW_REQUESTER_UNKNOWN)
        return BW_REFUSED_NOT_AUTHENTICATED;
    const struct bw_user *user = find(r, by->name);
    if (user && user->since != by->since && !BW_BUG(users_known_by_name_alone))
        return BW_REFUSED_TOKEN;
    bool by_keys = user && user->granted[0] && least <= BW_ROLE_CAMPAIGN;
    return by_keys || (user && bw_user_role(user) >= least) ? BW_REFUSED_NONE : BW_REFUSED_DENIED;
}

/* While users are disabled, older nodes must understand the entry: no requester is written. */
struct bw_requester bw_registry_node_requester(const struct bw_registry *r)
{
    return (struct bw_requester){.kind =
                                     r->users_enabled ? BW_REQUESTER_NODE : BW_REQUESTER_UNKNOWN};
}

/* ── changing ── */

static uint32_t count_admins(const struct bw_registry *r)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->user_count; i++)
        count += bw_user_role(&r->users[i]) == BW_ROLE_ADMIN;
    return count;
}

/* Without an admin, users could never be changed again. */
static bool is_last_admin(const struct bw_registry *r, const struct bw_user *user)
{
    return r->users_enabled && bw_user_role(user) == BW_ROLE_ADMIN && count_admins(r) == 1;
}

static enum bw_refusal enable(struct bw_registry *r)
{
    static const struct bw_slice root = {(const unsigned char *)"root", 4};
    if (count_admins(r) == 0)
        return find(r, root) ? BW_REFUSED_ROOT_ROLE : BW_REFUSED_NO_ROOT;
    r->users_revision += !r->users_enabled;
    r->users_enabled = true;
    return BW_REFUSED_NONE;
}

static void insert(struct bw_registry *r, const struct bw_user *user, uint64_t since)
{
    uint32_t place = place_of(r, name_of(user));
    memmove(&r->users[place + 1], &r->users[place], (r->user_count - place) * sizeof r->users[0]);
    r->users[place] = *user;
    r->users[place].since = since;
    r->user_count++;
}

static enum bw_refusal add(struct bw_registry *r, const struct bw_user *user)
{
    if (find(r, name_of(user)))
        return BW_REFUSED_USER_EXISTS;
    if (r->user_count == BW_USERS_MAX)
        return BW_REFUSED_USERS_FULL;
    insert(r, user, ++r->users_revision);
    return BW_REFUSED_NONE;
}

static enum bw_refusal drop(struct bw_registry *r, struct bw_user *user)
{
    if (is_last_admin(r, user))
        return BW_REFUSED_LAST_ADMIN;
    size_t behind = (size_t)(r->users + r->user_count - (user + 1));
    memmove(user, user + 1, behind * sizeof *user);
    r->users[--r->user_count] = (struct bw_user){0};
    r->users_revision++;
    return BW_REFUSED_NONE;
}

static enum bw_refusal set_roles(struct bw_registry *r, struct bw_user *user, uint8_t roles)
{
    struct bw_user after = *user;
    after.roles = roles;
    if (is_last_admin(r, user) && bw_user_role(&after) != BW_ROLE_ADMIN)
        return BW_REFUSED_LAST_ADMIN;
    user->roles = roles;
    r->users_revision++;
    return BW_REFUSED_NONE;
}

static enum bw_refusal change_one(struct bw_registry *r, const struct bw_users_change *change)
{
    struct bw_user *user = find(r, name_of(&change->user));
    uint8_t role = (uint8_t)(1u << change->role);
    if (!user)
        return BW_REFUSED_USER_UNKNOWN;
    if (change->act == BW_USERS_REMOVE)
        return drop(r, user);
    if (change->act == BW_USERS_GRANT)
        return user->roles & role ? BW_REFUSED_NONE : set_roles(r, user, user->roles | role);
    if (change->act == BW_USERS_REVOKE)
        return user->roles & role ? set_roles(r, user, user->roles & (uint8_t)~role)
                                  : BW_REFUSED_ROLE_NOT_GRANTED;
    user->secret = change->user.secret;
    user->since = ++r->users_revision;
    return BW_REFUSED_NONE;
}

/* Checks the whole list before any of it is imported. */
static bool list_is_good(struct bw_slice list)
{
    struct bw_reader reader = {.at = list.at, .size = list.length};
    struct bw_user user, before = {0};
    bool admin = false;
    uint32_t count = 0;
    while (BW_ALWAYS(!reader.failed) && reader.used < reader.size && count++ < BW_USERS_MAX) {
        bw_user_read(&reader, &user);
        if (reader.failed || slice_compare(name_of(&before), name_of(&user)) >= 0)
            return false;
        admin |= bw_user_role(&user) == BW_ROLE_ADMIN;
        before = user;
    }
    return admin && BW_ALWAYS(!reader.failed) && reader.used == reader.size;
}

static enum bw_refusal import(struct bw_registry *r, struct bw_slice list)
{
    struct bw_reader reader = {.at = list.at, .size = list.length};
    struct bw_user user;
    if (r->users_revision || !list_is_good(list))
        return BW_REFUSED_IMPORT;
    r->users_revision = 1;
    while (reader.used < reader.size) {
        bw_user_read(&reader, &user);
        insert(r, &user, 1);
    }
    r->users_enabled = true;
    return BW_REFUSED_NONE;
}

enum bw_refusal bw_registry_users_change(struct bw_registry *r,
                                         const struct bw_users_change *change)
{
    r->rights++;
    switch (change->act) {
    case BW_USERS_ENABLE:
        return enable(r);
    case BW_USERS_DISABLE:
        r->users_revision += r->users_enabled;
        r->users_enabled = false;
        return BW_REFUSED_NONE;
    case BW_USERS_ADD:
        return add(r, &change->user);
    case BW_USERS_IMPORT:
        return import(r, change->list);
    case BW_USERS_ROLE_ADD:
    case BW_USERS_ROLE_DELETE:
    case BW_USERS_ROLE_ALLOW:
    case BW_USERS_ROLE_DISALLOW:
    case BW_USERS_ROLE_GRANT:
    case BW_USERS_ROLE_REVOKE:
        return roles_change(r, find(r, name_of(&change->user)), change);
    default:
        return change_one(r, change);
    }
}

void users_load(struct bw_registry *r, const struct bw_user *user)
{
    insert(r, user, user->since);
}

/* ── encoding ── */

void bw_user_write(struct bw_writer *w, const struct bw_user *user)
{
    const struct bw_secret *secret = &user->secret;
    bw_write_slice(w, name_of(user));
    bw_write_number(w, user->roles);
    bw_write_number(w, secret->ln);
    if (secret->ln == 0)
        return;
    bw_write_number(w, secret->r);
    bw_write_number(w, secret->p);
    bw_write_slice(w, (struct bw_slice){secret->salt, BW_USER_SALT});
    bw_write_slice(w, (struct bw_slice){secret->hash, BW_USER_HASH});
}

static void read_bytes(struct bw_reader *reader, unsigned char *out, size_t want)
{
    struct bw_slice slice = bw_read_slice(reader);
    if (reader->failed || slice.length != want)
        reader->failed = true;
    else
        memcpy(out, slice.at, want);
}

static void read_name(struct bw_reader *reader, struct bw_user *out)
{
    struct bw_slice name = bw_read_slice(reader);
    if (reader->failed || !bw_user_name_is_good(name))
        reader->failed = true;
    else
        memcpy(out->name, name.at, name.length);
}

void bw_user_read(struct bw_reader *reader, struct bw_user *out)
{
    struct bw_secret *secret = &out->secret;
    *out = (struct bw_user){0};
    read_name(reader, out);
    out->roles = (uint8_t)bw_read_below(reader, (2u << BW_ROLE_ROOT) - 1);
    secret->ln = (uint8_t)bw_read_below(reader, UINT8_MAX);
    if (out->roles & 1u << BW_ROLE_NONE)
        reader->failed = true;
    if (secret->ln == 0)
        return;
    secret->r = (uint8_t)bw_read_below(reader, UINT8_MAX);
    secret->p = (uint8_t)bw_read_below(reader, UINT8_MAX);
    read_bytes(reader, secret->salt, BW_USER_SALT);
    read_bytes(reader, secret->hash, BW_USER_HASH);
}

static bool names_user(enum bw_users_act act)
{
    return act == BW_USERS_ROLE_GRANT || act == BW_USERS_ROLE_REVOKE ||
           (act > BW_USERS_DISABLE && act < BW_USERS_IMPORT);
}

void bw_users_change_write(struct bw_writer *w, const struct bw_users_change *change)
{
    bw_write_number(w, change->act);
    if (change->act == BW_USERS_IMPORT)
        bw_write_slice(w, change->list);
    if (names_user(change->act))
        bw_user_write(w, &change->user);
    if (change->act == BW_USERS_GRANT || change->act == BW_USERS_REVOKE)
        bw_write_number(w, change->role);
    if (change->act > BW_USERS_IMPORT)
        bw_role_name_write(w, change->role_name);
    if (change->act == BW_USERS_ROLE_ALLOW || change->act == BW_USERS_ROLE_DISALLOW)
        bw_perm_write(w, &change->perm);
}

void bw_users_change_read(struct bw_reader *reader, struct bw_users_change *out)
{
    *out = (struct bw_users_change){
        .act = (enum bw_users_act)bw_read_below(reader, BW_USERS_ROLE_REVOKE)};
    if (out->act == BW_USERS_IMPORT)
        out->list = bw_read_slice(reader);
    if (names_user(out->act))
        bw_user_read(reader, &out->user);
    if (out->act == BW_USERS_GRANT || out->act == BW_USERS_REVOKE) {
        out->role = (enum bw_role)bw_read_below(reader, BW_ROLE_ROOT);
        reader->failed |= out->role == BW_ROLE_NONE;
    }
    if (out->act > BW_USERS_IMPORT)
        bw_role_name_read(reader, out->role_name);
    if (out->act == BW_USERS_ROLE_ALLOW || out->act == BW_USERS_ROLE_DISALLOW)
        bw_perm_read(reader, &out->perm);
}
