/* See files.h. */
#include "cli/history/files.h"

#include "run/history/history_log.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <unistd.h>

/* Where the candidates of this host write without --history-dir: root, and the units of systemd. */
static const char *const host_dirs[] = {BW_HISTORY_HOST_DIR, "/var/lib/bellwether/run/history",
                                        "/var/lib/bellwether/peer/*/history"};

static int read_file(struct bw_past_lines *lines, const char *path, const char *election,
                     struct bw_past_files *files)
{
    int error = bw_past_read(lines, path, election);
    if (error == -ENOENT || error == -ENOTDIR)
        return 0;
    if (error == -EACCES) {
        snprintf(files->denied, sizeof files->denied, "%s", path);
        return 0;
    }
    if (error == 0)
        files->count++;
    else
        snprintf(files->failed, sizeof files->failed, "%s", path);
    return error;
}

static int read_directory(struct bw_past_lines *lines, const char *directory, const char *election,
                          struct bw_past_files *files)
{
    static const char *const names[] = {BW_HISTORY_OLD_FILE, BW_HISTORY_FILE};
    char path[PATH_MAX];
    int error = 0;
    for (int i = 0; i < 2 && error == 0; i++)
        if (snprintf(path, sizeof path, "%s/%s", directory, names[i]) < (int)sizeof path)
            error = read_file(lines, path, election, files);
    return error;
}

int bw_past_read_directory(struct bw_past_lines *lines, const char *directory, const char *election,
                           struct bw_past_files *files)
{
    char own[PATH_MAX];
    int error = 0;
    if (directory)
        return read_directory(lines, directory, election, files);
    for (unsigned i = 0; i < sizeof host_dirs / sizeof host_dirs[0]; i++) {
        glob_t found = {0};
        if (glob(host_dirs[i], GLOB_NOSORT, NULL, &found) == 0)
            for (size_t k = 0; k < found.gl_pathc && error == 0; k++)
                error = read_directory(lines, found.gl_pathv[k], election, files);
        globfree(&found);
    }
    bw_history_default_dir(own);
    if (error == 0 && own[0] && geteuid() != 0)
        error = read_directory(lines, own, election, files);
    return error;
}
