/* SipHash-1-3 of the bytes 0, 1, 2, ... under the key of the paper's appendix A (bytes 0 to 15).
 * The values are those of OpenSSL 3: openssl mac -macopt c-rounds:1 -macopt d-rounds:3 SIPHASH. */
#include "unit/unit.h"

#include "core/hash/siphash.h"

static const struct bw_hash_key key = {{0x0706050403020100u, 0x0f0e0d0c0b0a0908u}};

static void hash_of_known_bytes_has_known_values(void **state)
{
    (void)state;
    static const struct {
        size_t length;
        uint64_t hash;
    } known[] = {{0, 0xabac0158050fc4dcu}, {1, 0xc9f49bf37d57ca93u},  {7, 0xd3927d989bb11140u},
                 {8, 0x369095118d299a8eu}, {15, 0xd320d86d2a519956u}, {63, 0x9d199062b7bbb3a8u}};
    unsigned char bytes[63];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_true(bw_siphash(&key, bytes, known[i].length) == known[i].hash);
}

static void number_has_the_hash_of_its_bytes(void **state)
{
    (void)state;
    assert_true(bw_siphash_number(&key, 0x0706050403020100u) == 0x369095118d299a8eu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_of_known_bytes_has_known_values),
        cmocka_unit_test(number_has_the_hash_of_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
