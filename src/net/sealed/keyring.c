/* Keys from a file; see keyring.h. */
#include "net/sealed/keyring.h"

#include "core/base/error.h"
#include "core/base/little.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX 8192u
#define BASE64_CHARS   44u
#define NAME_LABEL     "bellwether key name 1"

struct key {
    uint32_t id;
    unsigned char bytes[BW_KEY_BYTES];
};

struct keys {
    uint32_t count;
    struct key key[BW_KEYRING_KEYS_MAX];
};

struct bw_keyring {
    char *file; /* NULL: the public key */
    uint32_t generation;
    struct keys keys;
};

/* Sets the id of a key in frames: a hash that only an owner of the key can compute. False: out of
 * memory. */
static bool name_key(struct key *key)
{
    unsigned char text[BW_KEY_BYTES + sizeof NAME_LABEL], digest[EVP_MAX_MD_SIZE] = {0};
    memcpy(text, NAME_LABEL, sizeof NAME_LABEL);
    memcpy(text + sizeof NAME_LABEL, key->bytes, BW_KEY_BYTES);
    bool made = EVP_Digest(text, sizeof text, digest, NULL, EVP_sha256(), NULL) == 1;
    OPENSSL_cleanse(text, sizeof text);
    key->id = bw_get32(digest);
    return made;
}

static int nibble(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

static bool read_hex(const char *text, unsigned char *out)
{
    int wrong = 0;
    for (size_t i = 0; i < BW_KEY_BYTES; i++) {
        int high = nibble(text[2 * i]), low = nibble(text[2 * i + 1]);
        wrong |= high | low; /* negative if either is */
        out[i] = (unsigned char)((unsigned)high << 4 | (unsigned)low);
    }
    return wrong >= 0;
}

/* Accepts only the canonical encoding: anything else is a typing error. */
static bool read_base64(const char *text, unsigned char *out)
{
    unsigned char bytes[BASE64_CHARS], again[BASE64_CHARS + 1];
    if (EVP_DecodeBlock(bytes, (const unsigned char *)text, BASE64_CHARS) < 0)
        return false;
    EVP_EncodeBlock(again, bytes, BW_KEY_BYTES);
    bool same = memcmp(again, text, BASE64_CHARS) == 0;
    memcpy(out, bytes, BW_KEY_BYTES);
    OPENSSL_cleanse(bytes, sizeof bytes);
    OPENSSL_cleanse(again, sizeof again);
    return same;
}

static int add_key(struct keys *keys, const char *text, size_t length, unsigned line, char *why)
{
    static const unsigned char zeroes[BW_KEY_BYTES];
    struct key *key = &keys->key[keys->count];
    if (keys->count == BW_KEYRING_KEYS_MAX) {
        snprintf(why, BW_KEYRING_WHY_MAX + 1, "line %u: more than %u keys", line,
                 BW_KEYRING_KEYS_MAX);
        return BW_ELIMIT;
    }
    bool good = length == BW_KEY_TEXT_MAX ? read_hex(text, key->bytes)
                : length == BASE64_CHARS  ? read_base64(text, key->bytes)
                                          : false;
    if (!good || memcmp(key->bytes, zeroes, sizeof zeroes) == 0) {
        snprintf(why, BW_KEYRING_WHY_MAX + 1,
                 "line %u: invalid key: expected 32 random bytes in hex or base64", line);
        return BW_EMALFORMED;
    }
    if (!name_key(key)) {
        snprintf(why, BW_KEYRING_WHY_MAX + 1, "out of memory");
        return BW_ENOMEM;
    }
    for (uint32_t i = 0; i < keys->count; i++)
        if (keys->key[i].id == key->id) {
            snprintf(why, BW_KEYRING_WHY_MAX + 1, "line %u: duplicate key", line);
            return BW_EMALFORMED;
        }
    keys->count++;
    return 0;
}

static int read_lines(struct keys *keys, const char *text, size_t length, char *why)
{
    unsigned line = 0;
    for (size_t at = 0, end; at < length; at = end + 1) {
        const char *stop = memchr(text + at, '\n', length - at);
        end = stop ? (size_t)(stop - text) : length;
        size_t from = at, to = end;
        line++;
        while (from < to && (text[from] == ' ' || text[from] == '\t'))
            from++;
        while (to > from && (text[to - 1] == ' ' || text[to - 1] == '\t' || text[to - 1] == '\r'))
            to--;
        if (from == to || text[from] == '#')
            continue;
        int error = add_key(keys, text + from, to - from, line, why);
        if (error)
            return error;
    }
    if (keys->count > 0)
        return 0;
    snprintf(why, BW_KEYRING_WHY_MAX + 1, "the file contains no key");
    return BW_EMALFORMED;
}

/* The group may read the file: that is how secrets are mounted for a service. */
static int check_mode(int fd, char *why)
{
    struct stat is;
    if (fstat(fd, &is) != 0) {
        snprintf(why, BW_KEYRING_WHY_MAX + 1, "%s", strerror(errno));
        return BW_EIO;
    }
    bool ours = is.st_uid == geteuid() || is.st_uid == 0;
    if (S_ISREG(is.st_mode) && ours && !(is.st_mode & (S_IRWXO | S_IWGRP)))
        return 0;
    snprintf(why, BW_KEYRING_WHY_MAX + 1, "%s",
             !S_ISREG(is.st_mode) ? "not a regular file"
             : ours               ? "accessible to other users; run chmod 600 on it"
                                  : "must be owned by the current user or root");
    return BW_EDENIED;
}

static int read_file(struct keys *keys, int fd, char *why)
{
    char text[FILE_BYTES_MAX + 1];
    size_t length = 0;
    ssize_t got;
    int error = check_mode(fd, why);
    if (error)
        return error;
    while (length < sizeof text && (got = read(fd, text + length, sizeof text - length)) != 0) {
        if (got < 0 && errno != EINTR) {
            snprintf(why, BW_KEYRING_WHY_MAX + 1, "%s", strerror(errno));
            error = BW_EIO;
            goto out;
        }
        length += got > 0 ? (size_t)got : 0;
    }
    if (length > FILE_BYTES_MAX) {
        snprintf(why, BW_KEYRING_WHY_MAX + 1, "longer than %u bytes", FILE_BYTES_MAX);
        error = BW_ELIMIT;
    } else {
        error = read_lines(keys, text, length, why);
    }
out:
    OPENSSL_cleanse(text, sizeof text);
    return error;
}

static int read_keys(struct keys *keys, const char *file, char *why)
{
    char reason[BW_KEYRING_WHY_MAX + 1] = "";
    int error = BW_EIO, fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *keys = (struct keys){0};
    if (fd < 0) {
        snprintf(reason, sizeof reason, "%s", strerror(errno));
    } else {
        error = read_file(keys, fd, reason);
        close(fd);
    }
    if (error)
        snprintf(why, BW_KEYRING_WHY_MAX + 1, "cannot read keys from %.120s: %.100s", file, reason);
    return error;
}

struct bw_keyring *bw_keyring_public(void)
{
    struct bw_keyring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return NULL;
    ring->keys.count = 1;
    if (name_key(&ring->keys.key[0]))
        return ring;
    free(ring);
    return NULL;
}

int bw_keyring_load(struct bw_keyring **out, const char *file, char *why)
{
    struct bw_keyring *ring = calloc(1, sizeof *ring);
    int error = BW_ENOMEM;
    if (ring && (ring->file = strdup(file)))
        error = read_keys(&ring->keys, file, why);
    else
        snprintf(why, BW_KEYRING_WHY_MAX + 1, "out of memory for keys");
    if (error)
        bw_keyring_free(ring);
    else
        *out = ring;
    return error;
}

void bw_keyring_free(struct bw_keyring *ring)
{
    if (!ring)
        return;
    OPENSSL_cleanse(&ring->keys, sizeof ring->keys);
    free(ring->file);
    free(ring);
}

static bool same_keys(const struct keys *a, const struct keys *b)
{
    bool same = a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++)
        same = memcmp(a->key[i].bytes, b->key[i].bytes, BW_KEY_BYTES) == 0;
    return same;
}

