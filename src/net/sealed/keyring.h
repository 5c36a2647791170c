/* The keys that peers share: a file with one key per line, the first seals, all of them open.
 *
 * A key has 32 bytes, written in hex (64 digits) or base64 (44 characters); blank lines and lines
 * that begin with # do not count. So a key is rotated without a pause: add the new one below on
 * every host, then move it to the top everywhere, then take the old one away.
 *
 * The file must be ours or root's and closed to others: a key that anybody can read is none. Frames
 * name their key by four bytes that are derived from it and tell nothing about it.
 *
 * Without a file there is the public key, all zeroes: everybody has it. It takes the same way
 * through the code, protects against accidents only, and the caller says where that is enough. */
#ifndef BW_NET_KEYRING_H
#define BW_NET_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BW_KEY_BYTES       32u
#define BW_KEY_TEXT_MAX    64u
#define BW_KEYRING_WHY_MAX 255u
/* Two while rotating; more are rotations that somebody forgot to finish. */
#define BW_KEYRING_KEYS_MAX 8u

struct bw_keyring;

/* Returns 0, or BW_EIO (cannot be read), BW_EDENIED (others may read it), BW_EMALFORMED (no key, or
 * no keys at all), BW_ELIMIT (too many) or BW_ENOMEM, with a line in why[BW_KEYRING_WHY_MAX + 1].
 * No line ever shows a part of a key. */
int bw_keyring_load(struct bw_keyring **out, const char *file, char *why);
/* The ring that holds the public key alone; NULL: no memory. */
struct bw_keyring *bw_keyring_public(void);
void bw_keyring_free(struct bw_keyring *ring);

/* Reads the file again; whoever uses the ring goes on with what it holds then. Errors as load has
 * them, and then nothing changes. A ring without a file stays as it is. */
int bw_keyring_reload(struct bw_keyring *ring, char *why);

bool bw_keyring_is_public(const struct bw_keyring *ring);
uint32_t bw_keyring_count(const struct bw_keyring *ring);

/* A new random key as text for the file, NUL-ended. Returns 0, or BW_EIO: no randomness. */
int bw_keyring_make_key(char text[BW_KEY_TEXT_MAX + 1]);

/* ---- for the seal ---- */

/* Changes with every reload that changed something. */
uint32_t bw_keyring_generation(const struct bw_keyring *ring);
/* The key that seals, and its name. */
const unsigned char *bw_keyring_first(const struct bw_keyring *ring, uint32_t *id);
/* The key of this name; NULL: not in the ring. */
const unsigned char *bw_keyring_find(const struct bw_keyring *ring, uint32_t id);

#endif
