/* The conformance suite on the store of any URL: `store-conformance URL [PATTERN]`; all but those
 * that a -PATTERN names. */
#include "conformance/conformance.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc == 6)
        return conformance_main(argc, argv, NULL);
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: %s URL [[-]PATTERN]\n", argv[0]);
        return 64;
    }
    if (argc == 3 && argv[2][0] == '-')
        cmocka_set_skip_filter(argv[2] + 1);
    else if (argc == 3)
        cmocka_set_test_filter(argv[2]);
    return conformance_main(1, argv, argv[1]);
}
