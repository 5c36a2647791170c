/* `bellwether --version`: lists the stores that this build can use, and what to install for the
 * others. */
#include "cli/version.h"

#include "store/store.h"

#include <stdio.h>
#include <string.h>

/* Several schemes may share one module. The module is listed once, under its first scheme, except
 * that the store of `bellwether serve` is listed by its own name. */
static bool listed_before(const struct bw_store_about *about)
{
    if (strcmp(about->scheme, "bellwether") == 0)
        return false;
    for (const struct bw_store_about *at = bw_store_known(); at != about; at++)
        if (at->module && about->module && strcmp(at->module, about->module) == 0)
            return true;
    return false;
}

static void print_hint(const struct bw_store_about *about, enum bw_store_presence presence)
{
    if (presence == BW_STORE_NOT_BUILT)
        printf("  %14s or build it with %s\n", "", about->builds_with);
    else if (presence == BW_STORE_NOT_LOADABLE)
        printf("  %14s install %s\n", "", about->runs_with);
    else
        printf("  %14s install bellwether and its store modules in the same version\n", "");
}

static void print_missing(void)
{
    char why[BW_WHY_MAX + 1];
    bool any = false;
    for (const struct bw_store_about *about = bw_store_known(); about->scheme; about++) {
        enum bw_store_presence presence =
            listed_before(about) ? BW_STORE_HERE : bw_store_presence(about, why);
        if (presence == BW_STORE_HERE)
            continue;
        printf("%s  %-14s %s\n", any ? "" : "missing:\n", about->scheme, why);
        print_hint(about, presence);
        any = true;
    }
}

void bw_version_print(void)
{
    char why[BW_WHY_MAX + 1];
    printf("bellwether %s\nstores:\n", BW_VERSION);
    for (const struct bw_store_about *about = bw_store_known(); about->scheme; about++)
        if (bw_store_presence(about, why) == BW_STORE_HERE)
            printf("  %-14s %s\n", about->scheme, about->form);
    print_missing();
}
