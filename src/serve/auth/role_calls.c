/* etcd's Auth service: roles. Four roles are fixed and cannot be changed: observe, campaign, admin
 * and its alias root. The others have permissions on ranges of keys (core/registry/roles.c). */
#include "serve/api/service.h"
#include "serve/auth/auth.h"

#include <stdlib.h>
#include <string.h>

static struct bw_slice slice_of(const char *text)
{
    return (struct bw_slice){(const unsigned char *)text, strlen(text)};
}

static struct bw_slice slice(ProtobufCBinaryData data)
{
    return (struct bw_slice){data.data, data.len};
}

static ProtobufCBinaryData binary(struct bw_slice slice)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)slice.at, .len = slice.length};
}

bool bw_role_take_name(struct bw_call *call, const char *name, struct bw_users_change *change,
                       enum bw_refusal otherwise)
{
    if (bw_user_name_is_good(slice_of(name))) {
        memcpy(change->role_name, name, strlen(name) + 1);
        return true;
    }
    if (name[0] == '\0')
        bw_call_end(call, BW_CODE_INVALID, "etcdserver: role name is empty");
    else if (otherwise)
        bw_service_refuse(call, otherwise);
    else
        bw_call_end(call, BW_CODE_INVALID,
                    "bellwether: invalid role name: expected 1 to 63 of a-z A-Z 0-9 . _ @ -");
    return false;
}

/* Takes the name of a role that a request changes. Returns false after ending the call. */
static bool take_role(struct bw_call *call, const char *name, struct bw_users_change *change)
{
    if (bw_role_named(slice_of(name)) == BW_ROLE_NONE)
        return bw_role_take_name(call, name, change, BW_REFUSED_ROLE_UNKNOWN);
    if (change->act == BW_USERS_ROLE_DELETE)
        bw_service_refuse(call, BW_REFUSED_LAST_ADMIN); /* invalid auth management, as for root */
    else
        bw_call_end(call, BW_CODE_PRECONDITION,
                    "bellwether: the permissions of observe, campaign, admin and root are fixed");
    return false;
}

/* The role `root` always exists. etcdctl adds it before it enables authentication, so that request
 * succeeds. */
void bw_auth_role_add(struct bw_call *call, const ProtobufCMessage *message)
{
    const char *name = ((const Api__AuthRoleAddRequest *)message)->name;
    struct bw_users_change change = {.act = BW_USERS_ROLE_ADD};
    enum bw_role role = bw_role_named(slice_of(name));
    Api__AuthRoleAddResponse out = API__AUTH_ROLE_ADD_RESPONSE__INIT;
    if (role == BW_ROLE_ROOT)
        BW_SERVICE_ANSWER(call, out);
    else if (role != BW_ROLE_NONE)
        bw_service_refuse(call, BW_REFUSED_ROLE_EXISTS);
    else if (bw_role_take_name(call, name, &change, BW_REFUSED_NONE))
        bw_auth_propose(call, &change);
}

void bw_auth_role_delete(struct bw_call *call, const ProtobufCMessage *message)
{
    struct bw_users_change change = {.act = BW_USERS_ROLE_DELETE};
    if (take_role(call, ((const Api__AuthRoleDeleteRequest *)message)->role, &change))
        bw_auth_propose(call, &change);
}

/* An empty key with an end means all keys from the first one on, as in a range. */
static bool take_keys(struct bw_call *call, struct bw_slice key, struct bw_slice end,
                      struct bw_keys *out)
{
    static const unsigned char zero = 0;
    if (key.length == 0 && end.length)
        key = (struct bw_slice){&zero, 1};
    *out = (struct bw_keys){.key = key, .end = end};
    if (key.length && key.length <= BW_PERM_KEY_MAX && end.length <= BW_PERM_KEY_MAX)
        return true;
    bw_call_end(call, BW_CODE_INVALID,
                "bellwether: invalid permission: expected a key of 1 to 4096 bytes");
    return false;
}

void bw_auth_role_allow(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__AuthRoleGrantPermissionRequest *in =
        (const Api__AuthRoleGrantPermissionRequest *)message;
    struct bw_users_change change = {.act = BW_USERS_ROLE_ALLOW};
    if (!in->perm || (unsigned)in->perm->permtype > BW_PERM_READWRITE) {
        bw_call_end(call, BW_CODE_INVALID, "etcdserver: permission not given");
        return;
    }
    change.perm.type = (enum bw_perm_type)in->perm->permtype;
    if (take_role(call, in->name, &change) &&
        take_keys(call, slice(in->perm->key), slice(in->perm->range_end), &change.perm.keys))
        bw_auth_propose(call, &change);
}

void bw_auth_role_disallow(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__AuthRoleRevokePermissionRequest *in =
        (const Api__AuthRoleRevokePermissionRequest *)message;
    struct bw_users_change change = {.act = BW_USERS_ROLE_DISALLOW};
    if (take_role(call, in->role, &change) &&
        take_keys(call, slice(in->key), slice(in->range_end), &change.perm.keys))
        bw_auth_propose(call, &change);
}

