/* Elections that this process holds or watches, by name, and the locks it holds.
 *
 * A lock is taken inside the transaction that makes this process the holder. It becomes the entry's
 * own when the transaction commits. If it is unknown whether the commit happened, the lock is kept,
 * because the commit may have happened. */
#include "store/sqlite/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_BUCKETS 16u

static uint64_t hash(const char *name)
{
    uint64_t value = 0xcbf29ce484222325u; /* FNV-1a */
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        value = (value ^ *at) * 0x100000001b3u;
    return value ^ (value >> 32);
}

static struct bw_sqlite_entry **bucket(const struct bw_sqlite_worker *worker, const char *name)
{
    return &worker->buckets[hash(name) & (worker->bucket_count - 1)];
}

struct bw_sqlite_entry *bw_sqlite_entry_find(struct bw_sqlite_worker *worker, const char *name)
{
    if (worker->bucket_count == 0)
        return NULL;
    struct bw_sqlite_entry *entry = *bucket(worker, name);
    while (entry && strcmp(entry->name, name) != 0)
        entry = entry->chain;
    return entry;
}

/* Doubles the number of buckets. If memory is exhausted, the chains get longer instead. */
static bool grow(struct bw_sqlite_worker *worker)
{
    uint32_t old_count = worker->bucket_count;
    uint32_t count = old_count ? old_count * 2 : FIRST_BUCKETS;
    struct bw_sqlite_entry **old = worker->buckets;
    struct bw_sqlite_entry **buckets = calloc(count, sizeof(struct bw_sqlite_entry *));
    if (!buckets)
        return old_count > 0;
    worker->buckets = buckets;
    worker->bucket_count = count;
    for (uint32_t i = 0; i < old_count; i++)
        while (old[i]) {
            struct bw_sqlite_entry *entry = old[i];
            old[i] = entry->chain;
            struct bw_sqlite_entry **to = bucket(worker, entry->name);
            entry->chain = *to;
            *to = entry;
        }
    free(old);
    return true;
}

struct bw_sqlite_entry *bw_sqlite_entry_get(struct bw_sqlite_worker *worker, const char *name)
{
    struct bw_sqlite_entry *entry = bw_sqlite_entry_find(worker, name);
    if (entry || !(entry = calloc(1, sizeof *entry)))
        return entry;
    entry->fd = entry->fresh_fd = -1;
    strncpy(entry->name, name, BW_ELECTION_NAME_MAX);
    uv_mutex_lock(&worker->mutex);
    bool space = worker->entry_count < worker->bucket_count || grow(worker);
    if (space) {
        struct bw_sqlite_entry **to = bucket(worker, name);
        entry->chain = *to;
        *to = entry;
        worker->entry_count++;
    }
    uv_mutex_unlock(&worker->mutex);
    if (!space) {
        free(entry);
        entry = NULL;
    }
    return entry;
}

void bw_sqlite_entry_tidy(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry)
{
    if (entry->fd >= 0 || entry->touched || entry->watches || entry->death_version != 0 ||
        entry->claimed != BW_TOKEN_NONE)
        return;
    uv_mutex_lock(&worker->mutex);
    struct bw_sqlite_entry **at = bucket(worker, entry->name);
    while (*at != entry)
        at = &(*at)->chain;
    *at = entry->chain;
    worker->entry_count--;
    uv_mutex_unlock(&worker->mutex);
    free(entry);
}

void bw_sqlite_entry_touch(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry)
{
    if (entry->touched)
        return;
    entry->touched = true;
    entry->next_touched = worker->touched;
    worker->touched = entry;
}

