/* Encoding of the registry; see snapshot.h. */
#include "core/registry/snapshot.h"

#include "core/base/bug.h"
#include "core/registry/bytes.h"
#include "core/registry/registry_state.h"

#include <string.h>

enum piece {
    HEADER = 1,
    LEASE,
    VERSION,
    PUT,
    DELETE,
    END,
    USERS,
    USER,
    ALARM,
    ROLE,
    PERM,
    GRANTED
};
enum phase {
    AT_HEADER,
    AT_ALARMS,
    AT_USERS,
    AT_ROLES,
    AT_PERMS,
    AT_GRANTED,
    AT_LEASES,
    AT_LIVE,
    AT_REPLACED,
    AT_EVENTS,
    AT_END,
    DONE
};

/* Marks the versions that events put. All other visible versions existed before the oldest
 * event. */
void bw_registry_save_begin(struct bw_registry *r, struct bw_saving *saving)
{
    static const unsigned char zero = 0;
    struct bw_keys all = {.key = {&zero, 1}, .end = {&zero, 1}};
    for (bw_ref at = tree_first(r, &all); at; at = tree_after(r, &all, node_key(r, at)))
        kv_at(r, node_at(r, at)->kv)->mark = 0;
    for (uint64_t i = r->event_first; i < r->event_end; i++) {
        const struct event *event = event_at(r, i);
        kv_at(r, event->kv)->mark = 0;
        if (event->previous)
            kv_at(r, event->previous)->mark = 0;
    }
    for (uint64_t i = r->event_first; i < r->event_end; i++)
        if (!event_at(r, i)->deleted)
            kv_at(r, event_at(r, i)->kv)->mark = 1;
    *saving = (struct bw_saving){.phase = AT_HEADER};
}

static void write_kv(struct bw_writer *w, enum piece piece, const struct bw_kv *kv)
{
    bw_write_number(w, piece);
    bw_write_number(w, (uint64_t)kv->create_revision);
    bw_write_number(w, (uint64_t)kv->mod_revision);
    bw_write_number(w, (uint64_t)kv->version);
    bw_write_number(w, (uint64_t)kv->lease);
    bw_write_slice(w, bw_kv_key(kv));
    bw_write_slice(w, bw_kv_value(kv));
}

static void save_header(struct bw_registry *r, struct bw_saving *s, struct bw_writer *w)
{
    bw_write_number(w, HEADER);
    bw_write_number(w, r->level);
    bw_write_number(w, (uint64_t)r->revision);
    bw_write_number(w, (uint64_t)r->compacted);
    s->phase = AT_ALARMS;
    if (r->level < 2)
        return;
    bw_write_number(w, USERS);
    bw_write_number(w, r->users_enabled);
    bw_write_number(w, r->users_revision);
    bw_write_number(w, r->user_count);
}

static void save_alarms(struct bw_registry *r, struct bw_saving *s, struct bw_writer *w)
{
    s->phase = AT_USERS;
    for (uint32_t i = 0; i < r->alarms.count && !BW_BUG(snapshot_without_alarms); i++) {
        bw_write_number(w, ALARM);
        bw_write_number(w, r->alarms.nodes[i]);
    }
}

static void save_user(struct bw_registry *r, struct bw_saving *s, struct bw_writer *w)
{
    const struct bw_user *user = bw_registry_user_at(r, s->user++);
    if (!user || BW_BUG(snapshot_without_users)) {
        s->phase = r->level < BW_REGISTRY_LEVEL_ROLES ? AT_LEASES : AT_ROLES;
        return;
    }
    bw_write_number(w, USER);
    bw_write_number(w, user->since);
    bw_user_write(w, user);
}

static void save_role(struct bw_registry *r, struct bw_saving *s, struct bw_writer *w)
{
    if (s->at == BW_KEY_ROLES_MAX) {
        s->phase = AT_PERMS;
        s->at = s->node = 0;
        return;
    }
    const struct bw_key_role *role = &r->roles[s->at++];
    if (role->name[0] == '\0')
        return;
    bw_write_number(w, ROLE);
    bw_role_name_write(w, role->name);
}

