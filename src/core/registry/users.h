/* Users of the service, as part of the replicated state: names, roles and password hashes.
 *
 * Model. Changes of users come from the log, one at a time. Every node that applied the same log
 * knows the same users. An entry names its requester. The permission is checked when the entry is
 * applied, against the users at that point of the log. A request logged after its user's removal is
 * therefore refused on every node, whatever the accepting node knew.
 *
 * The users have their own revision, one per change (etcd's authRevision). Each user keeps the
 * revision at which it was added or got its password (`since`). An entry names that revision too. A
 * new user with an old name, or a new password, therefore does not authorise earlier requests.
 *
 * Four roles are fixed; each of them includes the ones before it. `root` is etcd's name for admin.
 * From level 4 of the registry on, users define further roles, with permissions on ranges of keys
 * (roles.c). A user may do what any of its roles allows. While users are disabled, every request is
 * allowed. */
#ifndef BW_CORE_REGISTRY_USERS_H
#define BW_CORE_REGISTRY_USERS_H

#include "core/base/heap.h"
#include "core/registry/bytes.h"
#include "core/registry/registry.h"

#define BW_USERS_MAX     10000u /* an import of all users still fits into one request */
#define BW_USER_NAME_MAX 63u
#define BW_USER_SALT     16u
#define BW_USER_HASH     32u
/* Maximum encoded size of a user. */
#define BW_USER_BYTES (BW_USER_NAME_MAX + BW_USER_SALT + BW_USER_HASH + 7)

enum bw_role { BW_ROLE_NONE, BW_ROLE_OBSERVE, BW_ROLE_CAMPAIGN, BW_ROLE_ADMIN, BW_ROLE_ROOT };

#define BW_KEY_ROLES_MAX  1000u /* roles with permissions */
#define BW_ROLE_PERMS_MAX 256u  /* permissions of a role */
#define BW_USER_ROLES_MAX 16u   /* roles with permissions of a user */
#define BW_PERM_KEY_MAX   4096u /* bytes of the first key and of the end of a permission */

enum bw_perm_type { BW_PERM_READ, BW_PERM_WRITE, BW_PERM_READWRITE };

struct bw_perm {
    enum bw_perm_type type;
    struct bw_keys keys;
};

struct bw_key_role { /* a role with permissions; an empty name: a free slot */
    char name[BW_USER_NAME_MAX + 1];
    bw_ref first; /* of its permissions */
    uint32_t count;
};

struct bw_secret {    /* password hash by scrypt (RFC 7914) */
    uint8_t ln, r, p; /* ln 0: no password */
    unsigned char salt[BW_USER_SALT], hash[BW_USER_HASH];
};

struct bw_user {
    char name[BW_USER_NAME_MAX + 1];
    uint8_t roles; /* granted roles: bit 1 << enum bw_role */
    struct bw_secret secret;
    uint64_t since;
    uint16_t granted[BW_USER_ROLES_MAX]; /* slots of roles with permissions, from 1; 0: the end */
};

enum bw_users_act {
    BW_USERS_ENABLE,
    BW_USERS_DISABLE,
    BW_USERS_ADD,
    BW_USERS_REMOVE,
    BW_USERS_PASSWORD,
    BW_USERS_GRANT,
    BW_USERS_REVOKE,
    BW_USERS_IMPORT, /* also enables users; only before the first change of users */
    /* roles with permissions, from level 4 on */
    BW_USERS_ROLE_ADD,
    BW_USERS_ROLE_DELETE,
    BW_USERS_ROLE_ALLOW,    /* adds a permission, or changes its type */
    BW_USERS_ROLE_DISALLOW, /* removes a permission */
    BW_USERS_ROLE_GRANT,
    BW_USERS_ROLE_REVOKE
};

struct bw_users_change {
    enum bw_users_act act;
    struct bw_user user;  /* name; ADD: all fields; PASSWORD: the secret */
    enum bw_role role;    /* GRANT, REVOKE */
    struct bw_slice list; /* IMPORT: users encoded by bw_user_write, sorted by name */
    char role_name[BW_USER_NAME_MAX + 1]; /* ROLE_... */
    struct bw_perm perm;                  /* ROLE_ALLOW; ROLE_DISALLOW: its keys */
};

