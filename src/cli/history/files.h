/* Finds the local histories of a host (run/history/history_log.h), and reads them. */
#ifndef BW_CLI_HISTORY_FILES_H
#define BW_CLI_HISTORY_FILES_H

#include "cli/history/past.h"

#include <limits.h>

struct bw_past_files {
    unsigned count;        /* that were read */
    char denied[PATH_MAX]; /* a file that exists, but may not be read; "": none */
    char failed[PATH_MAX]; /* the file to which a returned error belongs */
};

/* Adds the lines of a directory; NULL: those of this host and of this user. A file that is missing,
 * or that may not be read, is no error. Returns 0 or a negative errno, as bw_past_read does. */
int bw_past_read_directory(struct bw_past_lines *lines, const char *directory, const char *election,
                           struct bw_past_files *files);

#endif
