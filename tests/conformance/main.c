/* Runs the conformance suite on the store of any URL: `store-conformance URL [I/N] [[-]PATTERN]`.
 * I/N: the I-th of N shares (from 0). PATTERN: only the tests that match; -PATTERN: all others. */
#include "conformance/conformance.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc == 6)
        return conformance_main(argc, argv, NULL);
    unsigned share, of;
    bool shared = argc > 2 && sscanf(argv[2], "%u/%u", &share, &of) == 2 && share < of;
    if (shared)
        conformance_share(share, of);
    const char *pattern = argc == 3 + shared ? argv[2 + shared] : NULL;
    if (argc != 2 + shared && !pattern) {
        fprintf(stderr, "usage: %s URL [I/N] [[-]PATTERN]\n", argv[0]);
        return 64;
    }
    if (pattern && pattern[0] == '-')
        cmocka_set_skip_filter(pattern + 1);
    else if (pattern)
        cmocka_set_test_filter(pattern);
    return conformance_main(1, argv, argv[1]);
}
