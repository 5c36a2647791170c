/* Determines the store of `bellwether run` without ever showing a secret of its URL. */
#include "cli/run/run.h"

#include "os/secret_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns the password in "scheme://user:password@host" and its length, or NULL. */
static const char *find_secret(const char *url, size_t *length)
{
    const char *authority = url ? strstr(url, "://") : NULL;
    if (!authority)
        return NULL;
    authority += 3;
    size_t end = strcspn(authority, "/?#");
    const char *at = memrchr(authority, '@', end);
    const char *colon = at ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
    if (!colon)
        return NULL;
    *length = (size_t)(at - colon - 1);
    return colon + 1;
}

static void show(struct bw_job_options *options)
{
    size_t length = 0;
    const char *url = options->config.store, *secret = find_secret(url, &length);
    bool no_user = secret && secret[-2] == '/'; /* no user: then remove the '@' as well */
    if (secret)
        snprintf(options->store_shown, sizeof options->store_shown, "%.*s%s",
                 (int)(secret - url - 1), url, secret + length + no_user);
    else
        snprintf(options->store_shown, sizeof options->store_shown, "%s", url);
    options->config.store_shown = options->store_shown;
}

/* Returns whether --store-file takes precedence. The work of a run with --store-file inherits both
 * settings, the store without its secrets: then the file is meant. A different store given beside a
 * file is meant itself. */
static bool file_is_meant(const struct bw_job_options *options)
{
    struct bw_job_options file = *options;
    FILE *opened = options->store_file ? fopen(options->store_file, "re") : NULL;
    bool got = opened && fgets(file.store_text, sizeof file.store_text, opened);
    if (opened)
        fclose(opened);
    if (got) {
        file.store_text[strcspn(file.store_text, "\r\n")] = '\0';
        file.config.store = file.store_text;
        show(&file);
    }
    bool same = got && strcmp(file.store_shown, options->config.store) == 0;
    explicit_bzero(file.store_text, sizeof file.store_text);
    return same;
}

/* Makes the path absolute, because the work may use it from another directory. */
static void keep_path(struct bw_job_options *options)
{
    static char path[PATH_MAX];
    options->config.store_file = realpath(options->store_file, path);
}

static int read_file(const struct bw_cli_command *command, struct bw_job_options *options)
{
    struct stat st;
    FILE *file = fopen(options->store_file, "re");
    if (!file)
        return bw_usage_error(command, "cannot read --store-file %s: %s", options->store_file,
                              strerror(errno));
    bool stated = fstat(fileno(file), &st) == 0, exposed = stated && bw_secret_file_is_exposed(&st);
    bool got = fgets(options->store_text, sizeof options->store_text, file) != NULL;
    fclose(file);
    if (!got)
        return bw_usage_error(command, "invalid --store-file %s: expected a URL on the first line",
                              options->store_file);
    options->store_text[strcspn(options->store_text, "\r\n")] = '\0';
    options->config.store = options->store_text;
    keep_path(options);
    size_t length;
    if (exposed && find_secret(options->store_text, &length))
        return bw_usage_error(
            command,
            "--store-file %s contains a password, and other users have access (mode %04o): use "
            "chmod 600; the group may only read a file that belongs to root",
            options->store_file, (unsigned)st.st_mode & 07777);
    return BW_GO_ON;
}

/* A directory that this call creates has exactly this mode, whatever the umask: the units of other
 * users have their state and the drain directory below root's. */
static int make_one(const char *dir, mode_t mode)
{
    if (mkdir(dir, mode) != 0)
        return errno == EEXIST ? 0 : -1;
    return chmod(dir, mode);
}

/* Creates the directory and its missing parents. */
static int make_path(char *dir, mode_t mode)
{
    for (char *slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int made = make_one(dir, mode);
        *slash = '/';
        if (made != 0)
            return -1;
    }
    return make_one(dir, mode);
}

/* Chooses the default store: one for the host if run by root, else one for the user. The place is
 * durable, because tokens must survive a logout and a reboot. Other users never have write access
 * to it. */
static int default_place(const struct bw_cli_command *command, struct bw_job_options *options)
{
    char dir[BW_JOB_TEXT - 32];
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (geteuid() == 0)
        snprintf(dir, sizeof dir, "/var/lib/bellwether");
    else if (state && state[0] == '/')
        snprintf(dir, sizeof dir, "%s/bellwether", state);
    else if (home && home[0] == '/')
        snprintf(dir, sizeof dir, "%s/.local/state/bellwether", home);
    else
        return bw_usage_error(
            command, "cannot choose a default store: HOME is not set; use --store sqlite:PATH");
    if (make_path(dir, geteuid() == 0 ? 0755 : 0700) != 0)
        return bw_usage_error(command, "cannot create %s: %s; use --store sqlite:PATH", dir,
                              strerror(errno));
    snprintf(options->store_text, sizeof options->store_text, "sqlite:%s/elections.db", dir);
    options->config.store = options->store_text;
    return BW_GO_ON;
}

int bw_job_options_store(const struct bw_cli_command *command, struct bw_job_options *options)
{
    size_t length;
    int code = BW_GO_ON;
    char why[BW_WHY_MAX + 1];
    if (options->config.store && find_secret(options->config.store, &length)) {
        memset((char *)find_secret(options->config.store, &length), '*', length);
        return bw_usage_error(
            command,
            "--store: a password on the command line, in the environment or in a config file is "
            "visible to others; put the URL into a file of its own: --store-file FILE");
    }
    if (options->config.store && file_is_meant(options))
        options->config.store = NULL;
    if (!options->config.store)
        code = options->store_file ? read_file(command, options) : default_place(command, options);
    if (code != BW_GO_ON)
        return code;
    show(options);
    if (!bw_store_find(options->config.store, why))
        return bw_usage_error(command, "--store: %s", why);
    return BW_GO_ON;
}
