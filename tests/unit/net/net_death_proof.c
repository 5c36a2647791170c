/* The proof that the work of one leadership is confirmed dead, and the prefix of an election's
 * keys. */
#include "net/death_proof.h"

#include "net/election_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define TOKEN 0x0102030405060708u

struct sample {
    unsigned char secret[BW_BIND_PROOF];
    char proof[BW_DEATH_PROOF_TEXT + 1], hash[BW_DEATH_PROOF_TEXT + 1];
};

static struct sample sample_of(unsigned char first, uint64_t token)
{
    struct sample s = {.secret = {first}};
    assert_true(bw_death_proof(s.secret, token, s.proof));
    assert_true(bw_death_hash(s.proof, s.hash));
    return s;
}

static bool proves(const char *proof, const char *hash)
{
    return bw_death_is_proved(proof, strlen(proof), hash);
}

/* Expected values: computed by Python's hmac and hashlib, with a key of 32 zeros. */
static void proof_and_hash_have_the_documented_form(void **state)
{
    (void)state;
    struct sample s = sample_of(0, TOKEN);
    assert_string_equal(s.proof,
                        "c59a063ccd78f8ef7da2e361f5027145c495f0728f0575fe5fe55840daaefa51");
    assert_string_equal(s.hash, "9b2b622a02d8025905b738d613f661d5478606aac1b67c7ed2fd68a269e842a0");
}

static void proof_matches_its_own_hash(void **state)
{
    (void)state;
    struct sample s = sample_of(7, TOKEN);
    assert_true(proves(s.proof, s.hash));
}

static void proof_of_another_token_does_not_match(void **state)
{
    (void)state;
    struct sample s = sample_of(7, TOKEN);
    const uint64_t others[] = {0, 1, TOKEN - 1, TOKEN + 1, UINT64_MAX};
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct sample other = sample_of(7, others[i]);
        assert_false(proves(other.proof, s.hash));
        assert_false(proves(s.proof, other.hash));
    }
}

static void proof_of_another_process_does_not_match(void **state)
{
    (void)state;
    assert_false(proves(sample_of(8, TOKEN).proof, sample_of(7, TOKEN).hash));
}

static void changed_proof_does_not_match(void **state)
{
    (void)state;
    struct sample s = sample_of(7, TOKEN);
    for (unsigned i = 0; i < BW_DEATH_PROOF_TEXT; i++) {
        char kept = s.proof[i];
        s.proof[i] = kept == '0' ? '1' : '0';
        assert_false(proves(s.proof, s.hash));
        s.proof[i] = kept;
    }
    assert_false(bw_death_is_proved(s.proof, BW_DEATH_PROOF_TEXT - 1, s.hash));
    assert_false(bw_death_is_proved(s.proof, 0, s.hash));
}

static void record_without_a_hash_is_never_proved(void **state)
{
    (void)state;
    struct sample s = sample_of(7, TOKEN);
    assert_false(proves(s.proof, ""));
    s.hash[BW_DEATH_PROOF_TEXT - 1] = '\0';
    assert_false(proves(s.proof, s.hash));
}

static void keys_of_an_election_escape_its_path(void **state)
{
    (void)state;
    static const char *const paths[][2] = {{"nightly", "/bellwether/nightly/"},
                                           {"jobs/nightly", "/bellwether/jobs%2Fnightly/"},
                                           {"a%2Fb", "/bellwether/a%252Fb/"},
                                           {"/%", "/bellwether/%2F%25/"},
                                           {"", "/bellwether//"}};
    for (unsigned i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char out[BW_ELECTION_KEYS_BYTES(16)];
        assert_int_equal(bw_election_keys(out, paths[i][0], strlen(paths[i][0])),
                         strlen(paths[i][1]));
        assert_string_equal(out, paths[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proof_and_hash_have_the_documented_form),
        cmocka_unit_test(proof_matches_its_own_hash),
        cmocka_unit_test(proof_of_another_token_does_not_match),
        cmocka_unit_test(proof_of_another_process_does_not_match),
        cmocka_unit_test(changed_proof_does_not_match),
        cmocka_unit_test(record_without_a_hash_is_never_proved),
        cmocka_unit_test(keys_of_an_election_escape_its_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
