/* `bellwether cluster`: lists and changes the members of a running service. */
#include "cli/cluster/cluster.h"

#include "cli/commands.h"
#include "cli/election/record_print.h"
#include "cli/serve/resolve_identity.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const struct bw_cli_command *const subs[] = {
    &bw_command_cluster_status,   &bw_command_cluster_add,
    &bw_command_cluster_remove,   &bw_command_cluster_promote,
    &bw_command_cluster_transfer, &bw_command_cluster_snapshot,
    &bw_command_cluster_restore,  NULL};

const struct bw_cli_command bw_command_cluster = {
    .name = "cluster",
    .path = "bellwether cluster",
    .usage = "COMMAND [options]",
    .about =
        "manage the nodes of `bellwether serve`: status, add, remove, transfer, snapshot, restore",
    .text =
        "MEMBER is a name or a number. Exit code: 0 done; 1 the cluster refused, or it is\n"
        "unhealthy; 64 invalid usage; 65 a file or directory is unusable; 69 no node responded,\n"
        "or there is no leader; 74 a file cannot be read or written.\n",
    .subs = subs,
    .run = bw_command_dispatch,
};

struct change {
    struct bw_cluster_options look;
    bool learner;
    const char *to;
};

static const struct bw_option options[] = {BW_CLUSTER_OPTIONS, {.name = NULL}};
static const struct bw_option add_options[] = {
    {.help = "the member"},
    {.name = "learner",
     .help = "keep the new node a learner until `bellwether cluster promote` (default: it becomes "
             "a voter when it has caught up)",
     .set = bw_set_switch,
     .offset = offsetof(struct change, learner)},
    BW_CLUSTER_OPTIONS,
    {.name = NULL}};

static const struct bw_option transfer_options[] = {
    {.help = "the new leader"},
    {.name = "to",
     .form = "NODE",
     .help = "name or number of the node that is to lead (required)",
     .set = bw_set_text,
     .offset = offsetof(struct change, to)},
    BW_CLUSTER_OPTIONS,
    {.name = NULL}};

const char *bw_cluster_url(const Api__Member *member)
{
    return member->n_clienturls ? member->clienturls[0] : "";
}

Api__MemberListResponse *bw_cluster_members_of(struct bw_cluster_client *client, int *code)
{
    Api__MemberListRequest request = API__MEMBER_LIST_REQUEST__INIT;
    ProtobufCMessage *answer =
        bw_cluster_ask(client, "/etcdserverpb.Cluster/MemberList", &request.base,
                       &api__member_list_response__descriptor);
    if (!answer)
        *code = bw_cluster_fail(client);
    return (Api__MemberListResponse *)answer;
}

/* Returns the id of the member with this name or number, or 0 after an error message. */
static uint64_t find_member(struct bw_cluster_client *client, const char *word, char *url,
                            size_t size, int *code)
{
    Api__MemberListResponse *list = bw_cluster_members_of(client, code);
    uint64_t id = 0;
    char *end;
    if (!list)
        return 0;
    uint64_t number = strtoull(word, &end, 10);
    for (size_t i = 0; i < list->n_members; i++) {
        const Api__Member *member = list->members[i];
        if (strcmp(member->name, word) == 0 || (!*end && member->id == number)) {
            id = member->id;
            snprintf(url, size, "%s", bw_cluster_url(member));
            break;
        }
    }
    if (!id) {
        fprintf(stderr, "%s: no member '%.60s'; the members are", client->command->path, word);
        for (size_t i = 0; i < list->n_members; i++)
            fprintf(stderr, "%s %s%s%" PRIu64 ")", i ? "," : "", list->members[i]->name,
                    list->members[i]->name[0] ? " (" : "(", list->members[i]->id);
        fputc('\n', stderr);
        *code = BW_EXIT_FAILED;
    }
    protobuf_c_message_free_unpacked(&list->base, NULL);
    return id;
}

