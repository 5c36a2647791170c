/* The conformance suite on the store of any URL: `store-conformance URL`. */
#include "conformance/conformance.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc == 6)
        return conformance_main(argc, argv, NULL);
    if (argc != 2) {
        fprintf(stderr, "usage: %s URL\n", argv[0]);
        return 64;
    }
    return conformance_main(1, argv, argv[1]);
}
