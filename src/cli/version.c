/* `bellwether --version`: which stores can be used here, and what to install for the others. */
#include "cli/version.h"

#include "store/store.h"

#include <stdio.h>
#include <string.h>

/* Several schemes may stand on one module: it is told once, with the first of them. */
static bool told_before(const struct bw_store_about *about)
{
    for (const struct bw_store_about *at = bw_store_known(); at != about; at++)
        if (at->module && about->module && strcmp(at->module, about->module) == 0)
            return true;
    return false;
}

static void print_missing(void)
{
    char why[BW_WHY_MAX + 1];
    bool any = false;
    for (const struct bw_store_about *about = bw_store_known(); about->scheme; about++) {
        if (told_before(about) || bw_store_is_there(about, why))
            continue;
        printf("%s  %-14s %s\n  %14s build it with %s\n", any ? "" : "missing:\n", about->module,
               why, "", about->needs);
        any = true;
    }
}

void bw_version_print(void)
{
    char why[BW_WHY_MAX + 1];
    printf("bellwether %s\nstores:\n", BW_VERSION);
    for (const struct bw_store_about *about = bw_store_known(); about->scheme; about++)
        if (bw_store_is_there(about, why))
            printf("  %-14s %s\n", about->scheme, about->form);
    print_missing();
}