int bw_sqlite_entry_lock(struct bw_sqlite_worker *worker, const char *name,
                         struct bw_sqlite_row *row)
{
    char file[BW_SQLITE_FILE_MAX + 1];
    struct stat st;
    struct bw_sqlite_entry *entry = bw_sqlite_entry_get(worker, name);
    if (!entry)
        return ENOMEM;
    bw_sqlite_entry_touch(worker, entry);
    bw_sqlite_file_name(name, file);
    int fd = bw_sqlite_side_open(&worker->paths, file);
    if (fd < 0)
        return errno;
    if (bw_sqlite_lock_take(fd, row->record.token) != 0 || fstat(fd, &st) != 0) {
        int error = errno;
        close(fd);
        return error;
    }
    if (entry->fresh_fd >= 0) { /* acquired, released and acquired again in one transaction */
        close(entry->fresh_fd);
        bw_sqlite_claim_drop(&worker->claims);
    }
    entry->fresh_fd = fd;
    entry->fresh_token = row->record.token;
    entry->death_version = 0;
    row->lock_dev = st.st_dev;
    row->lock_ino = st.st_ino;
    return 0;
}

static void unclaim(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry)
{
    if (entry->claimed == BW_TOKEN_NONE)
        return;
    bw_sqlite_claim_drop(&worker->claims);
    entry->claimed = BW_TOKEN_NONE;
    entry->uncertain = false;
}

void bw_sqlite_entry_unclaim(struct bw_sqlite_worker *worker, const char *name, bw_token token)
{
    struct bw_sqlite_entry *entry = bw_sqlite_entry_find(worker, name);
    if (!entry || entry->claimed != token)
        return;
    unclaim(worker, entry);
    bw_sqlite_entry_tidy(worker, entry);
}

/* Resolves an uncertain commit: if the row has a lower token, the commit did not happen and the
 * claim is dropped. */
static void resolve(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry,
                    const struct bw_sqlite_row *row)
{
    if (entry->uncertain && row->record.token < entry->claimed)
        unclaim(worker, entry);
    entry->uncertain = false;
}

void bw_sqlite_entry_outdated(struct bw_sqlite_worker *worker, const char *name,
                              const struct bw_sqlite_row *row)
{
    struct bw_sqlite_entry *entry = bw_sqlite_entry_find(worker, name);
    if (entry && entry->fresh_fd < 0)
        resolve(worker, entry, row);
    if (!entry || entry->fd < 0 || (row->record.held && row->record.token == entry->token))
        return;
    bw_sqlite_entry_touch(worker, entry);
    entry->drop = true;
}

static void set_lock(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry, int fd,
                     bw_token token)
{
    uv_mutex_lock(&worker->mutex);
    int old = entry->fd;
    entry->fd = fd;
    entry->token = token;
    uv_mutex_unlock(&worker->mutex);
    if (old >= 0)
        close(old);
}

static void settle(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry,
                   enum bw_sqlite_end end)
{
    bool forget = end == BW_SQLITE_ROLLED_BACK;
    if (entry->fresh_fd >= 0 && forget) {
        close(entry->fresh_fd);
        bw_sqlite_claim_drop(&worker->claims);
    } else if (entry->fresh_fd >= 0) {
        unclaim(worker, entry); /* an earlier leadership of this process that was never released */
        entry->claimed = entry->fresh_token;
        entry->uncertain = end == BW_SQLITE_UNCERTAIN;
        if (end == BW_SQLITE_COMMITTED) /* keep the token in a second place too, after the commit */
            bw_sqlite_mark_write(entry->fresh_fd,
                                 &(struct bw_sqlite_mark){.token = entry->fresh_token});
        set_lock(worker, entry, entry->fresh_fd, entry->fresh_token);
    } else if (entry->drop && end == BW_SQLITE_COMMITTED) {
        set_lock(worker, entry, -1, 0);
    }
    entry->fresh_fd = -1;
    entry->drop = false;
}

void bw_sqlite_entries_settle(struct bw_sqlite_worker *worker, enum bw_sqlite_end end)
{
    while (worker->touched) {
        struct bw_sqlite_entry *entry = worker->touched;
        worker->touched = entry->next_touched;
        entry->touched = false;
        settle(worker, entry, end);
        bw_sqlite_entry_tidy(worker, entry);
    }
}

int bw_sqlite_entry_fd(struct bw_sqlite_worker *worker, const char *name)
{
    uv_mutex_lock(&worker->mutex);
    struct bw_sqlite_entry *entry = bw_sqlite_entry_find(worker, name);
    int fd = entry ? entry->fd : -1;
    uv_mutex_unlock(&worker->mutex);
    return fd;
}
