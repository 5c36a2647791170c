/* `bellwether peer status`: prints every peer's view of the election side by side. */
#include "cli/commands.h"
#include "cli/election/record_print.h"
#include "cli/peer/client.h"
#include "cli/peer/shards.h"
#include "core/base/parse_values.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct bw_option options[] = {BW_PEER_LOOK_ROWS, BW_PEER_SHARD_ROW, {.name = NULL}};

struct view {
    const struct bw_peer_member_view *member;
    struct bw_peer_election_view standing;
    bool answered, formed, differs;
};

struct views {
    struct view *at;
    uint32_t count;
    uint32_t elections; /* number of elections; more than one: shards */
    bool answered, led, differ, split;
};

/* Returns the view of the leader that most responding peers share; other views differ. */
static const struct view *majority_view(const struct views *views)
{
    const struct view *best = NULL;
    uint32_t most = 0;
    for (uint32_t i = 0; i < views->count; i++) {
        uint32_t same = 0;
        for (uint32_t j = 0; views->at[i].answered && j < views->count; j++)
            same += views->at[j].answered &&
                    views->at[j].standing.leader == views->at[i].standing.leader;
        if (same > most) {
            most = same;
            best = &views->at[i];
        }
    }
    return best;
}

static void compare(struct views *views)
{
    const struct view *best = majority_view(views);
    uint32_t leading = 0;
    for (uint32_t i = 0; best && i < views->count; i++) {
        struct view *view = &views->at[i];
        view->differs = view->answered && view->standing.leader != best->standing.leader;
        views->differ = views->differ || view->differs;
        leading += view->answered && view->standing.leading;
    }
    views->answered = best != NULL;
    views->led = best && best->standing.leader != 0;
    views->split = leading > 1;
}

static int ask(struct bw_peer_client *client, const struct bw_peer_answer *members, uint32_t shard,
               struct views *views)
{
    struct bw_peer_question_to *questions = calloc(members->count + 1, sizeof *questions);
    uint32_t *asked = calloc(members->count + 1, sizeof *asked), count = 0;
    views->at = calloc(members->count + 1, sizeof *views->at);
    for (uint32_t i = 0; questions && asked && views->at && i < members->count; i++) {
        views->at[i].member = &members->seen[i];
        questions[count].frame.kind = BW_PEER_QUERY;
        questions[count].frame.query.what = BW_PEER_ASK_ELECTIONS;
        questions[count].frame.query.first = shard;
        views->count++;
        if (!members->seen[i].row.left &&
            bw_peer_client_address(&members->seen[i].row, &questions[count].to))
            asked[count++] = i;
    }
    bw_peer_client_ask(client, questions, count, false);
    for (uint32_t k = 0; k < count; k++) {
        const struct bw_peer_view *reply = &questions[k].frame.view;
        struct view *view = &views->at[asked[k]];
        view->answered = questions[k].answered && questions[k].frame.kind == BW_PEER_VIEW &&
                         reply->what == BW_PEER_ASK_ELECTIONS;
        view->formed = view->answered && reply->formed;
        if (view->answered && reply->count > 0) /* empty before the cluster has formed */
            view->standing = reply->standing[0];
        if (view->answered && reply->total > views->elections)
            views->elections = reply->total;
    }
    free(questions);
    free(asked);
    compare(views);
    return 0;
}

static const char *name_of(const struct views *views, bw_node node, char *out)
{
    for (uint32_t i = 0; i < views->count; i++)
        if (views->at[i].member->row.id == node)
            return bw_shown(bw_peer_client_name(&views->at[i].member->row, out));
    snprintf(out, BW_PEER_NAME_MAX + 1, "%u", (unsigned)node);
    return node ? out : "none";
}

/* How long the leader may act without a renewal. An algorithm without a quorum sets no limit. A new
 * leader may not act before the promises to its predecessor have expired. */
static void show_left(char *out, uint64_t ms)
{
    if (ms >= (uint64_t)(BW_TIME_NEVER / BW_MS))
        snprintf(out, BW_SPAN_TEXT, "no limit");
    else if (ms == 0)
        snprintf(out, BW_SPAN_TEXT, "not now");
    else
        bw_span_round(out, (bw_time)ms * BW_MS);
}

