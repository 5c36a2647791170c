/* Entry of the suite, and new election names. */
#include "conformance/conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TESTS_MAX 128u
#define ENOUGH_NS (3 * (uint64_t)BW_SEC)

const char *conformance_url;

const char *conformance_election(void)
{
    static char names[16][64];
    static unsigned count;
    static uint64_t start;
    if (start == 0)
        start = uv_hrtime();
    char *name = names[count++ % 16];
    snprintf(name, sizeof names[0], "conformance-%llx-%d-%u", (unsigned long long)start,
             (int)getpid(), count);
    return name;
}

bool conformance_enough(unsigned done, unsigned most, uint64_t begun)
{
    const char *size = getenv("TEST_SIZE");
    bool large = size && strcmp(size, "large") == 0;
    return done >= most || (!large && done >= most / 10 && uv_hrtime() - begun > ENOUGH_NS);
}

static unsigned own_share, all_shares = 1;

void conformance_share(unsigned share, unsigned of)
{
    own_share = share;
    all_shares = of;
}

int conformance_main(int argc, char **argv, const char *url)
{
    if (argc == 6 && strcmp(argv[1], "--part") == 0)
        return helper_play(argv[2], argv[3], argv[4], argv[5]);
    conformance_url = url;
    const struct CMUnitTest *(*const parts[])(size_t * count) = {
        conformance_records, conformance_watches, conformance_processes};
    struct CMUnitTest tests[TESTS_MAX];
    size_t count = 0, number = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t more;
        const struct CMUnitTest *part = parts[i](&more);
        assert_true(count + more <= TESTS_MAX);
        for (size_t k = 0; k < more; k++, number++)
            if (number % all_shares == own_share)
                tests[count++] = part[k];
    }
    return _cmocka_run_group_tests("conformance", tests, count, NULL, NULL);
}
