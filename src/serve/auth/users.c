/* The users file, and passwords with scrypt; see users.h. */
#include "serve/auth/users.h"

#include "core/base/error.h"
#include "serve/front/base64.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LN         14u /* 16 MiB and tens of milliseconds per guess */
#define R          8u
#define P          1u
#define LN_MAX     18u
#define R_MAX      16u
#define P_MAX      16u
#define MEMORY_MAX ((uint64_t)600 << 20)
#define LINE_BYTES 1024u

static struct bw_slice slice_of(const char *text)
{
    return (struct bw_slice){(const unsigned char *)text, strlen(text)};
}

/* Parses "NAME:ROLE" and sets *rest to what follows; NULL: nothing. */
static int take_name_and_role(struct bw_user *user, char *line, const char **rest, char *why)
{
    char *role = strchr(line, ':');
    if (role)
        *role++ = '\0';
    char *end = role ? strchr(role, ':') : NULL;
    if (end)
        *end++ = '\0';
    if (!bw_user_name_is_good(slice_of(line))) {
        snprintf(why, BW_USERS_WHY + 1,
                 "invalid user name: expected 1 to %u of a-z A-Z 0-9 . _ @ -", BW_USER_NAME_MAX);
        return BW_EINVAL;
    }
    enum bw_role named = role ? bw_role_named(slice_of(role)) : BW_ROLE_NONE;
    user->roles = (uint8_t)(1u << named);
    if (named == BW_ROLE_NONE) {
        snprintf(why, BW_USERS_WHY + 1, "invalid role of %s: expected observe, campaign or admin",
                 line);
        return BW_EINVAL;
    }
    memcpy(user->name, line, strlen(line) + 1);
    *rest = end;
    return 0;
}

static bool take_bytes(const char *text, size_t length, unsigned char *out, size_t want)
{
    unsigned char bytes[64];
    size_t got;
    if (length > 64 || !bw_base64_read(text, length, bytes, &got) || got != want)
        return false;
    memcpy(out, bytes, want);
    return true;
}

static bool take_hash(struct bw_secret *secret, const char *text)
{
    unsigned ln, r, p;
    int at = 0;
    if (sscanf(text, "$scrypt$ln=%2u,r=%2u,p=%2u$%n", &ln, &r, &p, &at) != 3 || at == 0 || ln < 1 ||
        ln > LN_MAX || r < 1 || r > R_MAX || p < 1 || p > P_MAX)
        return false;
    secret->ln = (uint8_t)ln;
    secret->r = (uint8_t)r;
    secret->p = (uint8_t)p;
    size_t salt = strcspn(text + at, "$");
    const char *hash = text + at + salt;
    return *hash == '$' && take_bytes(text + at, salt, secret->salt, BW_USER_SALT) &&
           take_bytes(hash + 1, strlen(hash + 1), secret->hash, BW_USER_HASH);
}

static int take_line(struct bw_user *user, char *line, char *why)
{
    const char *hash;
    *user = (struct bw_user){0};
    int error = take_name_and_role(user, line, &hash, why);
    if (!error && !hash) {
        snprintf(why, BW_USERS_WHY + 1, "invalid line: expected NAME:ROLE:HASH");
        error = BW_EINVAL;
    } else if (!error && hash[0] && !take_hash(&user->secret, hash)) {
        snprintf(why, BW_USERS_WHY + 1,
                 "invalid password hash of %s: expected the output of --hash-password", user->name);
        error = BW_EINVAL;
    }
    return error;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct bw_user *)a)->name, ((const struct bw_user *)b)->name);
}

static int add(struct bw_users *users, const struct bw_user *user, char *why)
{
    if (users->count == BW_USERS_MAX) {
        snprintf(why, BW_USERS_WHY + 1, "more than %u users", BW_USERS_MAX);
        return BW_ELIMIT;
    }
    if ((users->count & (users->count - 1)) == 0) { /* grows at powers of two */
        size_t size = users->count ? 2 * (size_t)users->count : 1;
        struct bw_user *larger = realloc(users->at, size * sizeof *larger);
        if (!larger) {
            snprintf(why, BW_USERS_WHY + 1, "out of memory");
            return BW_ENOMEM;
        }
        users->at = larger;
    }
    users->at[users->count++] = *user;
    return 0;
}

static int read_lines(struct bw_users *users, FILE *file, const char *path, char *why)
{
    char line[LINE_BYTES], what[BW_USERS_WHY + 1];
    struct bw_user user;
    int error = 0;
    for (unsigned number = 1; !error && fgets(line, sizeof line, file); number++) {
        bool complete = strchr(line, '\n') || feof(file);
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        error = complete ? take_line(&user, line, what) : BW_EINVAL;
        if (!complete)
            snprintf(what, sizeof what, "line too long");
        if (!error)
            error = add(users, &user, what);
        if (error)
            snprintf(why, BW_USERS_WHY + 1, "users file %.200s, line %u: %.250s", path, number,
                     what);
    }
    return error;
}