static void print_text(const struct views *views)
{
    printf("  %-16s %-16s %-14s %12s %12s  %s\n", "PEER", "LEADER", "STATE", "TERM", "TOKEN",
           "MAY ACT FOR");
    for (uint32_t i = 0; i < views->count; i++) {
        const struct view *view = &views->at[i];
        char name[BW_PEER_NAME_MAX + 1], leader[BW_PEER_NAME_MAX + 1], left[BW_SPAN_TEXT] = "-";
        if (view->member->row.left)
            continue;
        bw_peer_client_name(&view->member->row, name);
        if (!view->answered) {
            printf("? %-16s no response\n", bw_shown(name));
            continue;
        }
        if (view->standing.leading)
            show_left(left, view->standing.left_ms);
        printf("%c %-16s %-16s %-14s %12" PRIu64 " %12" PRIu64 "  %s%s\n",
               view->differs ? '!' : ' ', bw_shown(name),
               name_of(views, view->standing.leader, leader), bw_shown(view->standing.state),
               view->standing.term, view->standing.token, left,
               view->formed ? "" : "  the cluster has not formed yet");
    }
    if (views->split)
        printf("two leaders at once\n");
    else if (views->differ)
        printf("the peers see different leaders\n");
    else if (views->answered && !views->led)
        printf("no leader\n");
}

static void print_json(const struct views *views)
{
    json_t *peers = json_array();
    for (uint32_t i = 0; i < views->count; i++) {
        const struct view *view = &views->at[i];
        char name[BW_PEER_NAME_MAX + 1];
        if (view->member->row.left)
            continue;
        json_t *peer = json_pack("{sI so sb}", "id", (json_int_t)view->member->row.id, "name",
                                 bw_json_text(bw_peer_client_name(&view->member->row, name)),
                                 "answered", view->answered);
        const struct bw_peer_election_view *s = &view->standing;
        if (view->answered)
            json_object_update_new(
                peer, json_pack("{sb sI sb ss sI sI sI sb}", "formed", view->formed, "leader",
                                (json_int_t)s->leader, "leading", s->leading, "state", s->state,
                                "term", (json_int_t)s->term, "token", (json_int_t)s->token,
                                "left_ms", s->leading ? (json_int_t)(s->left_ms & INT64_MAX) : 0,
                                "differs", view->differs));
        json_array_append_new(peers, peer);
    }
    bw_json_line(
        json_pack("{so sb sb}", "peers", peers, "differ", views->differ, "split", views->split));
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct bw_peer_look look = {.join = NULL};
    struct bw_parsed parsed;
    struct bw_peer_client *client = NULL;
    struct bw_peer_answer members = {.seen = NULL};
    struct views views = {.at = NULL};
    int code = bw_peer_client_open(&client, command, argc, argv, &look, &parsed);
    if (code != BW_GO_ON)
        return code;
    code = bw_peer_client_members(client, &members);
    bool one = look.shard != BW_PEER_SHARD_NONE;
    if (code == 0)
        code = ask(client, &members, one ? look.shard : 0, &views);
    if (code == 0 && views.elections > 1 && !one) {
        code = bw_peer_shards_show(client, &members, views.elections, look.json);
    } else if (code == 0) {
        (look.json ? print_json : print_text)(&views);
        code = !views.answered                             ? BW_PEER_EXIT_UNANSWERED
               : views.differ || views.split || !views.led ? BW_EXIT_FAILED
                                                           : BW_EXIT_OK;
    }
    free(views.at);
    free(members.seen);
    bw_peer_client_close(client);
    return code;
}

const struct bw_cli_command bw_command_peer_status = {
    .name = "status",
    .path = "bellwether peer status",
    .usage = "--join ADDR,... [options]",
    .about = "show every peer's view of the election side by side",
    .text =
        "'!' marks a view that differs from most others, '?' a peer that does not respond. For "
        "peers\n"
        "with --shards it shows the leader of each shard and the number of shards that each peer\n"
        "leads; --shard I shows all views of one shard.\n"
        "\n"
        "Exit code: 0 all responding peers see the same leader; 1 they do not, or there are no or "
        "two\n"
        "leaders; 64 invalid usage; 69 no peer responded.\n",
    .options = options,
    .run = run,
};
