/* Which close of a connection ends the leases bound to it, and when: the rules alone. */
#include "serve/api/binding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define HALF    "66687aadf862bd776c8fc18b8e9f8e2"
#define HASH    HALF "0089714856ee233b3902a591d0d5f2925" /* SHA-256 of 32 zeros */
#define LONGER  "farewell=" HASH "0"
#define SHORTER "farewell=" HALF
#define NOT_HEX "farewell=x" HALF "089714856ee233b3902a591d0d5f2925"

static enum bw_bind read_text(const char *text)
{
    unsigned char hash[BW_BIND_PROOF];
    return bw_bind_read(text, strlen(text), hash);
}

static void the_metadata_says_connection_or_farewell_and_nothing_else(void **state)
{
    (void)state;
    assert_int_equal(read_text("connection"), BW_BIND_CONNECTION);
    assert_int_equal(read_text("farewell=" HASH), BW_BIND_FAREWELL);
    const char *others[] = {"",          "conn", "connections", "Connection", "farewell",
                            "farewell=", "1",    LONGER,        SHORTER,      NOT_HEX};
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(read_text(others[i]), BW_BIND_NOT);
}

static void only_the_proof_itself_is_a_farewell(void **state)
{
    (void)state;
    unsigned char last[BW_BIND_BYTES] = {0, 0, BW_BIND_PROOF, BW_BIND_FRAME};
    unsigned char hash[BW_BIND_PROOF];
    assert_int_equal(bw_bind_read("farewell=" HASH, strlen("farewell=" HASH), hash),
                     BW_BIND_FAREWELL);
    assert_true(bw_bind_is_proof(last, hash));
    for (unsigned i = 0; i < sizeof last; i++) {
        last[i] ^= 1;
        assert_false(bw_bind_is_proof(last, hash));
        last[i] ^= 1;
    }
    hash[0] ^= 1;
    assert_false(bw_bind_is_proof(last, hash));
}

static void the_hold_off_is_never_nothing(void **state)
{
    (void)state;
    assert_int_equal(bw_bind_hold_off(true, 0), 10 * BW_MS);
    assert_int_equal(bw_bind_hold_off(true, 5 * BW_SEC), 10 * BW_MS);
    assert_int_equal(bw_bind_hold_off(false, 3 * BW_SEC), 3 * BW_SEC);
    assert_int_equal(bw_bind_hold_off(false, 1), BW_BIND_LEAST_NS);
}

static void elsewhere_nothing_is_bound_unless_it_was_set(void **state)
{
    (void)state;
    assert_int_equal(bw_bind_hold_off(false, 0), 0);
}

static void only_a_close_from_the_clients_side_counts(void **state)
{
    (void)state;
    for (int hangup = BW_HANGUP_OURS; hangup <= BW_HANGUP_FAREWELL; hangup++)
        assert_false(bw_bind_ends(BW_BIND_NOT, (enum bw_hangup)hangup));
    assert_false(bw_bind_ends(BW_BIND_CONNECTION, BW_HANGUP_OURS));
    assert_true(bw_bind_ends(BW_BIND_CONNECTION, BW_HANGUP_CLIENTS));
    assert_true(bw_bind_ends(BW_BIND_CONNECTION, BW_HANGUP_FAREWELL));
}

static void whoever_promised_a_farewell_is_waited_for_without_it(void **state)
{
    (void)state;
    assert_false(bw_bind_ends(BW_BIND_FAREWELL, BW_HANGUP_OURS));
    assert_false(bw_bind_ends(BW_BIND_FAREWELL, BW_HANGUP_CLIENTS));
    assert_true(bw_bind_ends(BW_BIND_FAREWELL, BW_HANGUP_FAREWELL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_metadata_says_connection_or_farewell_and_nothing_else),
        cmocka_unit_test(only_the_proof_itself_is_a_farewell),
        cmocka_unit_test(the_hold_off_is_never_nothing),
        cmocka_unit_test(elsewhere_nothing_is_bound_unless_it_was_set),
        cmocka_unit_test(only_a_close_from_the_clients_side_counts),
        cmocka_unit_test(whoever_promised_a_farewell_is_waited_for_without_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