/* `node` is the last saved permission of role `at`. */
static void save_perm(struct bw_registry *r, struct bw_saving *s, struct bw_writer *w)
{
    struct bw_perm perm;
    if (s->at == BW_KEY_ROLES_MAX) {
        s->phase = AT_GRANTED;
        s->at = s->user = s->node = 0;
        return;
    }
    const struct bw_key_role *role = &r->roles[s->at];
    if (!bw_registry_role_perm(r, role, &s->node, &perm)) {
        s->at++;
        s->node = 0;
        return;
    }
    bw_write_number(w, PERM);
    bw_role_name_write(w, role->name);
    bw_perm_write(w, &perm);
}

/* `node` counts the roles of the user. */
static void save_granted(struct bw_registry *r, struct bw_saving *s, struct bw_writer *w)
{
    const struct bw_user *user = bw_registry_user_at(r, s->user);
    if (!user) {
        s->phase = AT_LEASES;
        s->at = s->node = 0;
        return;
    }
    const char *role = bw_registry_granted(r, user, s->node++);
    if (!role) {
        s->user++;
        s->node = 0;
        return;
    }
    bw_write_number(w, GRANTED);
    bw_write_slice(w, (struct bw_slice){(const unsigned char *)user->name, strlen(user->name)});
    bw_role_name_write(w, role);
}

static void save_lease(struct bw_registry *r, struct bw_saving *s, struct bw_writer *w)
{
    struct bw_lease_view lease;
    if (BW_BUG(snapshot_without_leases) || !bw_registry_next_lease(r, &s->at, &lease)) {
        s->phase = AT_LIVE;
        s->node = 0;
        return;
    }
    bw_write_number(w, LEASE);
    bw_write_number(w, (uint64_t)lease.id);
    bw_write_number(w, (uint64_t)lease.ttl_ns);
    bw_write_number(w, lease.binding);
    s->leases++;
}

static void save_live(struct bw_registry *r, struct bw_saving *s, struct bw_writer *w)
{
    static const unsigned char zero = 0;
    struct bw_keys all = {.key = {&zero, 1}, .end = {&zero, 1}};
    s->node = s->node ? tree_after(r, &all, node_key(r, s->node)) : tree_first(r, &all);
    if (!s->node) {
        s->phase = AT_REPLACED;
        s->at = r->event_first;
    } else if (!kv_at(r, node_at(r, s->node)->kv)->mark) {
        write_kv(w, VERSION, kv_at(r, node_at(r, s->node)->kv));
        s->versions++;
    }
}

/* Saves versions that existed before the oldest event and that a kept event replaced or deleted. */
static void save_replaced(struct bw_registry *r, struct bw_saving *s, struct bw_writer *w)
{
    if (s->at == r->event_end) {
        s->phase = AT_EVENTS;
        s->at = r->event_first;
        return;
    }
    const struct event *event = event_at(r, s->at++);
    bw_ref old = event->deleted ? event->kv : event->previous;
    if (old && !kv_at(r, old)->mark) {
        write_kv(w, VERSION, kv_at(r, old));
        s->versions++;
    }
}

static void save_event(struct bw_registry *r, struct bw_saving *s, struct bw_writer *w)
{
    if (s->at == r->event_end) {
        s->phase = AT_END;
        return;
    }
    const struct event *event = event_at(r, s->at++);
    s->events++;
    if (!event->deleted) {
        write_kv(w, PUT, kv_at(r, event->kv));
        return;
    }
    bw_write_number(w, DELETE);
    bw_write_number(w, (uint64_t)event->revision);
    bw_write_slice(w, bw_kv_key(kv_at(r, event->kv)));
}

static void save_end(struct bw_registry *r, struct bw_saving *s, struct bw_writer *w)
{
    (void)r;
    bw_write_number(w, END);
    bw_write_number(w, s->versions);
    bw_write_number(w, s->leases);
    bw_write_number(w, s->events);
    s->phase = DONE;
}

size_t bw_registry_save(struct bw_registry *r, struct bw_saving *saving, unsigned char *out,
                        size_t size)
{
    static void (*const steps[])(struct bw_registry *, struct bw_saving *, struct bw_writer *) = {
        save_header, save_alarms, save_user,     save_role,  save_perm, save_granted,
        save_lease,  save_live,   save_replaced, save_event, save_end};
    struct bw_writer w = {.size = size};
    w.at = out;
    BW_ASSERT(size >= BW_SNAPSHOT_PIECE_MAX);
    while (saving->phase != DONE) {
        struct bw_saving before = *saving;
        size_t used = w.used;
        steps[saving->phase](r, saving, &w);
        if (w.failed) { /* does not fit: repeat in the next buffer */
            *saving = before;
            w.used = used;
            break;
        }
    }
    return w.used;
}

