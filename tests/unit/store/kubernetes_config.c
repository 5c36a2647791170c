/* Kubeconfigs: to which servers a token may be sent. */
#include "store/kubernetes/settings.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Loads a kubeconfig with this server and, if it is not NULL, this token. */
static int load(const char *server, const char *token, char *why)
{
    char path[] = "/tmp/bellwether-kubeconfig-XXXXXX", text[300];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    dprintf(fd,
            "current-context: c\n"
            "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
            "clusters: [{name: c, cluster: {server: \"%s\"}}]\n"
            "users: [{name: u, user: {%s%s}}]\n",
            server, token ? "token: " : "", token ? token : "");
    close(fd);
    struct bw_url url;
    struct bw_kube_config config;
    snprintf(text, sizeof text, "kubernetes://n?kubeconfig=%s", path);
    assert_int_equal(bw_url_parse(&url, text, why), 0);
    int error = bw_kube_config_load(&config, &url, why);
    if (error == 0)
        bw_kube_config_clear(&config);
    unlink(path);
    return error;
}

static void token_is_sent_without_tls_only_to_loopback(void **state)
{
    (void)state;
    static const char *const good[] = {"http://127.0.0.1:8001", "http://localhost:8001",
                                       "http://[::1]:8001", "https://127.evil.com",
                                       "https://api.example.com:6443"};
    static const char *const bad[] = {
        "http://127.evil.com",      "http://localhost.evil.com", "http://127.0.0.1.evil.com",
        "http://[::1].evil.com",    "http://localhost:@evil",    "http://192.0.2.1",
        "http://127.evil.com:8001", "http://[::1]evil.com",      "http://localhostevil"};
    char why[BW_WHY_MAX + 1];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (load(good[i], "t-secret", why) != 0)
            fail_msg("%s was refused: %s", good[i], why);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (load(bad[i], "t-secret", why) != BW_EINVAL)
            fail_msg("a token would be sent to %s", bad[i]);
        assert_null(strstr(why, "t-secret"));
    }
    /* without a token there is no secret */
    assert_int_equal(load("http://127.evil.com", NULL, why), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_is_sent_without_tls_only_to_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
