/* etcd's Auth service: login, users and their roles. role_calls.c has the roles themselves.
 *
 * Passwords are hashed and compared on libuv's threads (password.h), and only their hashes enter
 * the log. Reads of users are linearizable like reads of keys: a quorum confirms the leader
 * first. */
#include "core/base/error.h"
#include "serve/api/service.h"
#include "serve/auth/auth.h"
#include "serve/auth/password.h"

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

/* Remembers the user that a call is about while it waits. Returns NULL after ending the call, or if
 * one is already in progress. */
static struct bw_password_job *job_new(struct bw_call *call, const char *name)
{
    if (!call->state)
        call->state = bw_password_job_new(bw_service_passwords(call->service), call, name);
    else
        return NULL; /* in progress already */
    if (!call->state)
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: too many requests");
    return call->state;
}

/* ---- login ---- */

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

/* ---- changes ---- */

/* The response of every change is just a header. */
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

void bw_auth_propose(struct bw_call *call, const struct bw_users_change *change)
{
    struct bw_entry entry = {.kind = BW_ENTRY_USERS, .users = *change};
    bool roles = change->act > BW_USERS_IMPORT;
    struct bw_proposal proposal = {.level =
                                       roles ? BW_REGISTRY_LEVEL_ROLES : BW_REGISTRY_LEVEL_USERS,
                                   .what = roles ? "roles" : "users",
                                   .applied = changed};
    bw_service_propose_at_level(call, &proposal, &entry);
}

/* Checks a user name and copies it. Returns false after ending the call. */
static bool take_name(struct bw_call *call, const char *name, struct bw_users_change *change)
{
    if (name[0] == '\0') { /* about the new user, so an invalid token is not the cause */
        bw_call_end(call, BW_CODE_INVALID, "etcdserver: user name is empty");
        return false;
    }
    if (!bw_user_name_is_good(slice_of(name))) {
        bw_call_end(call, BW_CODE_INVALID,
                    "bellwether: invalid user name: expected 1 to 63 of a-z A-Z 0-9 . _ @ -");
        return false;
    }
    memcpy(change->user.name, name, strlen(name) + 1);
    return true;
}

void bw_auth_enable(struct bw_call *call, const ProtobufCMessage *message)
{
    (void)message;
    bw_auth_propose(call, &(struct bw_users_change){.act = BW_USERS_ENABLE});
}

void bw_auth_disable(struct bw_call *call, const ProtobufCMessage *message)
{
    (void)message;
    bw_auth_propose(call, &(struct bw_users_change){.act = BW_USERS_DISABLE});
}

static void hashed(struct bw_password_job *job, bool done)
{
    struct bw_users_change change = {.act = job->adds ? BW_USERS_ADD : BW_USERS_PASSWORD,
                                     .user = job->user};
    if (!done)
        bw_call_end(job->call, BW_CODE_EXHAUSTED,
                    "bellwether: cannot hash the password: out of memory");
    else
        bw_auth_propose(job->call, &change);
}

/* Hashes the password, then proposes the change. */
static void propose_hashed(struct bw_call *call, const struct bw_users_change *change,
                           const char *password, const char *hash)
{
    if (hash[0] || password[0] == '\0' || strlen(password) > BW_PASSWORD_MAX) {
        bw_call_end(call, BW_CODE_INVALID,
                    hash[0] ? "bellwether: the server hashes passwords; send the plain password"
                            : "bellwether: invalid password: expected 1 to 255 bytes");
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
        bw_auth_propose(call, &change);
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
        bw_auth_propose(call, &change);
}

static void propose_role(struct bw_call *call, enum bw_users_act act, const char *name,
                         const char *role)
{
    struct bw_users_change change = {.act = act, .role = bw_role_named(slice_of(role))};
    if (!take_name(call, name, &change))
        return;
    if (change.role == BW_ROLE_NONE) { /* a role with permissions */
        change.act = act == BW_USERS_GRANT ? BW_USERS_ROLE_GRANT : BW_USERS_ROLE_REVOKE;
        if (!bw_role_take_name(call, role, &change, BW_REFUSED_ROLE_UNKNOWN))
            return;
    }
    bw_auth_propose(call, &change);
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

/* ---- reads ---- */

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

/* Sends the roles of a user. Every user may read its own roles; those of others require the role
 * admin. */
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
    out.roles = bw_role_names(call->service, user, &out.n_roles);
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
    bw_service_scratch_clear(service);
    out.users = bw_service_scratch(service, (status.count + 1) * sizeof(char *));
    for (; out.n_users < status.count; out.n_users++)
        out.users[out.n_users] = (char *)bw_registry_user_at(registry, (uint32_t)out.n_users)->name;
    BW_SERVICE_ANSWER(call, out);
}

void bw_auth_user_list(struct bw_call *call, const ProtobufCMessage *message)
{
    (void)message;
    bw_service_read(call, users_readable);
}
