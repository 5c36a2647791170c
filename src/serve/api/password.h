/* Work with passwords, which is slow on purpose, on libuv's threads: a bounded number at one time.
 *
 * A job belongs to a call while the call is there. One that is on a thread when its call leaves
 * ends there and tells nobody. */
#ifndef BW_SERVE_PASSWORD_H
#define BW_SERVE_PASSWORD_H

#include "serve/api/users.h"
#include "serve/front/call.h"

#include <uv.h>

#define BW_PASSWORD_JOBS                                                                           \
    16u /* on threads at one time: each takes memory and a thread for a while */

struct bw_passwords;

struct bw_password_job {
    uv_work_t work;
    struct bw_passwords *all;
    struct bw_call *call; /* NULL: it has left */
    struct bw_user user;  /* whom it is about; the secret to compare with, or the one made */
    bool adds;            /* the caller's own */
    bool hashes, working, good, done;
    void (*then)(struct bw_password_job *job, bool done);
    char password[BW_PASSWORD_MAX + 1];
};

/* NULL: no memory. */
struct bw_passwords *bw_passwords_new(uv_loop_t *loop);
/* What is on a thread may end later, on the loop. */
void bw_passwords_close(struct bw_passwords *all);

/* NULL: no memory. A name that cannot be one is nobody's. */
struct bw_password_job *bw_password_job_new(struct bw_passwords *all, struct bw_call *call,
                                            const char *name);
/* Its call leaves. */
void bw_password_job_leave(struct bw_password_job *job);
/* One that is too long is nobody's. */
void bw_password_set(struct bw_password_job *job, const char *password);
/* `then`, later, if the call is still there: it is the user's; there is a new secret. False: too
 * many are under way. */
bool bw_password_compare(struct bw_password_job *job,
                         void (*then)(struct bw_password_job *job, bool right));
bool bw_password_hash(struct bw_password_job *job,
                      void (*then)(struct bw_password_job *job, bool done));

#endif
