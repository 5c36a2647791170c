/* Kills a node at a selected crash point (os/crash.h): linked into a copy of the program that
 * has them compiled in.
 *
 *   BW_CRASH_AT=NAME      the point
 *   BW_CRASH_PASS=N       pass it so many times first (default 0)
 *
 * The node dies by SIGKILL. A forked snapshot writer kills the node with itself. */
#include "os/crash.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HALF_OF 512u /* a write is cut at a multiple of a sector */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long passed;
static pid_t node;

__attribute__((constructor)) static void remember_node(void)
{
    node = getpid();
}

static bool is_chosen(const char *name)
{
    const char *at = getenv("BW_CRASH_AT"), *pass = getenv("BW_CRASH_PASS");
    return at && strcmp(at, name) == 0 && passed++ >= (pass ? strtoul(pass, NULL, 10) : 0);
}

static void die(void)
{
    if (getpid() != node)
        kill(node, SIGKILL);
    for (;;)
        kill(getpid(), SIGKILL);
}

void bw_crash_point(const char *name)
{
    pthread_mutex_lock(&mutex);
    if (is_chosen(name))
        die();
    pthread_mutex_unlock(&mutex);
}

void bw_crash_step(const char *file, const char *step)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", file ? file : "", step);
    if (file)
        bw_crash_point(name);
}

static void put(int fd, const char *bytes, size_t length, long long at)
{
    fcntl(fd, F_SETFL, 0); /* O_DIRECT would refuse a part of a block */
    ssize_t wrote = at < 0 ? write(fd, bytes, length) : pwrite(fd, bytes, length, at);
    (void)wrote; /* the result does not matter: the write is torn in any case */
}

/* Where to cut a write of `length` bytes at `at`: at a sector boundary; 0: there is none inside. */
static size_t cut_of(size_t length, long long at)
{
    size_t place = at < 0 ? 0 : (size_t)at;
    size_t cut = (place + length / 2) / HALF_OF * HALF_OF;
    return cut > place && cut < place + length ? cut - place : 0;
}

void bw_crash_torn(const char *name, int fd, const void *bytes, size_t length, long long at)
{
    size_t cut = cut_of(length, at);
    pthread_mutex_lock(&mutex);
    if (cut && is_chosen(name)) {
        put(fd, bytes, cut, at);
        die();
    }
    pthread_mutex_unlock(&mutex);
}

void bw_crash_hole(const char *name, int fd, const void *bytes, size_t length, long long at)
{
    size_t cut = cut_of(length, at);
    pthread_mutex_lock(&mutex);
    if (cut && is_chosen(name)) {
        put(fd, (const char *)bytes + cut, length - cut, at + (long long)cut);
        die();
    }
    pthread_mutex_unlock(&mutex);
}