static int load_header(struct bw_registry *r, struct bw_loading *loading, struct bw_reader *reader)
{
    uint64_t format = bw_read_number(reader);
    int64_t revision = bw_read_positive(reader), compacted = bw_read_positive(reader);
    if (reader->failed)
        return 0;
    if (format < 1 || format > BW_REGISTRY_LEVEL)
        return BW_EVERSION;
    if (loading->begun || revision < 1 || compacted > revision + 1 || r->revision != 1)
        return BW_EMALFORMED;
    r->level = (uint32_t)format;
    r->revision = revision;
    r->compacted = compacted;
    loading->begun = true;
    return 0;
}

static int load_lease(struct bw_registry *r, struct bw_loading *loading, struct bw_reader *reader)
{
    int64_t id = bw_read_positive(reader);
    bw_time ttl_ns = bw_read_positive(reader);
    uint64_t binding = bw_read_number(reader);
    if (reader->failed)
        return 0;
    enum bw_refusal refusal = bw_registry_grant(r, id, ttl_ns, binding);
    loading->leases++;
    return refusal == BW_REFUSED_NO_SPACE ? BW_ELIMIT : refusal ? BW_EMALFORMED : 0;
}

static int load_users(struct bw_registry *r, struct bw_loading *loading, struct bw_reader *reader)
{
    bool enabled = bw_read_bool(reader);
    uint64_t revision = bw_read_number(reader);
    uint32_t count = (uint32_t)bw_read_below(reader, BW_USERS_MAX);
    if (reader->failed)
        return 0;
    if (r->level < 2 || r->users_revision || loading->users)
        return BW_EMALFORMED;
    r->users_enabled = enabled;
    r->users_revision = revision;
    loading->users = count;
    return 0;
}

static int load_user(struct bw_registry *r, struct bw_loading *loading, struct bw_reader *reader)
{
    struct bw_user user;
    uint64_t since = bw_read_number(reader);
    bw_user_read(reader, &user);
    if (reader->failed)
        return 0;
    user.since = since;
    struct bw_slice name = {(const unsigned char *)user.name, strlen(user.name)};
    if (loading->users == 0 || since > r->users_revision || bw_registry_user(r, name))
        return BW_EMALFORMED;
    loading->users--;
    users_load(r, &user);
    return 0;
}

static int error_of(enum bw_refusal refusal)
{
    return refusal == BW_REFUSED_ROLES_FULL ? BW_ELIMIT : refusal ? BW_EMALFORMED : 0;
}

static int load_role(struct bw_registry *r, struct bw_loading *loading, struct bw_reader *reader)
{
    char name[BW_USER_NAME_MAX + 1] = "";
    (void)loading;
    bw_role_name_read(reader, name);
    if (reader->failed)
        return 0;
    return r->level < BW_REGISTRY_LEVEL_ROLES ? BW_EMALFORMED : error_of(roles_add(r, name));
}

static int load_perm(struct bw_registry *r, struct bw_loading *loading, struct bw_reader *reader)
{
    char name[BW_USER_NAME_MAX + 1] = "";
    struct bw_perm perm;
    (void)loading;
    bw_role_name_read(reader, name);
    bw_perm_read(reader, &perm);
    return reader->failed ? 0 : error_of(roles_load_perm(r, name, &perm));
}

static int load_granted(struct bw_registry *r, struct bw_loading *loading, struct bw_reader *reader)
{
    char role[BW_USER_NAME_MAX + 1] = "";
    struct bw_slice name = bw_read_slice(reader);
    (void)loading;
    bw_role_name_read(reader, role);
    if (reader->failed)
        return 0;
    struct bw_user *user = (struct bw_user *)bw_registry_user(r, name);
    return user ? error_of(roles_grant(r, user, role)) : BW_EMALFORMED;
}

static int load_alarm(struct bw_registry *r, struct bw_loading *loading, struct bw_reader *reader)
{
    struct bw_alarm_change change = {.raised = true, .node = bw_read_number(reader)};
    uint32_t before = r->alarms.count;
    (void)loading;
    if (reader->failed)
        return 0;
    if (r->level < BW_REGISTRY_LEVEL_ALARMS ||
        bw_registry_alarm_change(r, &change) != BW_REFUSED_NONE || r->alarms.count == before)
        return BW_EMALFORMED;
    return 0;
}

