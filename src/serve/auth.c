/* Tokens, roles and logging in; see auth.h. Passwords are compared on libuv's threads. */
#include "serve/auth.h"

#include "base/error.h"
#include "base/little.h"
#include "net/stamp.h"
#include "serve/service.h"
#include "serve/users.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS    2000u
#define LOGINS_MAX 16u /* at one time: each takes memory and a thread for a while */
#define MAC_BYTES  32u
#define MAC_CHARS  ((size_t)64)
#define TAIL_CHARS (1 + 16 + 1 + 64)

struct bw_auth {
    struct bw_auth_options options;
    struct bw_users users;
    struct bw_stamp loaded, refused;
    uv_timer_t timer;
    uint32_t logins;
    bool closing, closed;
};

struct login {
    uv_work_t work;
    struct bw_auth *auth;
    struct bw_call *call; /* NULL: its caller has left */
    struct bw_user user;  /* as it was then */
    char password[BW_PASSWORD_MAX + 1];
    bool known, right;
};

static const struct {
    const char *path;
    enum bw_role role;
} least[] = {{"/etcdserverpb.KV/Range", BW_ROLE_OBSERVE},
             {"/etcdserverpb.Watch/Watch", BW_ROLE_OBSERVE},
             {"/etcdserverpb.Cluster/MemberList", BW_ROLE_OBSERVE},
             {"/etcdserverpb.Maintenance/Status", BW_ROLE_OBSERVE},
             {"/etcdserverpb.Maintenance/Alarm", BW_ROLE_OBSERVE},
             {"/v3electionpb.Election/Leader", BW_ROLE_OBSERVE},
             {"/v3electionpb.Election/Observe", BW_ROLE_OBSERVE},
             {"/etcdserverpb.KV/Put", BW_ROLE_CAMPAIGN},
             {"/etcdserverpb.KV/DeleteRange", BW_ROLE_CAMPAIGN},
             {"/etcdserverpb.KV/Txn", BW_ROLE_CAMPAIGN},
             {"/etcdserverpb.Lease/LeaseGrant", BW_ROLE_CAMPAIGN},
             {"/etcdserverpb.Lease/LeaseRevoke", BW_ROLE_CAMPAIGN},
             {"/etcdserverpb.Lease/LeaseKeepAlive", BW_ROLE_CAMPAIGN},
             {"/etcdserverpb.Lease/LeaseTimeToLive", BW_ROLE_CAMPAIGN},
             {"/etcdserverpb.Lease/LeaseLeases", BW_ROLE_CAMPAIGN},
             {"/v3electionpb.Election/Campaign", BW_ROLE_CAMPAIGN},
             {"/v3electionpb.Election/Proclaim", BW_ROLE_CAMPAIGN},
             {"/v3electionpb.Election/Resign", BW_ROLE_CAMPAIGN},
             {"/v3lockpb.Lock/Lock", BW_ROLE_CAMPAIGN},
             {"/v3lockpb.Lock/Unlock", BW_ROLE_CAMPAIGN},
             {"/etcdserverpb.Auth/Authenticate", BW_ROLE_NONE}};

static enum bw_role role_for(const struct bw_method *method)
{
    for (size_t i = 0; i < sizeof least / sizeof least[0]; i++)
        if (strcmp(least[i].path, method->path) == 0)
            return least[i].role;
    return BW_ROLE_ADMIN;
}

bool bw_auth_may(struct bw_call *call)
{
    const struct bw_auth *auth = bw_service_auth(call->service);
    enum bw_role role = auth ? role_for(call->method) : BW_ROLE_NONE;
    if (role == BW_ROLE_NONE)
        return true;
    if (call->caller.invalid) {
        bw_call_end(call, BW_CODE_UNAUTHENTICATED, "etcdserver: invalid auth token");
        return false;
    }
    if (call->caller.name[0] == '\0') {
        bw_call_end(call, BW_CODE_INVALID, "etcdserver: user name is empty");
        return false;
    }
    const struct bw_user *user = bw_users_find(&auth->users, call->caller.name);
    if (user && bw_user_role(user) >= role)
        return true;
    bw_call_end(call, BW_CODE_DENIED, "etcdserver: permission denied");
    return false;
}

