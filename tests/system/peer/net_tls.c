/* Streams inside mutual TLS: both sides present certificates of nodes, or there is no
 * connection. */
#include "system/kit/scratch.h"
#include "system/peer/net_host.h"

#include "net/tls/credentials.h"

#include <signal.h>

static uv_loop_t loop;
static struct bw_keyring *ring;
static char dir[SCRATCH_MAX];
static const char *const protocols[] = {"bellwether-peer", NULL};

/* Authorities "ca" and "other"; node certificates of both; one of a mere client; one for another
 * name. */
static const char *const recipe =
    "cd %s && exec >/dev/null 2>&1 && set -e\n"
    "for ca in ca other; do openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
    "-keyout $ca.key -out $ca.pem -subj /CN=$ca -days 2; done\n"
    "make() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $1.key "
    "-out $1.csr -subj /CN=$1; printf \"subjectAltName=$3\\nextendedKeyUsage=$4\\n\" >$1.ext; "
    "openssl x509 -req -in $1.csr -CA $2.pem -CAkey $2.key -CAcreateserial -out $1.pem -days 2 "
    "-extfile $1.ext; }\n"
    "make node ca IP:127.0.0.1 serverAuth,clientAuth\n"
    "make foreign other IP:127.0.0.1 serverAuth,clientAuth\n"
    "make client ca IP:127.0.0.1 clientAuth\n"
    "make elsewhere ca DNS:elsewhere.example serverAuth,clientAuth\n";

static int make_certificates(void **state)
{
    char command[2048 + SCRATCH_MAX];
    (void)state;
    scratch_make(dir);
    snprintf(command, sizeof command, recipe, dir);
    return system(command);
}

static int remove_certificates(void **state)
{
    (void)state;
    scratch_remove(dir);
    return 0;
}

static void ignore_line(void *context, enum bw_priority priority, const char *line)
{
    (void)priority;
    (void)context, (void)line;
}

struct side {
    struct host host;
    struct bw_credentials *credentials;
    char ca[SCRATCH_MAX + 32], cert[SCRATCH_MAX + 32], key[SCRATCH_MAX + 32];
};

static void side_open(struct side *side, bw_node id, const char *name, const char *ca)
{
    char why[BW_TLS_WHY_MAX + 1] = "";
    snprintf(side->ca, sizeof side->ca, "%s/%s.pem", dir, ca);
    snprintf(side->cert, sizeof side->cert, "%s/%s.pem", dir, name);
    snprintf(side->key, sizeof side->key, "%s/%s.key", dir, name);
    const struct bw_credentials_options options = {.loop = &loop,
                                                   .files = {.ca_file = side->ca,
                                                             .cert_file = side->cert,
                                                             .key_file = side->key,
                                                             .protocols = protocols},
                                                   .whose = "node",
                                                   .dials = true,
                                                   .say = ignore_line};
    if (bw_credentials_open(&side->credentials, &options, why) != 0)
        fail_msg("%s", why);
    host_open_with(&side->host, &loop, id, ring, side->credentials);
}

static void side_close(struct side *side)
{
    host_close(&side->host, &loop);
    bw_credentials_close(side->credentials);
}

static int start(void **state)
{
    (void)state;
    ring = bw_keyring_public();
    return uv_loop_init(&loop);
}

static int stop(void **state)
{
    (void)state;
    int busy = UV_EBUSY;
    bw_keyring_free(ring);
    for (unsigned i = 0; i < 1000 && (busy = uv_loop_close(&loop)) != 0; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    return busy;
}

static void nodes_with_certificates_exchange_frames_and_close_cleanly(void **state)
{
    (void)state;
    static unsigned char big[BW_SEAL_PAYLOAD_MAX];
    struct side one, two;
    side_open(&one, 1, "node", "ca");
    side_open(&two, 2, "node", "ca");
    two.host.echo = true;
    const struct sockaddr *at = (struct sockaddr *)&two.host.at;
    assert_int_equal(bw_stream_keep(one.host.stream, 2, at, NULL), 0);
    await(&loop, &one.host.up, 1);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(bw_stream_send(one.host.stream, 2, at, 1, big, sizeof big), 0);
    await(&loop, &one.host.frames, 3);
    assert_int_equal(one.host.length, sizeof big);
    side_close(&two);
    while (bw_stream_connected(one.host.stream, 2))
        uv_run(&loop, UV_RUN_ONCE);
    /* the connection was closed cleanly, so it is not reported as lost */
    assert_int_equal(one.host.down, 0);
    side_close(&one);
}

/* Node 1, with this certificate and these authorities, dials a valid node 2. */
static void assert_refused(const char *name, const char *ca)
{
    struct side one, two;
    struct bw_stream_counts counts = {0};
    side_open(&one, 1, name, ca);
    side_open(&two, 2, "node", "ca");
    bw_stream_keep(one.host.stream, 2, (struct sockaddr *)&two.host.at, NULL);
    while (counts.dialled < 4) { /* retried again and again */
        uv_run(&loop, UV_RUN_ONCE);
        bw_stream_counts(one.host.stream, &counts);
    }
    assert_int_equal(one.host.up + two.host.up, 0);
    assert_int_equal(one.host.down + two.host.down, 0);
    side_close(&one);
    side_close(&two);
}

static void node_with_certificate_of_another_authority_is_refused(void **state)
{
    (void)state;
    assert_refused("foreign", "ca");
}

static void node_that_trusts_another_authority_refuses(void **state)
{
    (void)state;
    assert_refused("node", "other");
}

static void client_certificate_is_refused_for_a_node(void **state)
{
    (void)state;
    assert_refused("client", "ca");
}

static void certificate_of_another_host_is_refused(void **state)
{
    (void)state;
    struct side one, two;
    struct bw_stream_counts counts = {0};
    side_open(&one, 1, "node", "ca");
    side_open(&two, 2, "elsewhere", "ca");
    const struct sockaddr *at = (struct sockaddr *)&two.host.at;
    bw_stream_keep(one.host.stream, 2, at, NULL);
    while (counts.dialled < 4) {
        uv_run(&loop, UV_RUN_ONCE);
        bw_stream_counts(one.host.stream, &counts);
    }
    assert_int_equal(one.host.up + two.host.up, 0);
    bw_stream_keep(one.host.stream, 2, at, "elsewhere.example");
    await(&loop, &one.host.up, 1);
    side_close(&one);
    side_close(&two);
}

static void frames_without_tls_are_refused(void **state)
{
    (void)state;
    struct host one;
    struct side two;
    struct bw_stream_counts counts = {0};
    host_open(&one, &loop, 1, ring);
    side_open(&two, 2, "node", "ca");
    bw_stream_keep(one.stream, 2, (struct sockaddr *)&two.host.at, NULL);
    while (counts.refused < 3) {
        uv_run(&loop, UV_RUN_ONCE);
        bw_stream_counts(two.host.stream, &counts);
    }
    assert_int_equal(one.up + two.host.up, 0);
    host_close(&one, &loop);
    side_close(&two);
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        STORY(nodes_with_certificates_exchange_frames_and_close_cleanly),
        STORY(node_with_certificate_of_another_authority_is_refused),
        STORY(node_that_trusts_another_authority_refuses),
        STORY(client_certificate_is_refused_for_a_node),
        STORY(certificate_of_another_host_is_refused),
        STORY(frames_without_tls_are_refused),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
