/* When the commands report a lost quorum, with names of one and of several addresses. Nothing
 * listens on the ports of the test. */
#include "cli/store/quorum.h"

#include "unit/unit.h"

#include <arpa/inet.h>
#include <netdb.h>

/* Replaces the resolver: "one" has one address, "two" has two, other names have none. */
static struct sockaddr_in address;
static struct addrinfo answers[2];

int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict out)
{
    (void)service;
    (void)hints;
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(1)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 2; i++)
        answers[i] = (struct addrinfo){.ai_family = AF_INET,
                                       .ai_addr = (struct sockaddr *)&address,
                                       .ai_addrlen = sizeof address};
    if (strcmp(name, "two") == 0)
        answers[0].ai_next = &answers[1];
    else if (strcmp(name, "one") != 0)
        return EAI_NONAME;
    *out = &answers[0];
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

static void node_with_several_addresses_may_answer(void **state)
{
    static const struct {
        const char *url, *line; /* NULL: not lost, as far as can be told */
    } cases[] = {{"etcd://one:1,one:1,one:1", "no quorum: 0 of 3 nodes answer"},
                 {"etcd://none:1,none:1,one:1", "no quorum: 0 of 3 nodes answer"},
                 {"etcd://two:1,one:1,one:1", "no quorum: 1 of 3 nodes answers"},
                 {"etcd://two:1,two:1,one:1", NULL},
                 {"zookeeper://one:1,two:1,two:1", NULL},
                 {"etcd://one:1,one:1", NULL},
                 {"postgres://one:1,one:1,one:1/x", NULL}};
    char line[BW_WHY_MAX + 1];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool lost = bw_quorum_is_lost(cases[i].url, line);
        if (lost != (cases[i].line != NULL) || (lost && strcmp(line, cases[i].line) != 0))
            fail_msg("%s: %s", cases[i].url, lost ? line : "not lost");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(node_with_several_addresses_may_answer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
