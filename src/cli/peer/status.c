/* `bellwether peer status`: every peer's view of the election, side by side. */
#include "cli/commands.h"
#include "cli/look/record_print.h"
#include "cli/options/terminal.h"
#include "cli/peer/client.h"
#include "cli/peer/shards.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct bw_option options[] = {BW_PEER_LOOK_ROWS, BW_PEER_SHARD_ROW, {.name = NULL}};

struct view {
    const struct bw_peer_seen *member;
    struct bw_peer_standing standing;
    bool answered, formed, differs;
};

struct views {
    struct view *at;
    uint32_t count;
    uint32_t elections; /* that they have; with more than one they are shards */
    bool answered, led, differ, split;
};

/* Most of those who answered say this; the others differ. */
static const struct view *usual(const struct views *views)
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
    const struct view *best = usual(views);
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
        const struct bw_peer_view *said = &questions[k].frame.view;
        struct view *view = &views->at[asked[k]];
        view->answered = questions[k].answered && questions[k].frame.kind == BW_PEER_VIEW &&
                         said->what == BW_PEER_ASK_ELECTIONS;
        view->formed = view->answered && said->formed;
        if (view->answered && said->count > 0) /* none before there is a cluster */
            view->standing = said->standing[0];
        if (view->answered && said->total > views->elections)
            views->elections = said->total;
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
    return node ? out : "nobody";
}

static void print_text(const struct views *views)
{
    printf("  %-16s %-16s %-14s %12s %12s  %s\n", "PEER", "SEES LEADING", "STATE", "TERM", "TOKEN",
           "MAY ACT FOR");
    for (uint32_t i = 0; i < views->count; i++) {
        const struct view *view = &views->at[i];
        char name[BW_PEER_NAME_MAX + 1], leader[BW_PEER_NAME_MAX + 1], left[BW_TEXT_SPAN] = "";
        uint64_t ms = view->standing.left_ms;
        if (view->member->row.left)
            continue;
        bw_peer_client_name(&view->member->row, name);
        if (!view->answered) {
            printf("? %-16s does not answer\n", bw_shown(name));
            continue;
        }
        if (view->standing.leading)
            bw_term_span(left, ms >= (uint64_t)(BW_TIME_NEVER / BW_MS) ? BW_TIME_NEVER
                                                                       : (bw_time)ms * BW_MS);
        printf("%c %-16s %-16s %-14s %12" PRIu64 " %12" PRIu64 "  %s%s\n",
               view->differs ? '!' : ' ', bw_shown(name),
               name_of(views, view->standing.leader, leader), bw_shown(view->standing.state),
               view->standing.term, view->standing.token, left,
               view->formed ? "" : "not in a cluster yet");
    }
    if (views->split)
        printf("two lead at once\n");
    else if (views->differ)
        printf("not all see the same leader\n");
    else if (views->answered && !views->led)
        printf("nobody leads\n");
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
        const struct bw_peer_standing *s = &view->standing;
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
    .about = "every peer's view of the election, side by side",
    .text =
        "'!' marks a view that differs from most, '?' a peer that does not answer. Of peers with\n"
        "--shards: who leads each, and how many each leads; --shard I shows the views of one.\n"
        "\n"
        "Exit: 0 all who answer see the same leader; 1 they do not, nobody or two lead;\n"
        "64 wrong usage; 69 nobody answered.\n",
    .options = options,
    .run = run,
};
