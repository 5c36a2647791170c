/* A keyed hash: SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; with
 * one round per word and three at the end, as Rust, Python and Linux use it for tables).
 *
 * For tables whose keys a client chooses. A client that does not know the key of the hash cannot
 * choose keys that collide, so no chain gets long. The order of such a table depends on the key of
 * the hash, which differs between nodes: nothing that nodes compare may depend on that order. */
#ifndef BW_CORE_HASH_SIPHASH_H
#define BW_CORE_HASH_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* Random in a service, and all zero where runs must be repeatable (simulator, explorer, tests). */
struct bw_hash_key {
    uint64_t at[2];
};

uint64_t bw_siphash(const struct bw_hash_key *key, const unsigned char *bytes, size_t length);
/* The hash of the eight bytes of `number`, the lowest first. */
uint64_t bw_siphash_number(const struct bw_hash_key *key, uint64_t number);

#endif
