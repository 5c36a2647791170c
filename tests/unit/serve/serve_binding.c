/* The rules that decide which close of a connection ends the leases bound to it, and when. */
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

static void bind_metadata_accepts_only_connection_and_farewell(void **state)
{
    (void)state;
    assert_int_equal(read_text("connection"), BW_BIND_CONNECTION);
    assert_int_equal(read_text("farewell=" HASH), BW_BIND_CLEAN_CLOSE);
    const char *others[] = {"",          "conn", "connections", "Connection", "farewell",
                            "farewell=", "1",    LONGER,        SHORTER,      NOT_HEX};
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(read_text(others[i]), BW_BIND_NOT);
}

static void close_is_clean_only_with_the_exact_proof(void **state)
{
    (void)state;
    unsigned char last[BW_BIND_BYTES] = {0, 0, BW_BIND_PROOF, BW_BIND_FRAME};
    unsigned char hash[BW_BIND_PROOF];
    assert_int_equal(bw_bind_read("farewell=" HASH, strlen("farewell=" HASH), hash),
                     BW_BIND_CLEAN_CLOSE);
    assert_true(bw_bind_is_proof(last, hash));
    for (unsigned i = 0; i < sizeof last; i++) {
        last[i] ^= 1;
        assert_false(bw_bind_is_proof(last, hash));
        last[i] ^= 1;
    }
    hash[0] ^= 1;
    assert_false(bw_bind_is_proof(last, hash));
}

static void hold_off_is_never_zero(void **state)
{
    (void)state;
    assert_int_equal(bw_bind_hold_off(true, 0), 10 * BW_MS);
    assert_int_equal(bw_bind_hold_off(true, 5 * BW_SEC), 10 * BW_MS);
    assert_int_equal(bw_bind_hold_off(false, 3 * BW_SEC), 3 * BW_SEC);
    assert_int_equal(bw_bind_hold_off(false, 1), BW_BIND_LEAST_NS);
}

static void remote_leases_are_not_bound_unless_configured(void **state)
{
    (void)state;
    assert_int_equal(bw_bind_hold_off(false, 0), 0);
}

static void lease_ends_only_when_its_client_closes(void **state)
{
    (void)state;
    for (int close_cause = BW_CLOSED_BY_US; close_cause <= BW_CLOSED_CLEANLY; close_cause++)
        assert_false(bw_bind_ends(BW_BIND_NOT, (enum bw_close_cause)close_cause));
    assert_false(bw_bind_ends(BW_BIND_CONNECTION, BW_CLOSED_BY_US));
    assert_true(bw_bind_ends(BW_BIND_CONNECTION, BW_CLOSED_BY_CLIENT));
    assert_true(bw_bind_ends(BW_BIND_CONNECTION, BW_CLOSED_CLEANLY));
}

static void clean_close_lease_stays_when_proof_is_missing(void **state)
{
    (void)state;
    assert_false(bw_bind_ends(BW_BIND_CLEAN_CLOSE, BW_CLOSED_BY_US));
    assert_false(bw_bind_ends(BW_BIND_CLEAN_CLOSE, BW_CLOSED_BY_CLIENT));
    assert_true(bw_bind_ends(BW_BIND_CLEAN_CLOSE, BW_CLOSED_CLEANLY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bind_metadata_accepts_only_connection_and_farewell),
        cmocka_unit_test(close_is_clean_only_with_the_exact_proof),
        cmocka_unit_test(hold_off_is_never_zero),
        cmocka_unit_test(remote_leases_are_not_bound_unless_configured),
        cmocka_unit_test(lease_ends_only_when_its_client_closes),
        cmocka_unit_test(clean_close_lease_stays_when_proof_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