static bool is_plausible(const struct bw_registry *r, const struct bw_kv *kv)
{
    return kv->create_revision >= 1 && kv->create_revision <= kv->mod_revision &&
           kv->mod_revision <= r->revision && kv->version >= 1;
}

/* Loads one version into the tree; with `event` also into the history. */
static int load_version(struct bw_registry *r, struct bw_reader *reader, bool event)
{
    struct bw_kv kv = {.create_revision = bw_read_positive(reader)};
    kv.mod_revision = bw_read_positive(reader);
    kv.version = bw_read_positive(reader);
    kv.lease = bw_read_positive(reader);
    struct bw_slice key = bw_read_slice(reader), value = bw_read_slice(reader);
    if (reader->failed)
        return 0;
    bool first = !tree_find(r, key);
    if (!is_plausible(r, &kv) || key.length == 0 || key.length + value.length > BW_REQUEST_MAX ||
        (!first && !event))
        return BW_EMALFORMED;
    if (!fits_quota(r, kv_bytes(key.length, value.length) + NODE_COST + EVENT_COST))
        return BW_ELIMIT;
    versions_reserve(r, kv_bytes(key.length, value.length) + NODE_COST + EVENT_COST);
    bw_ref new = kv_new(r, key, value);
    struct bw_kv *stored = kv_at(r, new);
    stored->create_revision = kv.create_revision;
    stored->mod_revision = kv.mod_revision;
    stored->version = BW_BUG(snapshot_forgets_versions) ? 1 : kv.version;
    stored->lease = kv.lease;
    change_set(r, new, event);
    return 0;
}

static int load_put(struct bw_registry *r, struct bw_loading *loading, struct bw_reader *reader)
{
    loading->events++;
    return load_version(r, reader, true);
}

static int load_base(struct bw_registry *r, struct bw_loading *loading, struct bw_reader *reader)
{
    loading->versions++;
    return loading->events ? BW_EMALFORMED : load_version(r, reader, false);
}

static int load_delete(struct bw_registry *r, struct bw_loading *loading, struct bw_reader *reader)
{
    int64_t revision = bw_read_positive(reader);
    struct bw_slice key = bw_read_slice(reader);
    if (reader->failed)
        return 0;
    bw_ref node = tree_find(r, key);
    if (!node || revision > r->revision || !fits_quota(r, EVENT_COST))
        return BW_EMALFORMED;
    change_delete(r, node, revision);
    loading->events++;
    return 0;
}

static int load_end(struct bw_registry *r, struct bw_loading *loading, struct bw_reader *reader)
{
    (void)r;
    uint64_t versions = bw_read_number(reader), leases = bw_read_number(reader);
    uint64_t events = bw_read_number(reader);
    if (reader->failed)
        return 0;
    loading->ended = true;
    return loading->users == 0 && versions == loading->versions && leases == loading->leases &&
                   events == loading->events
               ? 0
               : BW_EMALFORMED;
}

static int load_piece(struct bw_registry *r, struct bw_loading *loading, struct bw_reader *reader)
{
    static int (*const steps[])(struct bw_registry *, struct bw_loading *, struct bw_reader *) = {
        [HEADER] = load_header, [LEASE] = load_lease,   [VERSION] = load_base,
        [PUT] = load_put,       [DELETE] = load_delete, [END] = load_end,
        [USERS] = load_users,   [USER] = load_user,     [ALARM] = load_alarm,
        [ROLE] = load_role,     [PERM] = load_perm,     [GRANTED] = load_granted};
    uint64_t piece = bw_read_number(reader);
    if (reader->failed)
        return 0;
    if (piece < HEADER || piece > GRANTED || (piece != HEADER && !loading->begun) || loading->ended)
        return BW_EMALFORMED;
    return steps[piece](r, loading, reader);
}

/* A step reads its whole piece before it changes anything, so a truncated piece can be read again
 * with more bytes. */
int64_t bw_registry_load(struct bw_registry *r, struct bw_loading *loading,
                         const unsigned char *bytes, size_t length)
{
    size_t used = 0;
    while (used < length) {
        struct bw_reader reader = {.at = bytes + used, .size = length - used};
        struct bw_loading before = *loading;
        int error = load_piece(r, loading, &reader);
        if (error)
            return error;
        if (reader.failed) {
            *loading = before;
            return length - used >= BW_SNAPSHOT_PIECE_MAX ? BW_EMALFORMED : (int64_t)used;
        }
        used += reader.used;
    }
    return (int64_t)used;
}
