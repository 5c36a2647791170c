/* A shard's supervisor: this very program again, with the same options, the shard's election and
 * BELLWETHER_SHARD and BELLWETHER_SHARDS in its environment, from where the work inherits them. Of
 * a peer BELLWETHER_PARENT says where to ask (store/parent/parent.h); the supervisor takes it away.
 * Everything it needs is made before the fork, because stores have threads. */
#include "run/shards/state.h"

#include "core/base/error.h"
#include "run/shards/told.h"
#include "run/shards/value.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define OWN_ARGUMENTS 8u /* program, run, election, id, --, and the end */
#define OWN_ENTRIES   4u

struct texts {
    char election[BW_ELECTION_NAME_MAX + 1], shard[40], shards[40], parent[40];
};

static char **make_arguments(const struct bw_shards_order *order, struct texts *texts)
{
    size_t used = 0, command = 0;
    while (order->argv[command])
        command++;
    char **out = calloc(OWN_ARGUMENTS + (size_t)order->options_count + command, sizeof *out);
    if (!out)
        return NULL;
    out[used++] = (char *)"bellwether";
    out[used++] = (char *)(order->told ? "peer" : "run");
    for (int i = 0; i < order->options_count; i++)
        out[used++] = order->options[i];
    if (!order->told) {
        out[used++] = (char *)"--election";
        out[used++] = texts->election;
        out[used++] = (char *)"--id";
        out[used++] = (char *)order->id;
    }
    out[used++] = (char *)"--";
    memcpy(out + used, order->argv, command * sizeof *out);
    return out;
}

static bool is_replaced(const char *entry)
{
    return strncmp(entry, "BELLWETHER_SHARD=", 17) == 0 ||
           strncmp(entry, "BELLWETHER_SHARDS=", 18) == 0;
}

static char **make_environment(struct texts *texts)
{
    size_t count = 0, used = 0;
    while (environ[count])
        count++;
    char **out = calloc(count + OWN_ENTRIES, sizeof *out);
    for (size_t i = 0; out && i < count; i++)
        if (!is_replaced(environ[i]))
            out[used++] = environ[i];
    if (out) {
        out[used++] = texts->shard;
        out[used++] = texts->shards;
        if (texts->parent[0])
            out[used++] = texts->parent;
    }
    return out;
}

/* In the child: told to end when we die; nobody's input, since they would share it. */
static _Noreturn void become(const struct launcher *l, pid_t parent, int socket, char **argv,
                             char **environment)
{
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* Without its peer a supervisor can tell nobody anything: its guardian does the rest. */
    prctl(PR_SET_PDEATHSIG, l->told ? SIGKILL : SIGTERM);
    if (getppid() != parent || input < 0 || (socket >= 0 && fcntl(socket, F_SETFD, 0) != 0))
        _exit(71);
    dup2(input, STDIN_FILENO);
    signal(SIGTERM, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, l->pipe_ignored ? SIG_IGN : SIG_DFL);
    sigprocmask(SIG_SETMASK, &l->mask, NULL);
    execve("/proc/self/exe", argv, environment);
    _exit(71);
}

int bw_launcher_spawn(struct launcher *l, uint32_t shard)
{
    struct texts texts = {.parent = ""};
    pid_t parent = getpid(), pid = -1;
    int socket = l->told ? bw_told_child(l->told, shard) : -1;
    if (l->told && socket < 0)
        return BW_ENOMEM;
    if (l->told)
        snprintf(texts.parent, sizeof texts.parent, "BELLWETHER_PARENT=%d:%d", socket,
                 bw_told_token(l->told));
    bw_shards_election(texts.election, l->order->election, shard);
    snprintf(texts.shard, sizeof texts.shard, "BELLWETHER_SHARD=%u", shard);
    snprintf(texts.shards, sizeof texts.shards, "BELLWETHER_SHARDS=%u", l->order->shards);
    char **argv = make_arguments(l->order, &texts), **environment = make_environment(&texts);
    if (argv && environment)
        pid = fork();
    if (pid == 0)
        become(l, parent, socket, argv, environment);
    free(argv);
    free(environment);
    if (socket >= 0)
        close(socket);
    if (pid < 0)
        return BW_ENOMEM;
    l->pids[shard] = pid;
    return 0;
}
