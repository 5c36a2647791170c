/* A coordinator: one of many equal instances is elected, hands out pieces of work to workers and
 * adds up their results.
 *
 *     coordinator STORE OUTPUT PIECES
 *
 * The work is to count the primes below PIECES x 1000; a piece is a range of 1000 numbers. The
 * workers are threads behind two pipes; they could also be processes or machines. The coordinator
 * checks bw_is_leader before it hands out each piece. It asks the guard before it publishes the
 * sum, because the leadership may be lost between the check and the write; only the token lets the
 * storage reject that write. */
#include <bellwether.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORKERS   4
#define IN_FLIGHT 16
#define PIECE     1000

struct pool {
    int jobs[2];    /* pipe to the workers: numbers of pieces, as int */
    int results[2]; /* pipe from the workers: prime counts of pieces, as int */
    pthread_t workers[WORKERS];
};

static int count_primes(int from, int to)
{
    int count = 0;
    for (int n = from < 2 ? 2 : from; n < to; n++) {
        int divisor = 2;
        while (divisor * divisor <= n && n % divisor != 0)
            divisor++;
        count += divisor * divisor > n;
    }
    return count;
}

static void *work(void *arg)
{
    const struct pool *pool = arg;
    int piece;
    while (read(pool->jobs[0], &piece, sizeof piece) == sizeof piece) {
        int count = count_primes(piece * PIECE, (piece + 1) * PIECE);
        if (write(pool->results[1], &count, sizeof count) != sizeof count)
            break;
    }
    return NULL;
}

static int pool_open(struct pool *pool)
{
    if (pipe(pool->jobs) != 0 || pipe(pool->results) != 0)
        return -1;
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&pool->workers[i], NULL, work, pool) != 0)
            return -1;
    return 0;
}

static void pool_close(struct pool *pool)
{
    close(pool->jobs[1]); /* the workers see end of file */
    for (int i = 0; i < WORKERS; i++)
        pthread_join(pool->workers[i], NULL);
    close(pool->jobs[0]);
    close(pool->results[0]);
    close(pool->results[1]);
}

/* Returns the sum over all pieces, or -1 if the leadership was lost; the next leader then starts
 * again. */
static int64_t coordinate(const struct bw_leadership *leadership, const struct pool *pool,
                          int pieces)
{
    int handed = 0, back = 0, count;
    int64_t sum = 0;
    while (back < pieces) {
        while (handed < pieces && handed - back < IN_FLIGHT) {
            if (!bw_is_leader(leadership))
                return -1;
            if (write(pool->jobs[1], &handed, sizeof handed) != sizeof handed)
                return -1;
            handed++;
        }
        if (read(pool->results[0], &count, sizeof count) != sizeof count)
            return -1;
        sum += count;
        back++;
    }
    return sum;
}

static int publish(const char *path, uint64_t token, int64_t sum)
{
    char why[BW_GUARD_WHY_MAX + 1];
    struct bw_guard *guard;
    int error = bw_guard_open(&guard, path, why);
    if (!error) {
        error = bw_guard_hold(guard, token, BW_FOREVER, NULL, why);
        FILE *out = error ? NULL : fopen(path, "w");
        if (out) {
            fprintf(out, "primes %" PRId64 " token %" PRIu64 "\n", sum, token);
            error = fclose(out) == 0 ? 0 : BW_EIO;
        }
        bw_guard_close(guard); /* releases the lock: the write has ended */
    }
    if (error)
        fprintf(stderr, "coordinator: cannot publish: %s\n", why);
    return error;
}

static int lead(struct bw_handle *handle, const char *output, int pieces)
{
    struct bw_leadership *leadership;
    int error = bw_campaign(handle, "coordinator", NULL, BW_FOREVER, &leadership);
    if (error) {
        fprintf(stderr, "coordinator: %s\n", bw_why());
        return error;
    }
    struct pool pool;
    error = pool_open(&pool) == 0 ? 0 : BW_ENOMEM;
    int64_t sum = error ? -1 : coordinate(leadership, &pool, pieces);
    if (!error)
        pool_close(&pool); /* release the leadership only after the work has ended */
    if (sum >= 0)
        error = publish(output, bw_token(leadership), sum);
    else if (!error)
        error = BW_ENOTLEADER;
    bw_resign(leadership);
    return error;
}

int main(int argc, char **argv)
{
    struct bw_handle *handle;
    if (argc != 4) {
        fprintf(stderr, "usage: coordinator STORE OUTPUT PIECES\n");
        return 64;
    }
    if (bw_open(argv[1], NULL, &handle) != 0) {
        fprintf(stderr, "coordinator: %s\n", bw_why());
        return 69;
    }
    int error;
    do
        error = lead(handle, argv[2], atoi(argv[3]));
    while (error == BW_ENOTLEADER);
    bw_close(handle);
    return error ? 1 : 0;
}
