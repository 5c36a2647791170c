/* The embedded store passes the conformance suite on a real file system. */
#include "conformance/conformance.h"
#include "system/kit/scratch.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    char dir[SCRATCH_MAX], url[SCRATCH_MAX + 32];
    if (argc > 1)
        return conformance_main(argc, argv, NULL);
    scratch_make(dir);
    snprintf(url, sizeof url, "sqlite:%s/elections.db", dir);
    int failed = conformance_main(argc, argv, url);
    scratch_remove(dir);
    return failed;
}