static int sort(struct bw_users *users, const char *path, char *why)
{
    if (users->count)
        qsort(users->at, users->count, sizeof users->at[0], compare);
    for (uint32_t i = 1; i < users->count; i++)
        if (compare(&users->at[i - 1], &users->at[i]) == 0) {
            snprintf(why, BW_USERS_WHY + 1, "users file %.200s: duplicate user %s", path,
                     users->at[i].name);
            return BW_EINVAL;
        }
    bool admin = false;
    for (uint32_t i = 0; i < users->count; i++)
        admin |= bw_user_role(&users->at[i]) == BW_ROLE_ADMIN;
    if (!admin)
        snprintf(why, BW_USERS_WHY + 1,
                 users->count ? "users file %.200s: at least one user must have the role admin"
                              : "users file %.200s: contains no users",
                 path);
    return admin ? 0 : BW_EINVAL;
}

int bw_users_read(struct bw_users *out, const char *path, char *why)
{
    struct bw_users users = {0};
    struct stat stat;
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &stat) != 0) {
        snprintf(why, BW_USERS_WHY + 1, "cannot read %.200s: %s", path, strerror(errno));
        if (file)
            fclose(file);
        return BW_EIO;
    }
    int error = 0;
    if (stat.st_mode & 07) {
        snprintf(why, BW_USERS_WHY + 1,
                 "users file %.200s: readable by other users; run chmod o= on it", path);
        error = BW_EINVAL;
    }
    if (!error)
        error = read_lines(&users, file, path, why);
    if (!error)
        error = sort(&users, path, why);
    fclose(file);
    if (error)
        bw_users_free(&users);
    else
        *out = users;
    return error;
}

void bw_users_free(struct bw_users *users)
{
    free(users->at);
    *users = (struct bw_users){0};
}

const struct bw_user *bw_users_find(const struct bw_users *users, const char *name)
{
    struct bw_user key = {0};
    if (strlen(name) > BW_USER_NAME_MAX || users->count == 0)
        return NULL;
    memcpy(key.name, name, strlen(name) + 1);
    return bsearch(&key, users->at, users->count, sizeof users->at[0], compare);
}

static bool hash_password(const struct bw_secret *secret, const char *password, unsigned char *out)
{
    return EVP_PBE_scrypt(password, strlen(password), secret->salt, BW_USER_SALT,
                          (uint64_t)1 << secret->ln, secret->r, secret->p, MEMORY_MAX, out,
                          BW_USER_HASH) == 1;
}

bool bw_user_password_is(const struct bw_secret *secret, const char *password)
{
    static const struct bw_secret no_user = {.ln = LN, .r = R, .p = P};
    unsigned char hash[BW_USER_HASH];
    bool known = secret && secret->ln;
    return hash_password(known ? secret : &no_user, password, hash) && known &&
           CRYPTO_memcmp(hash, secret->hash, BW_USER_HASH) == 0;
}

bool bw_user_hash(struct bw_secret *out, const char *password)
{
    *out = (struct bw_secret){.ln = LN, .r = R, .p = P};
    return RAND_bytes(out->salt, BW_USER_SALT) == 1 && hash_password(out, password, out->hash);
}

int bw_user_line(char out[BW_USER_LINE], const char *name_and_role, const char *password, char *why)
{
    struct bw_user user = {0};
    char who[LINE_BYTES], salt[64] = "", hash[64] = "";
    const char *rest = NULL;
    snprintf(who, sizeof who, "%s", name_and_role);
    int error = take_name_and_role(&user, who, &rest, why);
    if (!error && (rest || password[0] == '\0')) {
        snprintf(why, BW_USERS_WHY + 1,
                 rest ? "expected NAME:ROLE; the password is read from standard input"
                      : "the password must not be empty");
        error = BW_EINVAL;
    }
    if (error)
        return error;
    const struct bw_secret *secret = &user.secret;
    if (!bw_user_hash(&user.secret, password)) {
        snprintf(why, BW_USERS_WHY + 1,
                 "cannot hash the password: no random numbers or out of memory");
        return BW_EIO;
    }
    bw_base64_write(salt, secret->salt, BW_USER_SALT);
    bw_base64_write(hash, secret->hash, BW_USER_HASH);
    snprintf(out, BW_USER_LINE, "%s:%s:$scrypt$ln=%u,r=%u,p=%u$%s$%s", user.name,
             bw_role_name(bw_user_role(&user)), secret->ln, secret->r, secret->p, salt, hash);
    return 0;
}
