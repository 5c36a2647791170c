/* The keys that peers share, from a file with one key per line. The first key seals; all of them
 * open.
 *
 * A key has 32 bytes, written in hex (64 digits) or base64 (44 characters). Blank lines and lines
 * that begin with # are ignored. To rotate a key without interruption: add the new key below the
 * old one on every host, then move it to the top everywhere, then remove the old one.
 *
 * The file must be owned by us or root and closed to other users: a key that others can read
 * protects nothing. Frames name their key by four bytes that are derived from it and reveal nothing
 * about it.
 *
 * Without a file the ring holds the public key, all zeros. It uses the same code and protects only
 * against accidents; the caller decides where that is enough. */
#ifndef BW_NET_SEALED_KEYRING_H
#define BW_NET_SEALED_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BW_KEY_BYTES       32u
#define BW_KEY_TEXT_MAX    64u
#define BW_KEYRING_WHY_MAX 255u
/* Two while rotating; more means that a rotation was not finished. */
#define BW_KEYRING_KEYS_MAX 8u

struct bw_keyring;

/* Returns 0, or BW_EIO (cannot be read), BW_EDENIED (other users may read it), BW_EMALFORMED (an
 * invalid key, or no keys at all), BW_ELIMIT (too many) or BW_ENOMEM, with the reason in
 * why[BW_KEYRING_WHY_MAX + 1]. The reason never shows a part of a key. */
int bw_keyring_load(struct bw_keyring **out, const char *file, char *why);
/* A ring with only the public key; NULL: no memory. */
struct bw_keyring *bw_keyring_public(void);
void bw_keyring_free(struct bw_keyring *ring);

/* Reads the file again; users of the ring continue with its new contents. On an error, as for load,
 * nothing changes. A ring without a file stays as it is. */
int bw_keyring_reload(struct bw_keyring *ring, char *why);

bool bw_keyring_is_public(const struct bw_keyring *ring);
uint32_t bw_keyring_count(const struct bw_keyring *ring);

/* Writes a new random key as NUL-terminated text for the file. Returns 0, or BW_EIO: no
 * randomness. */
int bw_keyring_make_key(char text[BW_KEY_TEXT_MAX + 1]);

/* ---- for the seal ---- */

/* Changes with every reload that changed something. */
uint32_t bw_keyring_generation(const struct bw_keyring *ring);
/* The key that seals, and its id. */
const unsigned char *bw_keyring_first(const struct bw_keyring *ring, uint32_t *id);
/* The key with this id; NULL: not in the ring. */
const unsigned char *bw_keyring_find(const struct bw_keyring *ring, uint32_t id);

#endif
