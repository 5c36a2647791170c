/* The first users of a cluster, from a file, and passwords.
 *
 *   # comment
 *   NAME:ROLE:$scrypt$ln=14,r=8,p=1$SALT$HASH      salt and hash in base64
 *   NAME:ROLE:                                     no password: known by certificate alone
 *
 * One of them at least is admin. Passwords are hashed by scrypt (RFC 7914), which is slow on
 * purpose: not for the loop's thread. */
#ifndef BW_SERVE_USERS_H
#define BW_SERVE_USERS_H

#include "core/registry/users.h"

#define BW_PASSWORD_MAX 255u
#define BW_USER_LINE    256u
#define BW_USERS_WHY    511u

struct bw_users {
    struct bw_user *at; /* by name */
    uint32_t count;
};

/* Returns 0, or an error with a line in why[BW_USERS_WHY + 1]. */
int bw_users_read(struct bw_users *out, const char *path, char *why);
void bw_users_free(struct bw_users *users);
/* NULL: there is none. */
const struct bw_user *bw_users_find(const struct bw_users *users, const char *name);

/* Each takes tens of milliseconds. `secret` NULL: takes as long, and says no. */
bool bw_user_password_is(const struct bw_secret *secret, const char *password);
/* A new salt, and the hash under it; false: no random numbers or no memory. */
bool bw_user_hash(struct bw_secret *out, const char *password);
/* The line of a file, for "NAME:ROLE". Returns 0, BW_EINVAL with a line in `why`, or BW_EIO. */
int bw_user_line(char out[BW_USER_LINE], const char *name_and_role, const char *password,
                 char *why);

#endif
