/* `bellwether cluster snapshot` writes all data of a cluster to a file. `bellwether cluster
 * restore` creates a new cluster from such a file when the old cluster is lost. */
#include "cli/cluster/cluster.h"

#include "cli/election/record_print.h"
#include "cli/serve/resolve_identity.h"
#include "core/base/error.h"
#include "serve/replica/snapshot_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- snapshot ---- */

static const struct bw_option save_options[] = {BW_CLUSTER_OPTIONS, {.name = NULL}};

struct saving {
    FILE *file;
    uint64_t bytes;
    bool failed;
};

static void on_piece(void *context, const ProtobufCMessage *message)
{
    struct saving *saving = context;
    const Api__SnapshotResponse *piece = (const Api__SnapshotResponse *)message;
    saving->failed |= fwrite(piece->blob.data, 1, piece->blob.len, saving->file) != piece->blob.len;
    saving->bytes += piece->blob.len;
}

static int refuse(const struct bw_cli_command *command, int code, const char *why)
{
    fprintf(stderr, "%s: %s\n", command->path, why);
    return code;
}

/* Renames the file to its final name, but only after it is complete, verified and on disk. */
static int keep(const struct bw_cluster_client *client, struct saving *saving, const char *part,
                const char *path)
{
    static struct bw_snapshot_head head;
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    if (saving->failed || fflush(saving->file) != 0 || fsync(fileno(saving->file)) != 0) {
        snprintf(why, sizeof why, "cannot write %.300s: %s", part, strerror(errno));
        return refuse(client->command, BW_EXIT_IO, why);
    }
    if (bw_snapshot_check(part, 0, &head, why) != 0)
        return refuse(client->command, BW_EXIT_DATA, why);
    if (rename(part, path) != 0) {
        snprintf(why, sizeof why, "cannot rename the snapshot to %.300s: %s", path,
                 strerror(errno));
        return refuse(client->command, BW_EXIT_IO, why);
    }
    if (client->options->json)
        bw_json_line(json_pack("{s:s, s:I, s:I, s:I}", "file", path, "bytes",
                               (json_int_t)saving->bytes, "index", (json_int_t)head.index,
                               "members", (json_int_t)head.members));
    else
        printf("%s: %" PRIu64 " bytes, up to index %" PRIu64 "\n", path, saving->bytes, head.index);
    return BW_EXIT_OK;
}

/* Creates a file that only its owner can read: it will contain every value and the users. */
static FILE *make_secret(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
    FILE *file = fd >= 0 && fchmod(fd, S_IRUSR | S_IWUSR) == 0 ? fdopen(fd, "w") : NULL;
    if (!file && fd >= 0)
        close(fd);
    return file;
}

static int save_to(struct bw_cluster_client *client, const char *path)
{
    char part[4200];
    Api__SnapshotRequest request = API__SNAPSHOT_REQUEST__INIT;
    snprintf(part, sizeof part, "%.4096s.part", path);
    struct saving saving = {.file = make_secret(part)};
    if (!saving.file) {
        fprintf(stderr, "%s: cannot create %s: %s\n", client->command->path, part, strerror(errno));
        return BW_EXIT_IO;
    }
    bool good = bw_cluster_stream(client, "/etcdserverpb.Maintenance/Snapshot", &request.base,
                                  &api__snapshot_response__descriptor, on_piece, &saving);
    int code = good ? keep(client, &saving, part, path) : bw_cluster_fail(client);
    fclose(saving.file);
    if (code != BW_EXIT_OK)
        unlink(part);
    return code;
}

static int run_save(const struct bw_cli_command *command, int argc, char **argv)
{
    struct bw_cluster_options look = {0};
    struct bw_parsed parsed;
    struct bw_cluster_client client;
    int code = bw_options_parse(command, argc, argv, &look, &parsed);
    if (code != BW_GO_ON)
        return code;
    if (parsed.operands_count != 1)
        return bw_usage_error(command, "usage: %s %s", command->path, command->usage);
    code = bw_cluster_open(&client, command, &look);
    if (code == BW_GO_ON)
        code = save_to(&client, parsed.operands[0]);
    bw_cluster_close(&client);
    return code;
}

/* ---- restore ---- */

struct restore {
    const char *node, *cluster, *data, *token;
    bool json;
};

static const struct bw_option restore_options[] = {
    {.help = "the new cluster"},
    {"node", "NAME", "name of the node that this directory is for (required)", .set = bw_set_text,
     .offset = offsetof(struct restore, node)},
    {"cluster", "LIST",
     "all nodes of the new cluster, the same list on each node: a=HOST:PORT,b=HOST:PORT,... "
     "(required)",
     .set = bw_set_text, .offset = offsetof(struct restore, cluster)},
    {"data", "DIR", "directory to create; it must be absent or empty (required)",
     .set = bw_set_text, .offset = offsetof(struct restore, data)},
    {"token", "TEXT",
     "any word, the same on all nodes; it distinguishes two clusters that are restored from one "
     "file (default: none)",
     .set = bw_set_text, .offset = offsetof(struct restore, token)},
    {"json", NULL, "print JSON (default: text)", .set = bw_set_switch,
     .offset = offsetof(struct restore, json)},
    {NULL, NULL, NULL, .set = NULL}};

static bool is_empty(const char *directory)
{
    DIR *dir = opendir(directory);
    const struct dirent *entry;
    bool empty = true;
    while (dir && (entry = readdir(dir)))
        empty &= strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (dir)
        closedir(dir);
    return empty;
}