/* The requester of a change or a read. */
enum bw_requester_kind {
    BW_REQUESTER_UNKNOWN, /* not authenticated */
    BW_REQUESTER_USER,
    BW_REQUESTER_NODE /* a node itself: always allowed */
};

struct bw_requester {
    enum bw_requester_kind kind;
    struct bw_slice name;
    uint64_t since;
};

struct bw_users_status {
    bool enabled;
    uint64_t revision; /* 0: users were never changed */
    uint32_t count;
};

/* 1 to BW_USER_NAME_MAX of a-z A-Z 0-9 . _ @ - */
bool bw_user_name_is_good(struct bw_slice name);
/* BW_ROLE_NONE: unknown role. */
enum bw_role bw_role_named(struct bw_slice name);
const char *bw_role_name(enum bw_role role);
/* The highest granted role; BW_ROLE_ADMIN for root. */
enum bw_role bw_user_role(const struct bw_user *user);

void bw_registry_users_status(const struct bw_registry *registry, struct bw_users_status *out);
/* Returns NULL if the user is unknown. The result is valid until the next change. */
const struct bw_user *bw_registry_user(const struct bw_registry *registry, struct bw_slice name);
/* The users sorted by name, from 0 on; NULL after the last. Valid until the next change. */
const struct bw_user *bw_registry_user_at(const struct bw_registry *registry, uint32_t place);
/* The requester that a node enters for its own changes. */
struct bw_requester bw_registry_node_requester(const struct bw_registry *registry);
/* Checks the requester's permission: BW_REFUSED_NONE if it has at least the role `least`. A user of
 * a role with permissions passes up to BW_ROLE_CAMPAIGN: its keys are checked apart. */
enum bw_refusal bw_registry_authorize(const struct bw_registry *registry,
                                      const struct bw_requester *by, enum bw_role least);
/* roles.c */

/* NULL: no role with permissions has this name. Valid until the next change. */
const struct bw_key_role *bw_registry_role(const struct bw_registry *registry, const char *name);
/* The slots from 0 on; NULL after the last. */
const struct bw_key_role *bw_registry_role_at(const struct bw_registry *registry, uint32_t place);
/* Iterates over the permissions of a role, ordered by key. `at` starts at 0. */
bool bw_registry_role_perm(const struct bw_registry *registry, const struct bw_key_role *role,
                           bw_ref *at, struct bw_perm *out);
/* The names of a user's roles with permissions, from 0 on; NULL after the last. */
const char *bw_registry_granted(const struct bw_registry *registry, const struct bw_user *user,
                                uint32_t place);
/* Checks whether the requester may read or write all of these keys. */
enum bw_refusal bw_registry_permits(const struct bw_registry *registry,
                                    const struct bw_requester *by, enum bw_perm_type needs,
                                    const struct bw_keys *keys);
/* The same for all keys of a lease. Visits all of them. */
enum bw_refusal bw_registry_permits_lease(const struct bw_registry *registry,
                                          const struct bw_requester *by, enum bw_perm_type needs,
                                          int64_t id);

enum bw_refusal bw_registry_users_change(struct bw_registry *registry,
                                         const struct bw_users_change *change);

/* Encodes a user without `since`: name, roles, ln, and unless ln is 0: r, p, salt, hash. */
void bw_user_write(struct bw_writer *writer, const struct bw_user *user);
/* Fails on an invalid user. */
void bw_user_read(struct bw_reader *reader, struct bw_user *out);
void bw_role_name_write(struct bw_writer *writer, const char *name);
/* Fails on an invalid name, and on the name of a fixed role. */
void bw_role_name_read(struct bw_reader *reader, char out[BW_USER_NAME_MAX + 1]);
void bw_perm_write(struct bw_writer *writer, const struct bw_perm *perm);
/* Fails on an invalid permission. */
void bw_perm_read(struct bw_reader *reader, struct bw_perm *out);
void bw_users_change_write(struct bw_writer *writer, const struct bw_users_change *change);
void bw_users_change_read(struct bw_reader *reader, struct bw_users_change *out);

#endif