int bw_keyring_reload(struct bw_keyring *ring, char *why)
{
    struct keys keys;
    int error = ring->file ? read_keys(&keys, ring->file, why) : 0;
    if (!ring->file)
        return 0;
    if (!error && !same_keys(&keys, &ring->keys)) {
        ring->keys = keys;
        ring->generation++;
    }
    OPENSSL_cleanse(&keys, sizeof keys);
    return error;
}

bool bw_keyring_is_public(const struct bw_keyring *ring)
{
    return !ring->file;
}

uint32_t bw_keyring_count(const struct bw_keyring *ring)
{
    return ring->keys.count;
}

int bw_keyring_make_key(char text[BW_KEY_TEXT_MAX + 1])
{
    unsigned char bytes[BW_KEY_BYTES];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return BW_EIO;
    EVP_EncodeBlock((unsigned char *)text, bytes, sizeof bytes);
    OPENSSL_cleanse(bytes, sizeof bytes);
    return 0;
}

uint32_t bw_keyring_generation(const struct bw_keyring *ring)
{
    return ring->generation;
}

const unsigned char *bw_keyring_first(const struct bw_keyring *ring, uint32_t *id)
{
    *id = ring->keys.key[0].id;
    return ring->keys.key[0].bytes;
}

const unsigned char *bw_keyring_find(const struct bw_keyring *ring, uint32_t id)
{
    for (uint32_t i = 0; i < ring->keys.count; i++)
        if (ring->keys.key[i].id == id)
            return ring->keys.key[i].bytes;
    return NULL;
}