/* Prints the result with the member's number. */
static int print_result(const struct bw_cluster_client *client, const char *what, uint64_t id)
{
    if (client->options->json)
        bw_json_line(json_pack("{s:s, s:I}", "done", what, "id", (json_int_t)id));
    else
        printf("member %" PRIu64 " %s\n", id, what);
    return BW_EXIT_OK;
}

static int ask_and_tell(struct bw_cluster_client *client, const char *path,
                        const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply,
                        const char *what, uint64_t id)
{
    ProtobufCMessage *answer = bw_cluster_ask(client, path, request, reply);
    if (!answer)
        return bw_cluster_fail(client);
    protobuf_c_message_free_unpacked(answer, NULL);
    return print_result(client, what, id);
}

static int change_member(struct bw_cluster_client *client, const char *word)
{
    char url[BW_REPLICA_CLIENT_MAX + 1];
    int code = BW_EXIT_FAILED;
    uint64_t id = find_member(client, word, url, sizeof url, &code);
    if (!id)
        return code;
    if (client->command == &bw_command_cluster_promote) {
        Api__MemberPromoteRequest promote = API__MEMBER_PROMOTE_REQUEST__INIT;
        promote.id = id;
        return ask_and_tell(client, "/etcdserverpb.Cluster/MemberPromote", &promote.base,
                            &api__member_promote_response__descriptor, "votes now", id);
    }
    Api__MemberRemoveRequest remove = API__MEMBER_REMOVE_REQUEST__INIT;
    remove.id = id;
    return ask_and_tell(client, "/etcdserverpb.Cluster/MemberRemove", &remove.base,
                        &api__member_remove_response__descriptor, "removed", id);
}

static int add_member(struct bw_cluster_client *client, const char *word)
{
    const struct change *change = (const struct change *)client->options;
    char host[BW_REPLICA_HOST_MAX + 1], url[BW_REPLICA_HOST_MAX + 32], *urls[] = {url};
    uint16_t port;
    if (bw_address_take(word, strlen(word), host, sizeof host, &port) != 0 || !port)
        return bw_usage_error(client->command, "invalid address '%.60s': expected HOST:PORT", word);
    snprintf(url, sizeof url, "http://%s:%u", host, port);
    Api__MemberAddRequest add = API__MEMBER_ADD_REQUEST__INIT;
    add.peerurls = urls;
    add.n_peerurls = 1;
    add.islearner = change->learner;
    ProtobufCMessage *answer = bw_cluster_ask(client, "/etcdserverpb.Cluster/MemberAdd", &add.base,
                                              &api__member_add_response__descriptor);
    if (!answer)
        return bw_cluster_fail(client);
    const Api__MemberAddResponse *added = (const Api__MemberAddResponse *)answer;
    print_result(client, "added", added->member ? added->member->id : 0);
    for (size_t i = 0; i < added->n_members && !client->options->json; i++)
        if (added->members[i]->name[0] && added->members[i]->n_peerurls) {
            const char *peer = strstr(added->members[i]->peerurls[0], "//");
            printf("start it: bellwether serve --node NAME --join %s --peer %s --listen HOST:PORT "
                   "--data DIR\n",
                   peer ? peer + 2 : "HOST:PORT", word);
            break;
        }
    protobuf_c_message_free_unpacked(answer, NULL);
    return BW_EXIT_OK;
}

/* Directs further requests to the leader: only the leader can transfer leadership. */
static bool turn_to_leader(struct bw_cluster_client *client, int *code)
{
    Api__StatusRequest request = API__STATUS_REQUEST__INIT;
    ProtobufCMessage *answer = bw_cluster_ask(client, "/etcdserverpb.Maintenance/Status",
                                              &request.base, &api__status_response__descriptor);
    if (!answer) {
        *code = bw_cluster_fail(client);
        return false;
    }
    uint64_t leader = ((const Api__StatusResponse *)answer)->leader;
    protobuf_c_message_free_unpacked(answer, NULL);
    Api__MemberListResponse *list = bw_cluster_members_of(client, code);
    bool turned = false;
    for (size_t i = 0; list && i < list->n_members && !turned; i++)
        turned = list->members[i]->id == leader &&
                 bw_cluster_turn_to(client, bw_cluster_url(list->members[i]));
    if (list)
        protobuf_c_message_free_unpacked(&list->base, NULL);
    if (list && !turned) {
        fprintf(stderr, "%s: cannot transfer leadership: no leader\n", client->command->path);
        *code = BW_EXIT_UNAVAILABLE;
    }
    return turned;
}

