/* Proof that the work of one leadership is confirmed dead, for leaders on `bellwether serve`.
 *
 * A clean close (net/clean_close_proof.h) ends the lease of a leader, but so do an operator and an
 * expiry. The successor reads the death proof to tell them apart: with a valid proof, the work of
 * the earlier leader is not unconfirmed, and nothing is fenced.
 *
 *   secret   the proof of the clean close: 32 random bytes of the leader's process
 *   proof    HMAC-SHA256 of the token (8 bytes, big-endian) under the secret, 64 hex digits
 *   hash     SHA-256 of these 64 digits, 64 hex digits
 *
 *   1. A candidate that takes the record, and whose work a guardian supervises, writes the hash for
 *      its token into the record.
 *   2. Its guardian reveals the secret in a clean close, after the work is confirmed dead.
 *   3. The server computes the proof for the token of the lease that it is about to revoke. If the
 *      record contains the hash, the server puts the proof at the key
 *      /bellwether/ELECTION/death-proof. Then it revokes the lease.
 *   4. The successor compares the proof with the hash in the record, and deletes the proof in the
 *      transaction that writes its own record.
 *
 * Guaranteed: a proof of another leadership does not match, because its token differs. Only the
 * process of the leader and its guardian know the secret until the clean close, which the guardian
 * sends only when the process of the leader is dead. Then no later leadership can use the secret.
 *
 * Not guaranteed: that a proof is stored. Without one the work stays unconfirmed. The proof does
 * not protect against a client that may write the record: it could write `clean` itself. */
#ifndef BW_NET_DEATH_PROOF_H
#define BW_NET_DEATH_PROOF_H

#include "net/clean_close_proof.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BW_DEATH_PROOF_KEY  "death-proof" /* below /bellwether/ELECTION/ */
#define BW_DEATH_PROOF_TEXT 64u           /* hex digits of a proof and of a hash */

/* Both write BW_DEATH_PROOF_TEXT digits and a NUL. They return false if OpenSSL fails. */
bool bw_death_proof(const unsigned char secret[BW_BIND_PROOF], uint64_t token,
                    char proof[BW_DEATH_PROOF_TEXT + 1]);
bool bw_death_hash(const char proof[BW_DEATH_PROOF_TEXT + 1], char hash[BW_DEATH_PROOF_TEXT + 1]);
/* Is this value of the key the proof with that hash? Never true for the hash "". */
bool bw_death_is_proved(const void *value, size_t length, const char *hash);

#endif
