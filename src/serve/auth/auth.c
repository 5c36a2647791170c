/* Tokens and roles; see auth.h. */
#include "serve/auth/auth.h"

#include "core/base/little.h"
#include "serve/api/service.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAC_BYTES  32u
#define MAC_CHARS  ((size_t)64)
#define TAIL_CHARS (1 + 16 + 1 + 64)

static const struct {
    const char *path;
    enum bw_role role;
} least[] = {{"/etcdserverpb.KV/Range", BW_ROLE_OBSERVE},
             {"/etcdserverpb.KV/Txn", BW_ROLE_OBSERVE}, /* if it only reads */
             {"/etcdserverpb.Watch/Watch", BW_ROLE_OBSERVE},
             {"/etcdserverpb.Lease/LeaseTimeToLive", BW_ROLE_OBSERVE},
             {"/etcdserverpb.Cluster/MemberList", BW_ROLE_NONE}, /* needed before authentication */
             {"/etcdserverpb.Maintenance/Status", BW_ROLE_OBSERVE},
             {"/etcdserverpb.Maintenance/Alarm", BW_ROLE_OBSERVE},
             {"/v3electionpb.Election/Leader", BW_ROLE_OBSERVE},
             {"/v3electionpb.Election/Observe", BW_ROLE_OBSERVE},
             {"/bellwether.Dashboard/Observe", BW_ROLE_OBSERVE},
             {"/etcdserverpb.Auth/UserGet", BW_ROLE_OBSERVE}, /* others: admin */
             {"/etcdserverpb.Auth/RoleGet", BW_ROLE_OBSERVE},
             {"/etcdserverpb.Auth/RoleList", BW_ROLE_OBSERVE},
             {"/etcdserverpb.KV/Put", BW_ROLE_CAMPAIGN},
             {"/etcdserverpb.KV/DeleteRange", BW_ROLE_CAMPAIGN},
             {"/etcdserverpb.Lease/LeaseGrant", BW_ROLE_CAMPAIGN},
             {"/etcdserverpb.Lease/LeaseRevoke", BW_ROLE_CAMPAIGN},
             {"/etcdserverpb.Lease/LeaseKeepAlive", BW_ROLE_CAMPAIGN},
             {"/etcdserverpb.Lease/LeaseLeases", BW_ROLE_CAMPAIGN},
             {"/v3electionpb.Election/Campaign", BW_ROLE_CAMPAIGN},
             {"/v3electionpb.Election/Proclaim", BW_ROLE_CAMPAIGN},
             {"/v3electionpb.Election/Resign", BW_ROLE_CAMPAIGN},
             {"/v3lockpb.Lock/Lock", BW_ROLE_CAMPAIGN},
             {"/v3lockpb.Lock/Unlock", BW_ROLE_CAMPAIGN},
             {"/grpc.health.v1.Health/Check", BW_ROLE_NONE},
             {"/etcdserverpb.Auth/AuthStatus", BW_ROLE_NONE},
             {"/etcdserverpb.Auth/Authenticate", BW_ROLE_NONE}};

static enum bw_role role_for(const struct bw_method *method)
{
    for (size_t i = 0; i < sizeof least / sizeof least[0]; i++)
        if (strcmp(least[i].path, method->path) == 0)
            return least[i].role;
    return BW_ROLE_ADMIN;
}

static struct bw_slice name_of(const struct bw_caller *caller)
{
    return (struct bw_slice){(const unsigned char *)caller->name, strlen(caller->name)};
}

/* A certificate identifies the current user of that name. */
struct bw_requester bw_auth_by(struct bw_call *call)
{
    const struct bw_caller *caller = &call->caller;
    if (caller->name[0] == '\0')
        return (struct bw_requester){.kind = BW_REQUESTER_UNKNOWN};
    struct bw_requester by = {
        .kind = BW_REQUESTER_USER, .name = name_of(caller), .since = caller->since};
    const struct bw_user *user = bw_registry_user(bw_service_registry(call->service), by.name);
    if (!by.since && user)
        by.since = user->since;
    return by;
}

bool bw_auth_may_as(struct bw_call *call, enum bw_role role)
{
    const struct bw_registry *registry = bw_service_registry(call->service);
    struct bw_requester by = bw_auth_by(call);
    enum bw_refusal refusal = bw_registry_authorize(registry, &by, role);
    if (refusal)
        bw_service_refuse(call, refusal);
    return !refusal;
}

