/* Which addresses stay on this machine. */
#include "unit/unit.h"

#include "core/base/rng.h"
#include "net/loopback.h"

#include <stdio.h>

static void hosts_on_this_machine_are_loopback(void **state)
{
    (void)state;
    static const char *const hosts[] = {"localhost", "127.0.0.1", "127.0.0.2",      "127.9.8.7",
                                        "127.0.0.0", "::1",       "0:0:0:0:0:0:0:1"};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        if (!bw_net_host_is_loopback(hosts[i]))
            fail_msg("'%s' is loopback", hosts[i]);
}

static void other_hosts_are_not_loopback(void **state)
{
    (void)state;
    static const char *const hosts[] = {"",
                                        "127.example.com",
                                        "127.0.0.1.example.com",
                                        "localhost.example.com",
                                        "localhost.",
                                        "LOCALHOST",
                                        "localhost6",
                                        "127.1",
                                        "0x7f.0.0.1",
                                        "2130706433",
                                        "0.0.0.0",
                                        "::",
                                        "::ffff:127.0.0.1",
                                        "10.0.0.1",
                                        "128.0.0.1",
                                        "::1%lo",
                                        "::2",
                                        "[::1]",
                                        " 127.0.0.1",
                                        "127.0.0.1 "};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        if (bw_net_host_is_loopback(hosts[i]))
            fail_msg("'%s' is not loopback", hosts[i]);
}

static void a_port_or_a_path_changes_nothing(void **state)
{
    (void)state;
    static const char *const good[] = {"localhost",      "localhost:80",  "127.0.0.1:2379",
                                       "127.0.0.1/path", "127.0.0.1?a=b", "[::1]",
                                       "[::1]:99",       "[::1]/x",       "localhost#x"};
    static const char *const bad[] = {"",
                                      ":80",
                                      "127.evil.com",
                                      "127.evil.com:80",
                                      "localhost.evil.com/127.0.0.1",
                                      "127.0.0.1.evil.com",
                                      "127.0.0.1@evil.com",
                                      "127.0.0.1:80@evil.com",
                                      "127.0.0.1:80@evil.com/",
                                      "localhost:x",
                                      "[::1]:80@evil.com",
                                      "127.0.0.1\\@evil.com",
                                      "evil.com/127.0.0.1",
                                      "evil.com?127.0.0.1",
                                      "evil.com#localhost",
                                      "[::1",
                                      "[::1].evil.com",
                                      "[::1]evil.com",
                                      "[127.0.0.1]",
                                      "[localhost]",
                                      "::1",
                                      "::1:80"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!bw_net_address_is_loopback(good[i]))
            fail_msg("'%s' is loopback", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (bw_net_address_is_loopback(bad[i]))
            fail_msg("'%s' is not loopback", bad[i]);
}

/* Any text before, inside or after a loopback host makes it another host. */
static void a_changed_host_is_never_loopback(void **state)
{
    (void)state;
    static const char *const hosts[] = {"localhost", "127.0.0.1"};
    static const char letters[] = "abcxyz-_.%@\\~+ ";
    struct bw_rng rng;
    bw_rng_init(&rng, 1);
    for (unsigned i = 0; i < 100000; i++) {
        const char *host = hosts[bw_rng_below(&rng, 2)];
        char text[64] = "";
        size_t at = (size_t)bw_rng_below(&rng, strlen(host) + 1);
        size_t more = 1 + (size_t)bw_rng_below(&rng, 8);
        memcpy(text, host, at);
        for (size_t k = 0; k < more; k++)
            text[at + k] = letters[bw_rng_below(&rng, sizeof letters - 1)];
        snprintf(text + at + more, sizeof text - at - more, "%s", host + at);
        if (bw_net_host_is_loopback(text) || bw_net_address_is_loopback(text))
            fail_msg("'%s' is not loopback", text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_on_this_machine_are_loopback),
        cmocka_unit_test(other_hosts_are_not_loopback),
        cmocka_unit_test(a_port_or_a_path_changes_nothing),
        cmocka_unit_test(a_changed_host_is_never_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
