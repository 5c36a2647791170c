/* Password jobs on threads; see password.h. */
#include "serve/auth/password.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

struct bw_passwords { /* outlives its service until the threads are done */
    uv_loop_t *loop;
    uint32_t working;
    bool closed;
};

struct bw_passwords *bw_passwords_new(uv_loop_t *loop)
{
    struct bw_passwords *all = calloc(1, sizeof *all);
    if (all)
        all->loop = loop;
    return all;
}

static void free_if_unused(struct bw_passwords *all)
{
    if (all->closed && all->working == 0)
        free(all);
}

void bw_passwords_close(struct bw_passwords *all)
{
    all->closed = true;
    free_if_unused(all);
}

static void job_free(struct bw_password_job *job)
{
    OPENSSL_cleanse(job, sizeof *job);
    free(job);
}

struct bw_password_job *bw_password_job_new(struct bw_passwords *all, struct bw_call *call,
                                            const char *name)
{
    struct bw_password_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->all = all;
    job->call = call;
    if (bw_user_name_is_good((struct bw_slice){(const unsigned char *)name, strlen(name)}))
        memcpy(job->user.name, name, strlen(name) + 1);
    return job;
}

void bw_password_job_leave(struct bw_password_job *job)
{
    if (job->working)
        job->call = NULL;
    else
        job_free(job);
}

void bw_password_set(struct bw_password_job *job, const char *password)
{
    job->good = strlen(password) <= BW_PASSWORD_MAX;
    if (job->good)
        memcpy(job->password, password, strlen(password) + 1);
}

static void on_work(uv_work_t *work)
{
    struct bw_password_job *job = (struct bw_password_job *)work;
    if (job->hashes)
        job->done = bw_user_hash(&job->user.secret, job->password);
    else
        job->done = bw_user_password_is(job->good ? &job->user.secret : NULL, job->password);
}

static void on_worked(uv_work_t *work, int status)
{
    struct bw_password_job *job = (struct bw_password_job *)work;
    struct bw_passwords *all = job->all;
    job->working = false;
    all->working--;
    OPENSSL_cleanse(job->password, sizeof job->password);
    if (job->call)
        job->then(job, job->done && status == 0); /* the call keeps the job */
    else
        job_free(job);
    free_if_unused(all);
}

static bool begin(struct bw_password_job *job, void (*then)(struct bw_password_job *job, bool done))
{
    struct bw_passwords *all = job->all;
    job->then = then;
    if (all->working == BW_PASSWORD_JOBS || all->closed ||
        uv_queue_work(all->loop, &job->work, on_work, on_worked) != 0)
        return false;
    job->working = true;
    all->working++;
    return true;
}

bool bw_password_compare(struct bw_password_job *job,
                         void (*then)(struct bw_password_job *job, bool right))
{
    job->hashes = false;
    return begin(job, then);
}

bool bw_password_hash(struct bw_password_job *job,
                      void (*then)(struct bw_password_job *job, bool done))
{
    job->hashes = true;
    return begin(job, then);
}