/* ---- reads ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t fixed_names(char **out, uint8_t roles)
{
    size_t count = 0;
    for (unsigned i = BW_ROLE_OBSERVE; i <= BW_ROLE_ROOT; i++)
        if (roles >> i & 1)
            out[count++] = (char *)bw_role_name((enum bw_role)i);
    return count;
}

char **bw_role_names(struct bw_service *service, const struct bw_user *user, size_t *count)
{
    const char *name;
    bw_service_scratch_clear(service);
    char **out =
        bw_service_scratch(service, (BW_ROLE_ROOT + 1 + BW_USER_ROLES_MAX) * sizeof(char *));
    *count = fixed_names(out, user->roles);
    for (uint32_t i = 0; (name = bw_registry_granted(bw_service_registry(service), user, i)); i++)
        out[(*count)++] = (char *)name;
    qsort((void *)out, *count, sizeof(char *), compare_names);
    return out;
}

/* A user without a fixed role may read only its own roles, as in etcd; the list of all roles has
 * no name. */
static bool may_read_role(struct bw_call *call, const char *name)
{
    const struct bw_registry *registry = bw_service_registry(call->service);
    const struct bw_user *user = bw_registry_user(registry, slice_of(call->caller.name));
    struct bw_users_status status;
    const char *granted;
    bw_registry_users_status(registry, &status);
    if (!status.enabled || (user && bw_user_role(user) != BW_ROLE_NONE))
        return true;
    for (uint32_t i = 0; user && (granted = bw_registry_granted(registry, user, i)); i++)
        if (strcmp(granted, name) == 0)
            return true;
    bw_service_refuse(call, BW_REFUSED_DENIED);
    return false;
}

static void list_readable(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    Api__AuthRoleListResponse out = API__AUTH_ROLE_LIST_RESPONSE__INIT;
    const struct bw_registry *registry = bw_service_registry(call->service);
    const struct bw_key_role *role;
    (void)number;
    (void)ttl_ns;
    if (!may_read_role(call, ""))
        return;
    bw_service_scratch_clear(call->service);
    out.roles =
        bw_service_scratch(call->service, (BW_ROLE_ROOT + 1 + BW_KEY_ROLES_MAX) * sizeof(char *));
    out.n_roles = fixed_names(out.roles, UINT8_MAX);
    for (uint32_t i = 0; (role = bw_registry_role_at(registry, i)); i++)
        if (role->name[0])
            out.roles[out.n_roles++] = (char *)role->name;
    qsort((void *)out.roles, out.n_roles, sizeof(char *), compare_names);
    BW_SERVICE_ANSWER(call, out);
}

void bw_auth_role_list(struct bw_call *call, const ProtobufCMessage *message)
{
    (void)message;
    bw_service_read(call, list_readable);
}

/* Reports all keys: etcd's messages cannot express the other permissions of a fixed role. */
static void answer_fixed(struct bw_call *call, enum bw_role role)
{
    Api__AuthRoleGetResponse out = API__AUTH_ROLE_GET_RESPONSE__INIT;
    Api__Permission all = API__PERMISSION__INIT, *list = &all;
    uint8_t end = 0;
    all.permtype =
        role == BW_ROLE_OBSERVE ? API__PERMISSION__TYPE__READ : API__PERMISSION__TYPE__READWRITE;
    all.range_end = (ProtobufCBinaryData){.data = &end, .len = 1};
    out.perm = &list;
    out.n_perm = 1;
    BW_SERVICE_ANSWER(call, out);
}

static void get_readable(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    struct bw_service *service = call->service;
    const struct bw_registry *registry = bw_service_registry(service);
    const char *name = call->state;
    Api__AuthRoleGetResponse out = API__AUTH_ROLE_GET_RESPONSE__INIT;
    const struct bw_key_role *role = bw_registry_role(registry, name);
    struct bw_perm perm;
    bw_ref at = 0;
    (void)number;
    (void)ttl_ns;
    if (!may_read_role(call, name))
        return;
    if (!role) {
        bw_service_refuse(call, BW_REFUSED_ROLE_UNKNOWN);
        return;
    }
    bw_service_scratch_clear(service);
    out.perm = bw_service_scratch(service, (role->count + 1) * sizeof(Api__Permission *));
    while (bw_registry_role_perm(registry, role, &at, &perm)) {
        Api__Permission *one = bw_service_scratch(service, sizeof *one);
        api__permission__init(one);
        one->permtype = (Api__Permission__Type)perm.type;
        one->key = binary(perm.keys.key);
        one->range_end = binary(perm.keys.end);
        out.perm[out.n_perm++] = one;
    }
    BW_SERVICE_ANSWER(call, out);
}

void bw_auth_role_get(struct bw_call *call, const ProtobufCMessage *message)
{
    const char *name = ((const Api__AuthRoleGetRequest *)message)->role;
    enum bw_role fixed = bw_role_named(slice_of(name));
    if (fixed != BW_ROLE_NONE) {
        if (may_read_role(call, name))
            answer_fixed(call, fixed);
        return;
    }
    call->state = strdup(name);
    if (!call->state)
        bw_call_end(call, BW_CODE_EXHAUSTED, BW_NO_MEMORY);
    else
        bw_service_read(call, get_readable);
}

void bw_auth_role_gone(struct bw_call *call)
{
    free(call->state);
    call->state = NULL;
}