/* ── tokens ── */

static bool make_mac(const struct bw_auth *auth, const struct bw_user *user, uint64_t ends_s,
                     char out[MAC_CHARS + 1])
{
    static const char label[] = "bellwether token 1";
    unsigned char key[BW_USER_SALT + BW_USER_HASH], mac[EVP_MAX_MD_SIZE];
    unsigned char text[sizeof label + 16 + BW_USER_NAME_MAX + 1] = {0};
    unsigned length = 0;
    memcpy(key, user->secret.hash, BW_USER_HASH);
    memcpy(key + BW_USER_HASH, user->secret.salt, BW_USER_SALT);
    memcpy(text, label, sizeof label);
    bw_put64(text + sizeof label, auth->options.cluster);
    bw_put64(text + sizeof label + 8, ends_s);
    memcpy(text + sizeof label + 16, user->name, sizeof user->name);
    if (!user->secret.ln || !HMAC(EVP_sha256(), key, sizeof key, text, sizeof text, mac, &length) ||
        length != MAC_BYTES)
        return false;
    for (unsigned i = 0; i < MAC_BYTES; i++)
        snprintf(out + 2 * (size_t)i, 3, "%02x", mac[i]);
    return true;
}

static bool token_is_good(const struct bw_auth *auth, const char *text, size_t length, char *name)
{
    char mac[MAC_CHARS + 1], digits[17] = "", *end;
    if (length <= TAIL_CHARS || length - TAIL_CHARS > BW_USER_NAME_MAX)
        return false;
    const char *tail = text + length - TAIL_CHARS;
    memcpy(name, text, length - TAIL_CHARS);
    name[length - TAIL_CHARS] = '\0';
    memcpy(digits, tail + 1, 16);
    uint64_t ends_s = strtoull(digits, &end, 16);
    const struct bw_user *user = bw_users_find(&auth->users, name);
    return tail[0] == '.' && tail[17] == '.' && *end == '\0' && user &&
           strlen(name) == length - TAIL_CHARS && (int64_t)ends_s > (int64_t)time(NULL) &&
           make_mac(auth, user, ends_s, mac) && CRYPTO_memcmp(mac, tail + 18, MAC_CHARS) == 0;
}

void bw_auth_take_token(const struct bw_auth *auth, const char *text, size_t length,
                        struct bw_caller *caller)
{
    static const char bearer[] = "Bearer ";
    if (!auth || length == 0)
        return;
    if (length > sizeof bearer - 1 && memcmp(text, bearer, sizeof bearer - 1) == 0) {
        text += sizeof bearer - 1;
        length -= sizeof bearer - 1;
    }
    caller->invalid = !token_is_good(auth, text, length, caller->name);
    if (caller->invalid)
        caller->name[0] = '\0';
}

/* ── logging in ── */

static void free_closed(struct bw_auth *auth)
{
    if (auth->closed && auth->logins == 0) {
        bw_users_free(&auth->users);
        free(auth);
    }
}

static void on_work(uv_work_t *work)
{
    struct login *login = (struct login *)work;
    login->right = bw_user_password_is(login->known ? &login->user.secret : NULL, login->password);
}

static void answer(struct login *login)
{
    struct bw_call *call = login->call;
    uint64_t ends_s = (uint64_t)time(NULL) + BW_AUTH_TOKEN_S;
    char mac[MAC_CHARS + 1], token[BW_AUTH_TOKEN_MAX + 1];
    call->state = NULL;
    if (!login->right || !make_mac(login->auth, &login->user, ends_s, mac)) {
        bw_call_end(call, BW_CODE_INVALID,
                    "etcdserver: authentication failed, invalid user ID or password");
        return;
    }
    Api__AuthenticateResponse out = API__AUTHENTICATE_RESPONSE__INIT;
    Api__Header header;
    snprintf(token, sizeof token, "%s.%016llx.%s", login->user.name, (unsigned long long)ends_s,
             mac);
    bw_service_header(call->service, &header, 0);
    out.header = &header;
    out.token = token;
    bw_call_send(call, &out.base);
    bw_call_end(call, BW_CODE_OK, NULL);
}

