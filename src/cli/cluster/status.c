/* `bellwether cluster status`: queries every member directly. */
#include "cli/cluster/cluster.h"

#include "cli/election/record_print.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

static const struct bw_option options[] = {BW_CLUSTER_OPTIONS, {.name = NULL}};

struct seen { /* the state of one member */
    const Api__Member *member;
    Api__StatusResponse *status; /* NULL: the member did not respond */
    char why[BW_GRPC_WHY_MAX + 1];
};

static const char *role_of(const struct seen *seen)
{
    if (seen->member->islearner)
        return "learner";
    if (!seen->status)
        return "unknown";
    return seen->status->leader == seen->member->id ? "leader" : "follower";
}

/* Queries one member. `here`: the client is connected to it. Returns false if it responded but
 * refused the request. */
static bool look(struct bw_cluster_client *client, struct seen *seen, bool here)
{
    Api__StatusRequest request = API__STATUS_REQUEST__INIT;
    const char *url = bw_cluster_url(seen->member);
    if (!here && (!url[0] || !bw_cluster_turn_to(client, url))) {
        snprintf(seen->why, sizeof seen->why, "not started yet");
        return true;
    }
    seen->status =
        (Api__StatusResponse *)bw_cluster_ask(client, "/etcdserverpb.Maintenance/Status",
                                              &request.base, &api__status_response__descriptor);
    if (!seen->status)
        snprintf(seen->why, sizeof seen->why, "%s",
                 client->result.why[0] ? client->result.why : "no response");
    return seen->status || !bw_cluster_refused(client);
}

static void print_text(const struct seen *seen)
{
    const Api__Member *member = seen->member;
    const char *peer = member->n_peerurls ? member->peerurls[0] : "", *port = strrchr(peer, ':');
    if (!peer[0] || (port && strcmp(port, ":0") == 0)) /* a single node has no peer address */
        peer = "-";
    printf("%-4" PRIu64 " %-12s %-8s %-28s ", member->id,
           member->name[0] ? bw_shown(member->name) : "-", role_of(seen), bw_shown(peer));
    if (seen->status)
        printf("term %" PRIu64 "  index %" PRIu64 "  applied %" PRIu64 "  %.1f MB\n",
               seen->status->raftterm, seen->status->raftindex, seen->status->raftappliedindex,
               (double)seen->status->dbsize / 1e6);
    else
        printf("%s\n", bw_shown(seen->why));
}

static json_t *to_json(const struct seen *seen)
{
    const Api__Member *member = seen->member;
    json_t *value = json_pack("{s:I, s:s, s:s, s:s, s:s, s:b}", "id", (json_int_t)member->id,
                              "name", member->name, "role", role_of(seen), "peer",
                              member->n_peerurls ? member->peerurls[0] : "", "client",
                              bw_cluster_url(member), "reachable", seen->status != NULL);
    if (!seen->status)
        json_object_set_new(value, "why", json_string(seen->why));
    else
        json_object_update_new(value, json_pack("{s:I, s:I, s:I, s:I}", "term",
                                                (json_int_t)seen->status->raftterm, "index",
                                                (json_int_t)seen->status->raftindex, "applied",
                                                (json_int_t)seen->status->raftappliedindex, "bytes",
                                                (json_int_t)seen->status->dbsize));
    return value;
}

/* Whether too few voters respond for a quorum. */
static bool lacks_quorum(const struct seen *seen, size_t count, unsigned *answer, unsigned *voters)
{
    *answer = *voters = 0;
    for (size_t i = 0; i < count; i++) {
        *voters += !seen[i].member->islearner;
        *answer += !seen[i].member->islearner && seen[i].status;
    }
    return *answer < *voters / 2 + 1;
}

static void show(const struct bw_cluster_client *client, uint64_t cluster, const struct seen *seen,
                 size_t count, bool well)
{
    unsigned answer, voters;
    bool lacks = lacks_quorum(seen, count, &answer, &voters);
    if (!client->options->json) {
        char why[64] = "";
        if (lacks)
            snprintf(why, sizeof why, ", no quorum: %u of %u answer", answer, voters);
        printf("cluster %" PRIx64 ": %s%s\n", cluster,
               well ? "healthy, all members respond" : "unhealthy", why);
        for (size_t i = 0; i < count; i++)
            print_text(&seen[i]);
        return;
    }
    json_t *members = json_array();
    char number[24];
    snprintf(number, sizeof number, "%" PRIx64, cluster);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(members, to_json(&seen[i]));
    bw_json_line(json_pack("{s:s, s:b, s:b, s:o}", "cluster", number, "well", well, "quorum",
                           !lacks, "members", members));
}

static int show_all(struct bw_cluster_client *client, const Api__MemberListResponse *list)
{
    static struct seen seen[BW_GRPC_ENDPOINTS_MAX * 2];
    size_t count = list->n_members < 32 ? list->n_members : 32;
    bool well = true, led = false, refused = false;
    for (size_t i = 0; i < count; i++) {
        seen[i] = (struct seen){.member = list->members[i]};
        /* A node that has just started has not published its address yet, but it has answered. */
        if (!bw_cluster_url(list->members[i])[0] && list->header &&
            list->members[i]->id == list->header->member_id)
            refused |= !look(client, &seen[i], true);
    }
    for (size_t i = 0; i < count && !refused; i++) {
        if (!seen[i].status)
            refused = !look(client, &seen[i], false);
        well &= seen[i].status && seen[i].status->leader != 0;
        led |= seen[i].status && seen[i].status->leader != 0;
    }
    int code = refused ? bw_cluster_fail(client)
               : !led  ? BW_EXIT_UNAVAILABLE
               : well  ? BW_EXIT_OK
                       : BW_EXIT_FAILED;
    if (!refused)
        show(client, list->header ? list->header->cluster_id : 0, seen, count, well);
    for (size_t i = 0; i < count; i++)
        if (seen[i].status)
            protobuf_c_message_free_unpacked(&seen[i].status->base, NULL);
    return code;
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct bw_cluster_options look_at = {0};
    struct bw_parsed parsed;
    struct bw_cluster_client client;
    int code = bw_options_parse(command, argc, argv, &look_at, &parsed);
    if (code != BW_GO_ON)
        return code;
    code = bw_cluster_open(&client, command, &look_at);
    Api__MemberListResponse *list = code == BW_GO_ON ? bw_cluster_members_of(&client, &code) : NULL;
    if (list) {
        code = show_all(&client, list);
        protobuf_c_message_free_unpacked(&list->base, NULL);
    }
    bw_cluster_close(&client);
    return code;
}

const struct bw_cli_command bw_command_cluster_status = {
    .name = "status",
    .path = "bellwether cluster status",
    .usage = "[options]",
    .about = "show the members, the leader, and how far each member has applied the log",
    .text =
        "Queries every member directly at the address that it gives to clients. Exit code: 0 all\n"
        "members respond and know a leader; 1 some do not, or they refuse this user; 69 no member\n"
        "responds or there is no leader.\n",
    .options = options,
    .run = run,
};
