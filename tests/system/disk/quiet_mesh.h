/* Connections to nodes that the test plays: replaces src/serve/mesh/mesh.c. */
#ifndef BW_TESTS_SYSTEM_DISK_QUIET_MESH_H
#define BW_TESTS_SYSTEM_DISK_QUIET_MESH_H

#include "serve/mesh/mesh.h"

/* Called when the node sends a message of Raft. */
void mesh_on_message(void (*sent)(const struct bw_message *msg));
/* The node receives a frame from another one. */
void mesh_deliver(bw_node from, enum bw_mesh_frame kind, const unsigned char *bytes, size_t length);

#endif
