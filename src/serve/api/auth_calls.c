/* etcd's Auth service: logging in; users and their roles. Roles themselves are fixed.
 *
 * Passwords are hashed and compared on libuv's threads (password.h), and only their hashes go into
 * the log. What is told of users is read as keys are: after a quorum has confirmed what is known
 * here. */
#include "core/base/error.h"
#include "serve/api/auth.h"
#include "serve/api/password.h"
#include "serve/api/service.h"

#include <stdlib.h>
#include <string.h>

static struct bw_slice slice_of(const char *text)
{
    return (struct bw_slice){(const unsigned char *)text, strlen(text)};
}

void bw_auth_gone(struct bw_call *call)
{
    if (call->state)
        bw_password_job_leave(call->state);
    call->state = NULL;
}

/* Whom a call is about, kept while it waits; NULL: the call has ended. */
static struct bw_password_job *job_new(struct bw_call *call, const char *name)
{
    if (!call->state)
        call->state = bw_password_job_new(bw_service_passwords(call->service), call, name);
    else
        return NULL; /* one is under way */
    if (!call->state)
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: too many requests");
    return call->state;
}

/* ── logging in ── */

static void answer_login(struct bw_password_job *job, bool right)
{
    static const char failed[] = "etcdserver: authentication failed, invalid user ID or password";
    struct bw_call *call = job->call;
    Api__AuthenticateResponse out = API__AUTHENTICATE_RESPONSE__INIT;
    char token[BW_AUTH_TOKEN_MAX + 1];
    out.token = token;
    if (!right || !bw_auth_token(call->service, &job->user, token))
        bw_call_end(call, BW_CODE_INVALID, failed);
    else
        BW_SERVICE_ANSWER(call, out);
}

static void login_readable(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    struct bw_password_job *job = call->state;
    const struct bw_registry *registry = bw_service_registry(call->service);
    struct bw_users_status status;
    (void)number;
    (void)ttl_ns;
    bw_registry_users_status(registry, &status);
    if (!status.enabled) {
        bw_call_end(call, BW_CODE_PRECONDITION, "etcdserver: authentication is not enabled");
        return;
    }
    const struct bw_user *user = bw_registry_user(registry, slice_of(job->user.name));
    if (user)
        job->user = *user;
    if (!bw_password_compare(job, answer_login))
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: too many requests");
}

void bw_auth_authenticate(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__AuthenticateRequest *in = (const Api__AuthenticateRequest *)message;
    struct bw_password_job *job = job_new(call, in->name);
    if (!job)
        return;
    bw_password_set(job, in->password);
    bw_service_read(call, login_readable);
}

/* ── changes ── */

/* All their answers are a header. */
static void changed(struct bw_call *call, int64_t number, const struct bw_entry *entry,
                    enum bw_refusal refusal, const struct bw_results *results)
{
    Api__AuthEnableResponse out = API__AUTH_ENABLE_RESPONSE__INIT;
    (void)number;
    (void)entry;
    (void)results;
    if (refusal)
        bw_service_refuse(call, refusal);
    else
        BW_SERVICE_ANSWER(call, out);
}

static void propose(struct bw_call *call, const struct bw_users_change *change)
{
    struct bw_entry entry = {.kind = BW_ENTRY_USERS, .users = *change};
    if (bw_service_knows(call, "users"))
        bw_service_propose(call, &entry, changed);
}

/* A user named `name`; false: the call has ended. */
static bool take_name(struct bw_call *call, const char *name, struct bw_users_change *change)
{
    if (name[0] == '\0') {
        bw_service_refuse(call, BW_REFUSED_NOBODY);
        return false;
    }
    if (!bw_user_name_is_good(slice_of(name))) {
        bw_call_end(call, BW_CODE_INVALID,
                    "bellwether: a user's name has 1 to 63 of a-z A-Z 0-9 . _ @ -");
        return false;
    }
    memcpy(change->user.name, name, strlen(name) + 1);
    return true;
}

void bw_auth_enable(struct bw_call *call, const ProtobufCMessage *message)
{
    (void)message;
    propose(call, &(struct bw_users_change){.act = BW_USERS_ENABLE});
}