static void on_worked(uv_work_t *work, int status)
{
    struct login *login = (struct login *)work;
    struct bw_auth *auth = login->auth;
    login->right = login->right && status == 0;
    if (login->call)
        answer(login);
    OPENSSL_cleanse(login, sizeof *login);
    free(login);
    auth->logins--;
    free_closed(auth);
}

static struct login *login_new(struct bw_auth *auth, struct bw_call *call,
                               const Api__AuthenticateRequest *in)
{
    struct login *login = calloc(1, sizeof *login);
    const struct bw_user *user = bw_users_find(&auth->users, in->name);
    if (!login)
        return NULL;
    login->auth = auth;
    login->call = call;
    login->known = user && strlen(in->password) <= BW_PASSWORD_MAX;
    if (login->known) {
        login->user = *user;
        memcpy(login->password, in->password, strlen(in->password) + 1);
    }
    return login;
}

void bw_auth_authenticate(struct bw_call *call, const ProtobufCMessage *message)
{
    struct bw_auth *auth = bw_service_auth(call->service);
    if (!auth) {
        bw_call_end(call, BW_CODE_PRECONDITION, "etcdserver: authentication is not enabled");
        return;
    }
    if (call->state)
        return; /* one is under way */
    struct login *login = auth->logins < LOGINS_MAX && !auth->closing
                              ? login_new(auth, call, (const Api__AuthenticateRequest *)message)
                              : NULL;
    if (!login || uv_queue_work(auth->options.loop, &login->work, on_work, on_worked) != 0) {
        free(login);
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: too many requests");
        return;
    }
    auth->logins++;
    call->state = login;
}

void bw_auth_gone(struct bw_call *call)
{
    struct login *login = call->state;
    if (login)
        login->call = NULL;
    call->state = NULL;
}

/* ── the file ── */

void bw_auth_look(struct bw_auth *auth)
{
    char why[BW_USERS_WHY + 1] = "", line[BW_USERS_WHY + 64];
    struct bw_stamp found = bw_stamp_of(auth->options.path);
    struct bw_users users;
    if (bw_stamp_same(found, auth->loaded))
        return;
    if (bw_users_read(&users, auth->options.path, why) != 0) {
        if (bw_stamp_same(found, auth->refused))
            return;
        auth->refused = found;
        snprintf(line, sizeof line, "%s; the users from before stay", why);
        auth->options.say(auth->options.context, line);
        return;
    }
    bw_users_free(&auth->users);
    auth->users = users;
    auth->loaded = found;
    snprintf(line, sizeof line, "%u users from the new %.200s", users.count, auth->options.path);
    auth->options.say(auth->options.context, line);
}

static void on_timer(uv_timer_t *timer)
{
    bw_auth_look(timer->data);
}

int bw_auth_open(struct bw_auth **out, const struct bw_auth_options *options, char *why)
{
    struct bw_auth *auth = calloc(1, sizeof *auth);
    if (!auth) {
        snprintf(why, BW_USERS_WHY + 1, "no memory");
        return BW_ENOMEM;
    }
    auth->options = *options;
    auth->loaded = bw_stamp_of(options->path);
    int error = bw_users_read(&auth->users, options->path, why);
    if (error) {
        free(auth);
        return error;
    }
    uv_timer_init(options->loop, &auth->timer);
    auth->timer.data = auth;
    uv_timer_start(&auth->timer, on_timer, LOOK_MS, LOOK_MS);
    *out = auth;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct bw_auth *auth = handle->data;
    auth->closed = true;
    free_closed(auth);
}

void bw_auth_close(struct bw_auth *auth)
{
    auth->closing = true;
    uv_close((uv_handle_t *)&auth->timer, on_closed);
}
