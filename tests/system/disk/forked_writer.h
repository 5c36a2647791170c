/* A process that the program under test forks to write a file, on the recorded disk.
 *
 * The functions of this file replace fork, waitpid, close_range and fcntl. The forked process is a
 * real copy and computes what it writes. A coroutine of the first process carries out its file
 * operations and its crash points, one at a time, so the schedule decides how they interleave with
 * all others and the recorder sees them. A crash of the first process ends the copy. */
#ifndef BW_TESTS_SYSTEM_DISK_FORKED_WRITER_H
#define BW_TESTS_SYSTEM_DISK_FORKED_WRITER_H

#include <stdbool.h>
#include <stddef.h>

/* The program was restarted after a crash: the forked process is gone. */
void writer_forget(void);
/* In the forked process: reports a crash point. `bytes`: what a torn write has written, or NULL.
 * Returns false in the first process, and does nothing. */
bool writer_point(const char *name, int fd, const void *bytes, size_t length);

#endif
