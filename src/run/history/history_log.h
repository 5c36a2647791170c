/* The local history of leaderships: a bounded log on this host, which `bellwether history` reads.
 *
 * Each `run` and `peer` appends a line when it learns that a leadership began or ended, of any
 * candidate. A line is an object as `observe --json` prints it:
 *
 *   {"time":"2026-11-16T10:15:40.330Z","event":"lost","election":"nightly","leader":"n1","token":1,
 *    "request":"5f1c","store":"etcd://e1,e2","reason":"resigned","seen_by":"n2"}
 *
 * `request` identifies a leadership where the store gives no token, or its tokens start over.
 * `store` is the URL without secrets, "peer:" for peers; older lines have none.
 * Several processes append to the same file; the reader merges what they saw.
 *
 * The directory has at most two files of BW_HISTORY_FILE_MAX bytes: BW_HISTORY_FILE, and
 * BW_HISTORY_OLD_FILE, which it becomes when it is full. A lock on the file orders its writers.
 *
 * A thread of its own writes, so that a slow disk never stops the caller's loop. Lines that do not
 * fit into its buffer are dropped, and so are lines that cannot be written: the history is for
 * people, and no decision depends on it. */
#ifndef BW_RUN_HISTORY_HISTORY_LOG_H
#define BW_RUN_HISTORY_HISTORY_LOG_H

#include "core/base/types.h"

#include <limits.h>
#include <stddef.h>

#define BW_HISTORY_FILE     "leaderships.jsonl"
#define BW_HISTORY_OLD_FILE "leaderships.1.jsonl"
#define BW_HISTORY_FILE_MAX 1048576L
#define BW_HISTORY_HOST_DIR "/var/lib/bellwether/history"

struct bw_history_log;

/* The directory if the user chose none: one for the host if run by root, else one for the user, ""
 * if the environment names none. Returns `out`. */
const char *bw_history_default_dir(char out[PATH_MAX]);

/* The URL of a store in the history. The path of a SQLite file is absolute: two relative paths may
 * mean two files. Returns `out`. */
#define BW_HISTORY_STORE (PATH_MAX + 1024u)
const char *bw_history_store(char out[BW_HISTORY_STORE], const char *url);

/* Copies the directory, and creates it with the first line. Returns NULL if memory is exhausted. */
struct bw_history_log *bw_history_log_new(const char *directory);
/* Appends a line, given without its newline. Returns at once. */
void bw_history_log_append(struct bw_history_log *log, const char *line);
/* Waits for the lines to be written, at most `limit_ns`. The log may be NULL. */
void bw_history_log_free(struct bw_history_log *log, bw_time limit_ns);

#endif
