/* Starts the supervisor of a shard: this program again, with the same options, the shard's
 * election, and BELLWETHER_SHARD and BELLWETHER_SHARDS in its environment, which the work inherits.
 * For a peer, BELLWETHER_PARENT names the socket for requests (store/parent/parent.h); the
 * supervisor removes it from the environment. Everything the child needs is prepared before the
 * fork, because stores have threads. */
#include "run/shards/state.h"

#include "core/base/error.h"
#include "run/shards/peer_shards.h"
#include "run/shards/value.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define OWN_ARGUMENTS 8u /* program, run, election, id, --, and the final NULL */
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
    out[used++] = (char *)(order->is_peer ? "peer" : "run");
    for (int i = 0; i < order->options_count; i++)
        out[used++] = order->options[i];
    if (!order->is_peer) {
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

/* Runs in the child. It ends when the launcher dies. It gets no standard input, because the
 * children would share it. */
static _Noreturn void become(const struct launcher *l, pid_t parent, int socket, char **argv,
                             char **environment)
{
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* A supervisor without its peer cannot send requests; its guardian ends the work. */
    prctl(PR_SET_PDEATHSIG, l->peer_shards ? SIGKILL : SIGTERM);
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
    int socket = l->peer_shards ? bw_peer_shards_child(l->peer_shards, shard) : -1;
    if (l->peer_shards && socket < 0)
        return BW_ENOMEM;
    if (l->peer_shards)
        snprintf(texts.parent, sizeof texts.parent, "BELLWETHER_PARENT=%d:%d", socket,
                 bw_peer_shards_token(l->peer_shards));
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
