/* Connections that carry what the test sends; see quiet_mesh.h. */
#include "system/disk/quiet_mesh.h"

#include "core/base/codec.h"
#include "core/base/little.h"

#include <string.h>

struct bw_mesh {
    struct bw_mesh_options options;
};

static struct bw_mesh mesh;
static void (*on_message)(const struct bw_message *msg);

void mesh_on_message(void (*sent)(const struct bw_message *msg))
{
    on_message = sent;
}

void mesh_deliver(bw_node from, enum bw_mesh_frame kind, const unsigned char *bytes, size_t length)
{
    mesh.options.frame(mesh.options.context, from, kind, bytes, length);
}

int bw_mesh_open(struct bw_mesh **out, const struct bw_mesh_options *options, char *why)
{
    why[0] = '\0';
    mesh.options = *options;
    *out = &mesh;
    return 0;
}

void bw_mesh_close(struct bw_mesh *closed_mesh, void (*closed)(void *context))
{
    if (closed)
        closed(closed_mesh->options.context);
}

bool bw_mesh_send(struct bw_mesh *to_mesh, bw_node to, enum bw_mesh_frame kind,
                  enum bw_mesh_lane lane, const struct bw_part *parts, uint32_t count)
{
    static _Alignas(8) unsigned char list[BW_MESSAGE_DATA_MAX];
    struct bw_message msg;
    (void)to_mesh, (void)to, (void)lane;
    if (kind == BW_FRAME_RAFT && count >= 2 &&
        bw_message_decode(&msg, parts[1].at, parts[1].length, list, sizeof list) == 0)
        on_message(&msg);
    return true;
}

bool bw_mesh_connected(const struct bw_mesh *of, bw_node node)
{
    (void)of, (void)node;
    return true;
}

bool bw_mesh_receives_from(const struct bw_mesh *of, bw_node node)
{
    (void)of, (void)node;
    return true;
}

bool bw_mesh_knows(const struct bw_mesh *of, bw_node node)
{
    (void)of, (void)node;
    return true;
}

int bw_mesh_add(struct bw_mesh *to, const struct bw_replica_member *member)
{
    (void)to, (void)member;
    return 0;
}

void bw_mesh_move(struct bw_mesh *in, const struct bw_replica_member *member)
{
    (void)in, (void)member;
}

void bw_mesh_keep(struct bw_mesh *in, const bw_node *nodes, uint32_t count)
{
    (void)in, (void)nodes, (void)count;
}

void bw_mesh_level(struct bw_mesh *in, uint32_t level)
{
    (void)in, (void)level;
}

bool bw_mesh_is_behind(const struct bw_mesh *of)
{
    (void)of;
    return false;
}

void bw_mesh_traffic(const struct bw_mesh *of, bw_node node, uint64_t *sent, uint64_t *unsent)
{
    (void)of, (void)node;
    *sent = *unsent = 0;
}

bool bw_mesh_round_trip(const struct bw_mesh *of, bw_node node, bw_time *out)
{
    (void)of, (void)node;
    *out = 0;
    return false;
}

size_t bw_mesh_backlog(const struct bw_mesh *of, bw_node node)
{
    (void)of, (void)node;
    return 0;
}

void bw_mesh_disconnect_from(struct bw_mesh *in, bw_node node)
{
    (void)in, (void)node;
}