void bw_auth_disable(struct bw_call *call, const ProtobufCMessage *message)
{
    (void)message;
    propose(call, &(struct bw_users_change){.act = BW_USERS_DISABLE});
}

static void hashed(struct bw_password_job *job, bool done)
{
    struct bw_users_change change = {.act = job->adds ? BW_USERS_ADD : BW_USERS_PASSWORD,
                                     .user = job->user};
    if (!done)
        bw_call_end(job->call, BW_CODE_EXHAUSTED, "bellwether: no memory for a hash");
    else
        propose(job->call, &change);
}

/* Its password is hashed first. */
static void propose_hashed(struct bw_call *call, const struct bw_users_change *change,
                           const char *password, const char *hash)
{
    if (hash[0] || password[0] == '\0' || strlen(password) > BW_PASSWORD_MAX) {
        bw_call_end(call, BW_CODE_INVALID,
                    hash[0] ? "bellwether: passwords are hashed here: send the password"
                            : "bellwether: a password has 1 to 255 bytes");
        return;
    }
    struct bw_password_job *job = job_new(call, change->user.name);
    if (!job)
        return;
    job->adds = change->act == BW_USERS_ADD;
    bw_password_set(job, password);
    if (!bw_password_hash(job, hashed))
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: too many requests");
}

void bw_auth_user_add(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__AuthUserAddRequest *in = (const Api__AuthUserAddRequest *)message;
    struct bw_users_change change = {.act = BW_USERS_ADD};
    if (!take_name(call, in->name, &change))
        return;
    if (in->options && in->options->no_password)
        propose(call, &change);
    else
        propose_hashed(call, &change, in->password, in->hashedpassword);
}

void bw_auth_user_password(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__AuthUserChangePasswordRequest *in =
        (const Api__AuthUserChangePasswordRequest *)message;
    struct bw_users_change change = {.act = BW_USERS_PASSWORD};
    if (take_name(call, in->name, &change))
        propose_hashed(call, &change, in->password, in->hashedpassword);
}

void bw_auth_user_delete(struct bw_call *call, const ProtobufCMessage *message)
{
    struct bw_users_change change = {.act = BW_USERS_REMOVE};
    if (take_name(call, ((const Api__AuthUserDeleteRequest *)message)->name, &change))
        propose(call, &change);
}

static void propose_role(struct bw_call *call, enum bw_users_act act, const char *name,
                         const char *role)
{
    struct bw_users_change change = {.act = act, .role = bw_role_named(slice_of(role))};
    if (!take_name(call, name, &change))
        return;
    if (change.role == BW_ROLE_NONE)
        bw_call_end(call, BW_CODE_PRECONDITION, "etcdserver: role name not found");
    else
        propose(call, &change);
}

void bw_auth_user_grant(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__AuthUserGrantRoleRequest *in = (const Api__AuthUserGrantRoleRequest *)message;
    propose_role(call, BW_USERS_GRANT, in->user, in->role);
}

void bw_auth_user_revoke(struct bw_call *call, const ProtobufCMessage *message)
{
    const Api__AuthUserRevokeRoleRequest *in = (const Api__AuthUserRevokeRoleRequest *)message;
    propose_role(call, BW_USERS_REVOKE, in->name, in->role);
}

/* ── what there is ── */

static void status_readable(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    Api__AuthStatusResponse out = API__AUTH_STATUS_RESPONSE__INIT;
    struct bw_users_status status;
    (void)number;
    (void)ttl_ns;
    bw_registry_users_status(bw_service_registry(call->service), &status);
    out.enabled = status.enabled;
    out.authrevision = status.revision;
    BW_SERVICE_ANSWER(call, out);
}

void bw_auth_status(struct bw_call *call, const ProtobufCMessage *message)
{
    (void)message;
    bw_service_read(call, status_readable);
}

static char **role_names(struct bw_service *service, uint8_t roles, size_t *count)
{
    bw_service_room_clear(service);
    char **out = bw_service_room(service, (BW_ROLE_ROOT + 1) * sizeof(char *));
    *count = 0;
    for (unsigned i = BW_ROLE_OBSERVE; i <= BW_ROLE_ROOT; i++)
        if (roles >> i & 1)
            out[(*count)++] = (char *)bw_role_name((enum bw_role)i);
    return out;
}

