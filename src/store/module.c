/* Finds and loads store modules.
 *
 * Search order: $BELLWETHER_MODULES, if it is set; the build tree of the running program; the
 * installation directory. A loaded module stays loaded, because its threads and handles may outlive
 * the store that needed it. */
#include "store/module.h"

#include "module_directory.h" /* written by Meson: BW_MODULES */

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYMBOL     "bw_store_module"
#define PATH_BYTES (PATH_MAX + 64)

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

static void file_name(char *path, const char *directory, const char *name)
{
    snprintf(path, PATH_BYTES, "%s/bellwether-store-%s.so", directory, name);
}

/* Writes the directory of the running program, without a trailing slash. Returns false if it is
 * unknown. */
static bool program_directory(char *directory)
{
    ssize_t length = readlink("/proc/self/exe", directory, PATH_MAX - 1);
    if (length <= 0)
        return false;
    directory[length] = '\0';
    char *slash = strrchr(directory, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}

/* In a build tree, programs are in its root or one level below. */
static bool find_in_build_tree(char *path, const char *name)
{
    static const char *const below[] = {"src/store", "../src/store"};
    char program[PATH_MAX], directory[PATH_MAX];
    if (!program_directory(program))
        return false;
    for (unsigned i = 0; i < sizeof below / sizeof below[0]; i++) {
        int length = snprintf(directory, sizeof directory, "%s/%s", program, below[i]);
        if (length < 0 || (size_t)length >= sizeof directory)
            continue;
        file_name(path, directory, name);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

static void find_file(char *path, const char *name)
{
    const char *configured = secure_getenv("BELLWETHER_MODULES");
    if (configured)
        file_name(path, configured, name);
    else if (!find_in_build_tree(path, name))
        file_name(path, BW_MODULES, name);
}

static enum bw_store_presence load(const char *path, const char *name,
                                   const struct bw_store_module **out, char *why)
{
    if (access(path, R_OK) != 0) {
        bool own = strcmp(name, "peer") != 0; /* the module of peers comes with the command */
        bw_store_explain(why, 0,
                         "the store needs the package bellwether%s%s, which is not installed (no "
                         "file %s)",
                         own ? "-store-" : "", own ? name : "", path);
        return BW_STORE_NOT_BUILT;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct bw_store_module *module = handle ? dlsym(handle, SYMBOL) : NULL;
    if (!module) {
        bw_store_explain(why, 0, "cannot load the %s store: %s", name, dlerror());
        return BW_STORE_NOT_LOADABLE;
    }
    if (strcmp(module->version, BW_VERSION) != 0 ||
        module->request_bytes != sizeof(struct bw_store_request) ||
        module->reply_bytes != sizeof(struct bw_store_reply)) {
        bw_store_explain(why, 0, "cannot load %s: built for version %s, this program is version %s",
                         path, module->version, BW_VERSION);
        return BW_STORE_OTHER_VERSION;
    }
    *out = module;
    return BW_STORE_HERE;
}

enum bw_store_presence bw_store_module_load(const char *name, const struct bw_store_module **out,
                                            char *why)
{
    char path[PATH_BYTES];
    *out = NULL;
    find_file(path, name);
    pthread_mutex_lock(&loading);
    enum bw_store_presence presence = load(path, name, out, why);
    pthread_mutex_unlock(&loading);
    return presence;
}
