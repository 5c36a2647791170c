/* A coordinator: of many equal instances one is elected, hands pieces of work to workers and
 * aggregates what they bring back.
 *
 *     coordinator STORE OUTPUT PIECES
 *
 * The work here is to count the primes below PIECES x 1000; a piece is a range of 1000 numbers. The
 * workers are threads behind two pipes; they could as well be processes or machines. The
 * coordinator looks at bw_is_leader before each piece it hands out, and asks the guard before it
 * publishes the sum: between the look and the write the leadership may be lost, and only the token
 * tells the storage. */
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
    int jobs[2], results[2]; /* pipes of int: a piece's number, a count */
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
    close(pool->jobs[1]); /* the workers read to the end */
    for (int i = 0; i < WORKERS; i++)
        pthread_join(pool->workers[i], NULL);
    close(pool->jobs[0]);
    close(pool->results[0]);
    close(pool->results[1]);
}

/* The sum over all pieces, or -1: the leadership was lost on the way, another one begins anew. */
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
        error = bw_guard_check(guard, token, NULL, why);
        FILE *out = error ? NULL : fopen(path, "w");
        if (out) {
            fprintf(out, "primes %" PRId64 " token %" PRIu64 "\n", sum, token);
            error = fclose(out) == 0 ? 0 : BW_EIO;
        }
        bw_guard_close(guard);
    }
    if (error)
        fprintf(stderr, "coordinator: not published: %s\n", why);
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
        pool_close(&pool); /* the work has ended: only now may the leadership go */
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
