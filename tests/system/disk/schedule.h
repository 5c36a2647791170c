/* Threads whose order the test decides: libuv's threads, locks and thread pool, as coroutines.
 *
 * The program under test calls uv_thread_create, uv_queue_work, uv_mutex_lock, uv_cond_wait and
 * read as usual; the functions of this file replace those of the libraries. Only one coroutine runs
 * at a time. At each lock, each wait and each call of schedule_point the schedule decides which one
 * continues. So a run depends only on its decisions, and all orders can be tried (CHESS, Musuvathi
 * and Qadeer, PLDI 2007: few preemptions find most errors). */
#ifndef BW_TESTS_SYSTEM_DISK_SCHEDULE_H
#define BW_TESTS_SYSTEM_DISK_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#define SCHEDULE_DECISIONS 4096u

/* One run of an exploration. The caller keeps it between runs, in memory that the run shares. */
struct schedule_path {
    uint16_t taken[SCHEDULE_DECISIONS], options[SCHEDULE_DECISIONS];
    uint32_t count; /* decisions of the last run */
    uint32_t preemptions_max;
};

/* Forgets all coroutines but the running one, which becomes the main one: the process was killed.
 * `seed`: decisions are random. */
void schedule_restart(uint64_t seed);
/* Decisions follow `path`, then take the first option, and are written to it. */
void schedule_follow(struct schedule_path *path);
/* Changes the path to the next one in depth-first order. Returns false after the last one. */
bool schedule_next(struct schedule_path *path);

/* Another coroutine may continue here. */
void schedule_point(void);
/* Main coroutine: lets the others run until one of them has finished work for `fd` or a completed
 * job of the pool exists. Returns false if no coroutine can run: the program is stuck. */
bool schedule_wait(int fd);
/* Main coroutine: lets the others run until all of them wait. */
void schedule_quiet(void);
/* Calls the callbacks of completed jobs of the pool, as the loop does. */
void schedule_complete(void);
/* Number of jobs of the pool that run or were not completed. */
unsigned schedule_jobs(void);

#endif
