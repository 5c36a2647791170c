/* Hashes and compares passwords on libuv's threads, because both are slow on purpose. The number of
 * concurrent jobs is bounded.
 *
 * A job belongs to its call. If the call goes while the job is on a thread, the job finishes and is
 * freed without a callback. */
#ifndef BW_SERVE_API_PASSWORD_H
#define BW_SERVE_API_PASSWORD_H

#include "serve/auth/users.h"
#include "serve/front/call.h"

#include <uv.h>

#define BW_PASSWORD_JOBS 16u /* concurrent jobs: each takes a thread and memory */

struct bw_passwords;

struct bw_password_job {
    uv_work_t work;
    struct bw_passwords *all;
    struct bw_call *call; /* NULL: the call is gone */
    struct bw_user user;  /* the user, with the secret to compare with or the new one */
    bool adds;            /* not used here: the caller stores its own data in it */
    bool hashes, working, good, done;
    void (*then)(struct bw_password_job *job, bool done);
    char password[BW_PASSWORD_MAX + 1];
};

/* Creates the queue of password jobs. NULL: out of memory. */
struct bw_passwords *bw_passwords_new(uv_loop_t *loop);
/* Closes the queue. Jobs that already run on a thread finish later, on the loop. */
void bw_passwords_close(struct bw_passwords *all);

/* Creates a job for a call. NULL: out of memory. An invalid name matches no user. */
struct bw_password_job *bw_password_job_new(struct bw_passwords *all, struct bw_call *call,
                                            const char *name);
/* Detaches the job from its call, which is gone. */
void bw_password_job_leave(struct bw_password_job *job);
/* A password that is too long matches no user. */
void bw_password_set(struct bw_password_job *job, const char *password);
/* Compare a password, or hash it into a new secret. Both call `then` later with the result, if the
 * call still exists. They return false if too many jobs are in progress. */
bool bw_password_compare(struct bw_password_job *job,
                         void (*then)(struct bw_password_job *job, bool right));
bool bw_password_hash(struct bw_password_job *job,
                      void (*then)(struct bw_password_job *job, bool done));

#endif