static int transfer_to(struct bw_cluster_client *client, const char *word)
{
    char url[BW_REPLICA_CLIENT_MAX + 1];
    int code = BW_EXIT_FAILED;
    uint64_t id = find_member(client, word, url, sizeof url, &code);
    if (!id || !turn_to_leader(client, &code))
        return code;
    Api__MoveLeaderRequest move = API__MOVE_LEADER_REQUEST__INIT;
    move.targetid = id;
    return ask_and_tell(client, "/etcdserverpb.Maintenance/MoveLeader", &move.base,
                        &api__move_leader_response__descriptor, "leads now", id);
}

/* Handles the commands with one operand and one request. */
static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct change change = {0};
    struct bw_parsed parsed;
    struct bw_cluster_client client;
    int code = bw_options_parse(command, argc, argv, &change, &parsed);
    if (code != BW_GO_ON)
        return code;
    bool transfers = command == &bw_command_cluster_transfer;
    if (transfers)
        code = bw_target_of(command, &parsed, "node", &change.to);
    else if (parsed.operands_count != 1)
        code = bw_usage_error(command, "usage: %s %s", command->path, command->usage);
    if (code != BW_GO_ON)
        return code;
    code = bw_cluster_open(&client, command, &change.look);
    if (code == BW_GO_ON && command == &bw_command_cluster_add)
        code = add_member(&client, parsed.operands[0]);
    else if (code == BW_GO_ON && transfers)
        code = transfer_to(&client, change.to);
    else if (code == BW_GO_ON)
        code = change_member(&client, parsed.operands[0]);
    bw_cluster_close(&client);
    return code;
}

const struct bw_cli_command bw_command_cluster_add = {
    .name = "add",
    .path = "bellwether cluster add",
    .usage = "HOST:PORT [options]",
    .about = "add a node; HOST:PORT is the address at which the other nodes reach it",
    .text = "The new node starts as a learner and becomes a voter when it has caught up, unless "
            "--learner\n"
            "is given. After this command start it on its machine, with an empty directory:\n"
            "  bellwether serve --node d --join 10.0.0.1:2380 --peer 10.0.0.4:2380 --listen ...\n"
            "One change at a time: the cluster refuses a second one until the first is complete.\n",
    .options = add_options,
    .operand = bw_any_word,
    .run = run,
};

const struct bw_cli_command bw_command_cluster_remove = {
    .name = "remove",
    .path = "bellwether cluster remove",
    .usage = "NAME|NUMBER [options]",
    .about = "remove a member permanently; if the node runs, it exits",
    .text =
        "The cluster refuses if too few reachable voters would remain for a quorum: remove a dead\n"
        "member before a live one. A removed member can come back only as a new member.\n",
    .options = options,
    .operand = bw_any_word,
    .run = run,
};

const struct bw_cli_command bw_command_cluster_promote = {
    .name = "promote",
    .path = "bellwether cluster promote",
    .usage = "NAME|NUMBER [options]",
    .about = "make a learner a voter; the cluster refuses until the learner has caught up",
    .options = options,
    .operand = bw_any_word,
    .run = run,
};

const struct bw_cli_command bw_command_cluster_transfer = {
    .name = "transfer",
    .path = "bellwether cluster transfer",
    .usage = "--to NODE [options]",
    .about =
        "transfer leadership of the service to another node (for elections: `bellwether transfer`)",
    .text = "`transfer NODE` is short for `transfer --to NODE`.\n",
    .options = transfer_options,
    .operand = bw_any_word,
    .run = run,
};