bool bw_auth_permits(struct bw_call *call, enum bw_perm_type needs, const struct bw_keys *keys)
{
    struct bw_requester by = bw_auth_by(call);
    enum bw_refusal refusal =
        bw_registry_permits(bw_service_registry(call->service), &by, needs, keys);
    if (refusal)
        bw_service_refuse(call, refusal);
    return !refusal;
}

bool bw_auth_may(struct bw_call *call)
{
    if (bw_service_awaits_users(call->service)) {
        bw_call_end(call, BW_CODE_UNAVAILABLE,
                    "bellwether: the users from --users are not imported yet; every member must "
                    "have joined the cluster once");
        return false;
    }
    return bw_auth_may_as(call, role_for(call->method));
}

/* ---- tokens ---- */

static bool make_mac(struct bw_service *service, const struct bw_user *user, uint64_t ends_s,
                     char out[MAC_CHARS + 1])
{
    static const char label[] = "bellwether token 1", digits[] = "0123456789abcdef";
    unsigned char key[BW_USER_SALT + BW_USER_HASH], mac[EVP_MAX_MD_SIZE];
    unsigned char text[sizeof label + 16 + BW_USER_NAME_MAX + 1] = {0};
    unsigned length = 0;
    memcpy(key, user->secret.hash, BW_USER_HASH);
    memcpy(key + BW_USER_HASH, user->secret.salt, BW_USER_SALT);
    memcpy(text, label, sizeof label);
    bw_put64(text + sizeof label, bw_service_cluster(service));
    bw_put64(text + sizeof label + 8, ends_s);
    memcpy(text + sizeof label + 16, user->name, sizeof user->name);
    if (!user->secret.ln || !HMAC(EVP_sha256(), key, sizeof key, text, sizeof text, mac, &length) ||
        length != MAC_BYTES)
        return false;
    for (size_t i = 0; i < MAC_BYTES; i++) {
        out[2 * i] = digits[mac[i] >> 4];
        out[2 * i + 1] = digits[mac[i] & 15];
    }
    out[MAC_CHARS] = '\0';
    return true;
}

bool bw_auth_token(struct bw_service *service, const struct bw_user *user,
                   char out[BW_AUTH_TOKEN_MAX + 1])
{
    uint64_t ends_s = (uint64_t)time(NULL) + BW_AUTH_TOKEN_S;
    char mac[MAC_CHARS + 1];
    if (!make_mac(service, user, ends_s, mac))
        return false;
    snprintf(out, BW_AUTH_TOKEN_MAX + 1, "%s.%016llx.%s", user->name, (unsigned long long)ends_s,
             mac);
    return true;
}

/* Returns the user of a token; NULL: invalid token. */
static const struct bw_user *user_of(struct bw_service *service, const char *text, size_t length)
{
    char mac[MAC_CHARS + 1], digits[17] = "", *end;
    if (length <= TAIL_CHARS)
        return NULL;
    struct bw_slice name = {(const unsigned char *)text, length - TAIL_CHARS};
    const char *tail = text + name.length;
    memcpy(digits, tail + 1, 16);
    uint64_t ends_s = strtoull(digits, &end, 16);
    const struct bw_user *user = bw_registry_user(bw_service_registry(service), name);
    bool good = tail[0] == '.' && tail[17] == '.' && *end == '\0' && user &&
                (int64_t)ends_s > (int64_t)time(NULL) && make_mac(service, user, ends_s, mac) &&
                CRYPTO_memcmp(mac, tail + 18, MAC_CHARS) == 0;
    return good ? user : NULL;
}

void bw_auth_take_token(struct bw_service *service, const char *text, size_t length,
                        struct bw_caller *caller)
{
    static const char bearer[] = "Bearer ";
    if (length == 0)
        return;
    if (length > sizeof bearer - 1 && memcmp(text, bearer, sizeof bearer - 1) == 0) {
        text += sizeof bearer - 1;
        length -= sizeof bearer - 1;
    }
    const struct bw_user *user = user_of(service, text, length);
    *caller = (struct bw_caller){.invalid = !user};
    if (!user)
        return;
    memcpy(caller->name, user->name, sizeof user->name);
    caller->since = user->since;
}
