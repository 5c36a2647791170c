/* Reads the first users of a cluster from a file, and hashes passwords.
 *
 *   # comment
 *   NAME:ROLE:$scrypt$ln=14,r=8,p=1$SALT$HASH      salt and hash in base64
 *   NAME:ROLE:                                     no password: identified by certificate only
 *
 * At least one user must be admin. Passwords are hashed with scrypt (RFC 7914), which is slow on
 * purpose: do not call it on the loop's thread. */
#ifndef BW_SERVE_API_USERS_H
#define BW_SERVE_API_USERS_H

#include "core/registry/users.h"

#define BW_PASSWORD_MAX 255u
#define BW_USER_LINE    256u
#define BW_USERS_WHY    511u

struct bw_users {
    struct bw_user *at; /* sorted by name */
    uint32_t count;
};

/* Returns 0, or an error with the reason in why[BW_USERS_WHY + 1]. */
int bw_users_read(struct bw_users *out, const char *path, char *why);
void bw_users_free(struct bw_users *users);
/* NULL: no such user. */
const struct bw_user *bw_users_find(const struct bw_users *users, const char *name);

/* Takes tens of milliseconds. With `secret` NULL it takes as long and returns false. */
bool bw_user_password_is(const struct bw_secret *secret, const char *password);
/* Creates a salt and hashes the password with it. Returns false without random numbers or
 * memory. */
bool bw_user_hash(struct bw_secret *out, const char *password);
/* Writes the line of a users file for "NAME:ROLE". Returns 0, BW_EINVAL with the reason in `why`,
 * or BW_EIO. */
int bw_user_line(char out[BW_USER_LINE], const char *name_and_role, const char *password,
                 char *why);

#endif