/* Of others only an admin is told. */
static void user_readable(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    struct bw_password_job *job = call->state;
    Api__AuthUserGetResponse out = API__AUTH_USER_GET_RESPONSE__INIT;
    (void)number;
    (void)ttl_ns;
    if (strcmp(job->user.name, call->caller.name) != 0 && !bw_auth_may_as(call, BW_ROLE_ADMIN))
        return;
    const struct bw_user *user =
        bw_registry_user(bw_service_registry(call->service), slice_of(job->user.name));
    if (!user) {
        bw_service_refuse(call, BW_REFUSED_USER_UNKNOWN);
        return;
    }
    out.roles = role_names(call->service, user->roles, &out.n_roles);
    BW_SERVICE_ANSWER(call, out);
}

void bw_auth_user_get(struct bw_call *call, const ProtobufCMessage *message)
{
    if (job_new(call, ((const Api__AuthUserGetRequest *)message)->name))
        bw_service_read(call, user_readable);
}

static void users_readable(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    struct bw_service *service = call->service;
    const struct bw_registry *registry = bw_service_registry(service);
    Api__AuthUserListResponse out = API__AUTH_USER_LIST_RESPONSE__INIT;
    struct bw_users_status status;
    (void)number;
    (void)ttl_ns;
    bw_registry_users_status(registry, &status);
    bw_service_room_clear(service);
    out.users = bw_service_room(service, (status.count + 1) * sizeof(char *));
    for (; out.n_users < status.count; out.n_users++)
        out.users[out.n_users] = (char *)bw_registry_user_at(registry, (uint32_t)out.n_users)->name;
    BW_SERVICE_ANSWER(call, out);
}

void bw_auth_user_list(struct bw_call *call, const ProtobufCMessage *message)
{
    (void)message;
    bw_service_read(call, users_readable);
}

void bw_auth_role_list(struct bw_call *call, const ProtobufCMessage *message)
{
    Api__AuthRoleListResponse out = API__AUTH_ROLE_LIST_RESPONSE__INIT;
    (void)message;
    out.roles = role_names(call->service, UINT8_MAX, &out.n_roles);
    BW_SERVICE_ANSWER(call, out);
}

/* All keys: etcd has no words for the rest of what a role may. */
void bw_auth_role_get(struct bw_call *call, const ProtobufCMessage *message)
{
    enum bw_role role = bw_role_named(slice_of(((const Api__AuthRoleGetRequest *)message)->role));
    Api__AuthRoleGetResponse out = API__AUTH_ROLE_GET_RESPONSE__INIT;
    Api__Permission all = API__PERMISSION__INIT, *list = &all;
    uint8_t end = 0;
    if (role == BW_ROLE_NONE) {
        bw_call_end(call, BW_CODE_PRECONDITION, "etcdserver: role name not found");
        return;
    }
    all.permtype =
        role == BW_ROLE_OBSERVE ? API__PERMISSION__TYPE__READ : API__PERMISSION__TYPE__READWRITE;
    all.range_end = (ProtobufCBinaryData){.data = &end, .len = 1};
    out.perm = &list;
    out.n_perm = 1;
    BW_SERVICE_ANSWER(call, out);
}

/* etcdctl adds `root` before it enables, and takes no for an answer: it is there. */
void bw_auth_role_change(struct bw_call *call, const ProtobufCMessage *message)
{
    const char *name = ((const Api__AuthRoleChangeRequest *)message)->name;
    bool adds = strcmp(call->method->path, "/etcdserverpb.Auth/RoleAdd") == 0;
    enum bw_role role = bw_role_named(slice_of(name));
    Api__AuthRoleChangeResponse out = API__AUTH_ROLE_CHANGE_RESPONSE__INIT;
    if (adds && role == BW_ROLE_ROOT)
        BW_SERVICE_ANSWER(call, out);
    else if (adds && role != BW_ROLE_NONE)
        bw_call_end(call, BW_CODE_PRECONDITION, "etcdserver: role name already exists");
    else
        bw_call_end(call, BW_CODE_UNIMPLEMENTED,
                    "bellwether: roles are fixed: observe, campaign and admin, which is also "
                    "called root");
}
