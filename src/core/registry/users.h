/* Who may change and read what is replicated, as part of it: users with roles and password hashes.
 *
 * Model: as with keys, changes come from the log, one at a time, and every node that applied the
 * same log knows the same users. An entry says who asked for it; whether that user may is decided
 * when it is applied, by the users as of its place in the log. A request that stands behind its
 * user's removal is refused on every node, whatever the node that took it knew.
 *
 * The users have a revision of their own, one per change (etcd's authRevision). A user keeps the
 * one at which it came or got its password (`since`): an entry names it too, so that a new user of
 * an old name, or a new password, does not stand for requests of before.
 *
 * Roles are fixed; each may do what those before it may. `root` is etcd's name for admin. While
 * users are not enabled everybody may do everything. */
#ifndef BW_REGISTRY_USERS_H
#define BW_REGISTRY_USERS_H

#include "core/registry/bytes.h"
#include "core/registry/registry.h"

#define BW_USERS_MAX     10000u /* an import of all of them still fits one request */
#define BW_USER_NAME_MAX 63u
#define BW_USER_SALT     16u
#define BW_USER_HASH     32u
#define BW_USER_BYTES    (BW_USER_NAME_MAX + BW_USER_SALT + BW_USER_HASH + 7) /* at most, written */

enum bw_role { BW_ROLE_NONE, BW_ROLE_OBSERVE, BW_ROLE_CAMPAIGN, BW_ROLE_ADMIN, BW_ROLE_ROOT };

struct bw_secret {    /* a password, by scrypt (RFC 7914) */
    uint8_t ln, r, p; /* ln 0: it has none */
    unsigned char salt[BW_USER_SALT], hash[BW_USER_HASH];
};

struct bw_user {
    char name[BW_USER_NAME_MAX + 1];
    uint8_t roles; /* bit 1 << enum bw_role: granted */
    struct bw_secret secret;
    uint64_t since;
};

enum bw_users_act {
    BW_USERS_ENABLE,
    BW_USERS_DISABLE,
    BW_USERS_ADD,
    BW_USERS_REMOVE,
    BW_USERS_PASSWORD,
    BW_USERS_GRANT,
    BW_USERS_REVOKE,
    BW_USERS_IMPORT /* and enable; only if there was never a change before */
};

struct bw_users_change {
    enum bw_users_act act;
    struct bw_user user;  /* its name; ADD: all of it; PASSWORD: the secret */
    enum bw_role role;    /* GRANT, REVOKE */
    struct bw_slice list; /* IMPORT: users as bw_user_write has them, by name */
};

/* Who asks for a change or a read. */
enum bw_by_kind {
    BW_BY_ANYBODY, /* nobody said who */
    BW_BY_USER,
    BW_BY_NODE /* a node of its own accord: it may */
};

struct bw_by {
    enum bw_by_kind kind;
    struct bw_slice name;
    uint64_t since;
};

struct bw_users_status {
    bool enabled;
    uint64_t revision; /* 0: there was never a change */
    uint32_t count;
};

/* 1 to BW_USER_NAME_MAX of a-z A-Z 0-9 . _ @ - */
bool bw_user_name_is_good(struct bw_slice name);
/* BW_ROLE_NONE: there is no such role. */
enum bw_role bw_role_named(struct bw_slice name);
const char *bw_role_name(enum bw_role role);
/* The most that was granted; BW_ROLE_ADMIN for root. */
enum bw_role bw_user_role(const struct bw_user *user);

void bw_registry_users_status(const struct bw_registry *registry, struct bw_users_status *out);
/* NULL: there is none. Valid until the next change, as is the other. */
const struct bw_user *bw_registry_user(const struct bw_registry *registry, struct bw_slice name);
/* By name, from 0 on; NULL behind the last. */
const struct bw_user *bw_registry_user_at(const struct bw_registry *registry, uint32_t place);
/* How a node signs what it does of its own accord. */
struct bw_by bw_registry_own(const struct bw_registry *registry);
/* May they now what takes this role? BW_REFUSED_NOT: yes. */
enum bw_refusal bw_registry_may(const struct bw_registry *registry, const struct bw_by *by,
                                enum bw_role least);
enum bw_refusal bw_registry_users_change(struct bw_registry *registry,
                                         const struct bw_users_change *change);

/* A user as bytes, without `since`: name, roles, ln, r, p, and with ln its salt and hash. */
void bw_user_write(struct bw_writer *writer, const struct bw_user *user);
/* What cannot be a user fails. */
void bw_user_read(struct bw_reader *reader, struct bw_user *out);
void bw_users_change_write(struct bw_writer *writer, const struct bw_users_change *change);
void bw_users_change_read(struct bw_reader *reader, struct bw_users_change *out);

#endif
