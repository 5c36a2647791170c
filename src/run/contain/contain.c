/* Common interface of the three kinds of containment: selects a kind, builds names, and checks the
 * place where a name is valid. The kinds are in cgroup.c, pidns.c and subreaper.c. */
#include "run/contain/contain.h"

#include "core/base/assert.h"
#include "os/clock.h"
#include "run/contain/proc.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const struct bw_contain_ops *const kinds[] = {
    [BW_CONTAIN_CGROUP] = &bw_contain_cgroup,
    [BW_CONTAIN_PIDNS] = &bw_contain_pidns,
    [BW_CONTAIN_SUBREAPER] = &bw_contain_subreaper,
};

#define KINDS (sizeof kinds / sizeof kinds[0])

static const struct bw_contain_ops *ops_of(const struct bw_contain *contain)
{
    BW_ASSERT(contain->kind > BW_CONTAIN_AUTO && contain->kind < KINDS);
    return kinds[contain->kind];
}

const char *bw_contain_word(unsigned i)
{
    if (i == 0)
        return "auto";
    return i < KINDS ? kinds[i]->word : NULL;
}

void bw_contain_label(char *out, size_t size, const char *election)
{
    size_t used = 0;
    for (; election[used] && used + 1 < size; used++) {
        unsigned char byte = (unsigned char)election[used];
        out[used] = isalnum(byte) || byte == '-' ? (char)byte : '_';
    }
    out[used] = '\0';
}

uint64_t bw_contain_random(void)
{
    uint64_t value = 0;
    if (getrandom(&value, sizeof value, GRND_NONBLOCK) != sizeof value)
        value = (uint64_t)bw_clock_boot() * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid();
    return value;
}

/* Format: "@BOOT-PIDNS-CGROUPNS": the first half of the boot id, and the inodes of the
 * namespaces. */
static void place(char *out, size_t size)
{
    char boot[40] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!read(fd, boot, sizeof boot - 1);
        close(fd);
    }
    snprintf(out, size, "@%.18s-%llu-%llu", boot[0] ? boot : "no-boot-id",
             (unsigned long long)bw_proc_namespace(0, "pid"),
             (unsigned long long)bw_proc_namespace(0, "cgroup"));
}

static int create(struct bw_contain *out, enum bw_contain_kind kind, const char *election,
                  char *why)
{
    char here[80];
    memset(out, 0, sizeof *out);
    out->kind = kind;
    out->command_fd = -1;
    int error = kinds[kind]->make(out, election, why);
    if (error)
        return error;
    place(here, sizeof here);
    size_t used = strlen(out->name);
    if (used + strlen(here) > BW_CONTAINMENT_MAX) {
        bw_contain_remove(out);
        return bw_store_explain(why, BW_ELIMIT, "the name of the containment is too long");
    }
    memcpy(out->name + used, here, strlen(here) + 1);
    return 0;
}

int bw_contain_make(struct bw_contain *out, enum bw_contain_kind kind, const char *election,
                    char *why)
{
    if (kind != BW_CONTAIN_AUTO)
        return create(out, kind, election, why);
    for (unsigned i = 1; i < KINDS; i++)
        if (create(out, (enum bw_contain_kind)i, election, why) == 0)
            return 0;
    return BW_EUNSUPPORTED;
}

enum bw_contain_found bw_contain_find(struct bw_contain *out, const char *name)
{
    char here[80], text[BW_CONTAINMENT_MAX + 1];
    const char *at = strrchr(name, '@'), *colon = strchr(name, ':');
    memset(out, 0, sizeof *out);
    out->command_fd = -1;
    if (!at || !colon || colon > at || strlen(name) > BW_CONTAINMENT_MAX)
        return BW_CONTAIN_INVALID;
    for (unsigned i = 1; i < KINDS; i++)
        if (strlen(kinds[i]->word) == (size_t)(colon - name) &&
            memcmp(kinds[i]->word, name, (size_t)(colon - name)) == 0)
            out->kind = (enum bw_contain_kind)i;
    if (out->kind == BW_CONTAIN_AUTO)
        return BW_CONTAIN_INVALID;
    place(here, sizeof here);
    if (strcmp(at, here) != 0)
        return BW_CONTAIN_ELSEWHERE;
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(text, sizeof text, "%.*s", (int)(at - colon - 1), colon + 1);
    return kinds[out->kind]->find(out, text);
}

pid_t bw_contain_fork(struct bw_contain *contain)
{
    contain->empty_scans = 0;
    return ops_of(contain)->fork(contain);
}

void bw_contain_signal(struct bw_contain *contain, int signal, pid_t not_group)
{
    ops_of(contain)->signal(contain, signal, not_group);
}

void bw_contain_kill(struct bw_contain *contain)
{
    ops_of(contain)->kill(contain);
}

void bw_contain_inherit(struct bw_contain *contain)
{
    contain->reaps = contain->kind == BW_CONTAIN_SUBREAPER;
}

void bw_contain_check(struct bw_contain *contain, struct bw_contain_left *out)
{
    *out = (struct bw_contain_left){.empty = false};
    ops_of(contain)->check(contain, out);
}

bool bw_contain_is_reusable(const struct bw_contain *contain)
{
    return contain->kind == BW_CONTAIN_SUBREAPER;
}

int bw_contain_events(const struct bw_contain *contain)
{
    char path[PATH_MAX + 16];
    if (contain->kind != BW_CONTAIN_CGROUP)
        return -1;
    snprintf(path, sizeof path, "%s/cgroup.events", contain->path);
    return open(path, O_RDONLY | O_CLOEXEC);
}

void bw_contain_remove(struct bw_contain *contain)
{
    ops_of(contain)->remove(contain);
}