/* Computes an id that differs from the old cluster's id, so that nodes of the old cluster that
 * still run are not accepted as members. */
static uint64_t number_cluster(const struct bw_snapshot_head *from,
                               const struct bw_member_list *members, const char *token)
{
    static unsigned char bytes[BW_MEMBER_LIST_BYTES_MAX];
    uint64_t id = XXH3_64bits_withSeed(bytes, bw_member_list_encode(members, bytes), from->cluster);
    id = XXH3_64bits_withSeed(&from->index, sizeof from->index, id);
    id = XXH3_64bits_withSeed(token ? token : "", token ? strlen(token) : 0, id);
    return id ? id : 1;
}

/* Writes the snapshot first: a directory without an identity belongs to no node, so an interrupted
 * restore cannot be started. */
static int make(const struct bw_cli_command *command, const struct restore *restore,
                const char *file, struct bw_identity *identity, struct bw_snapshot_head *head)
{
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    if (bw_directory_make(restore->data) != 0) {
        snprintf(why, sizeof why, "cannot create data directory %.300s: %s", restore->data,
                 strerror(errno));
        return refuse(command, BW_EXIT_IO, why);
    }
    int error = bw_snapshot_adopt(file, restore->data, head, why);
    if (error)
        return refuse(command, error == BW_EIO ? BW_EXIT_IO : BW_EXIT_DATA, why);
    if (bw_identity_make(identity, restore->data, why) != 0)
        return refuse(command, BW_EXIT_IO, why);
    if (restore->json)
        bw_json_line(json_pack("{s:s, s:s, s:I, s:I}", "data", restore->data, "node",
                               identity->name, "index", (json_int_t)head->index, "members",
                               (json_int_t)head->members));
    else
        printf("%s: node %s of %u, up to index %" PRIu64
               "; after all nodes are restored, start each: bellwether serve --node %s --data %s "
               "...\n",
               restore->data, identity->name, head->members, head->index, identity->name,
               restore->data);
    return BW_EXIT_OK;
}

static int restore_from(const struct bw_cli_command *command, const struct restore *restore,
                        const char *file)
{
    static struct bw_snapshot_head found, head;
    static struct bw_identity identity;
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    int code = bw_cluster_take(command, restore->cluster, &identity.first);
    if (code != BW_GO_ON)
        return code;
    identity.self = bw_cluster_named(&identity.first, restore->node);
    if (identity.self == BW_NODE_NONE)
        return bw_usage_error(command, "--node '%.60s' is not in --cluster", restore->node);
    if (bw_snapshot_check(file, 0, &found, why) != 0)
        return refuse(command, BW_EXIT_DATA, why);
    if (!is_empty(restore->data)) {
        snprintf(why, sizeof why,
                 "data directory %.300s is not empty and may contain newer data than the snapshot; "
                 "move it away first",
                 restore->data);
        return refuse(command, BW_EXIT_DATA, why);
    }
    snprintf(identity.name, sizeof identity.name, "%s", restore->node);
    identity.cluster = number_cluster(&found, &identity.first, restore->token);
    head = (struct bw_snapshot_head){.cluster = identity.cluster,
                                     .voters = identity.first.count,
                                     .members = identity.first.count,
                                     .member_list = identity.first};
    for (uint32_t i = 0; i < identity.first.count; i++)
        head.member[i] = identity.first.at[i].id;
    return make(command, restore, file, &identity, &head);
}

static int run_restore(const struct bw_cli_command *command, int argc, char **argv)
{
    struct restore restore = {0};
    struct bw_parsed parsed;
    int code = bw_options_parse(command, argc, argv, &restore, &parsed);
    if (code != BW_GO_ON)
        return code;
    if (parsed.operands_count != 1 || !restore.node || !restore.cluster || !restore.data)
        return bw_usage_error(command, "usage: %s %s", command->path, command->usage);
    return restore_from(command, &restore, parsed.operands[0]);
}

const struct bw_cli_command bw_command_cluster_snapshot = {
    .name = "snapshot",
    .path = "bellwether cluster snapshot",
    .usage = "FILE [options]",
    .about = "save all committed data to a file",
    .text =
        "The file has a checksum, which is verified before the file gets its final name. `etcdctl\n"
        "snapshot save` creates the same file. The snapshot contains leases; after a restore each\n"
        "lease lasts its full TTL again.\n",
    .options = save_options,
    .operand = bw_any_word,
    .run = run_save,
};

const struct bw_cli_command bw_command_cluster_restore = {
    .name = "restore",
    .path = "bellwether cluster restore",
    .usage = "FILE --node NAME --cluster LIST --data DIR [options]",
    .about = "create the data directory of a node of a new cluster from a snapshot",
    .text =
        "Use this when a majority of the nodes is lost for good. Run it on each machine, with the\n"
        "same FILE and LIST:\n"
        "  bellwether cluster restore backup --node a --data /var/lib/bellwether/serve/a \\\n"
        "      --cluster a=10.0.0.1:2380,b=10.0.0.2:2380,c=10.0.0.3:2380\n"
        "and then start the nodes. The result is a new cluster; it does not accept nodes of the "
        "old\n"
        "one that still run somewhere. All writes after the snapshot are lost: first stop "
        "everything\n"
        "that depends on them, and reject writes with older tokens.\n",
    .options = restore_options,
    .operand = bw_any_word,
    .run = run_restore,
};
