/* Combines the views of all peers on the shards; see shards.h. */
#include "cli/peer/shards.h"

#include "cli/election/record_print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct shard {
    bw_node leader; /* NONE: no peer knows a leader */
    bw_term term;
    bw_token token;
    uint32_t leading; /* number of peers that claim to lead it */
    bool works;       /* the leader runs the shard's work, or the shard's work is done */
    bool differ;
};

struct table {
    struct shard *at;
    uint32_t count;
};

/* Adds one peer's view. A peer that leads is authoritative; otherwise the newest term wins. */
static void put(struct shard *shard, const struct bw_peer_election_view *view)
{
    bool known = shard->leader != BW_NODE_NONE;
    if (view->leader == BW_NODE_NONE)
        shard->differ = shard->differ || known;
    else if (known && shard->leader != view->leader)
        shard->differ = true;
    shard->leading += view->leading;
    shard->works = shard->works ||
                   (view->leading && (view->busy || strcmp(view->state, BW_PEER_STATE_DONE) == 0));
    if (view->leader == BW_NODE_NONE || (known && !view->leading && view->term <= shard->term))
        return;
    shard->leader = view->leader;
    shard->term = view->term;
    shard->token = view->token;
}

static uint32_t put_part(struct table *table, const struct bw_peer_view *view, uint32_t first)
{
    uint32_t count = view->what == BW_PEER_ASK_ELECTIONS ? view->count : 0;
    for (uint32_t i = 0; i < count && first + i < table->count; i++)
        put(&table->at[first + i], &view->standing[i]);
    return count;
}

/* Asks all members for the same part of the list. Returns the length of the longest response. */
static uint32_t ask_part(struct bw_peer_client *client, struct bw_peer_question_to *questions,
                         const struct bw_peer_answer *members, uint32_t first, struct table *table)
{
    uint32_t asked = 0, longest = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        struct bw_peer_question_to *q = &questions[asked];
        q->answered = false;
        q->frame.kind = BW_PEER_QUERY;
        q->frame.query = (struct bw_peer_query){.what = BW_PEER_ASK_ELECTIONS, .first = first};
        bool there = members->seen[i].status != BW_MEMBER_DEAD && !members->seen[i].row.left;
        asked += there && bw_peer_client_address(&members->seen[i].row, &q->to);
    }
    bw_peer_client_ask(client, questions, asked, false);
    for (uint32_t k = 0; k < asked; k++) {
        bool good = questions[k].answered && questions[k].frame.kind == BW_PEER_VIEW &&
                    questions[k].frame.view.first == first;
        uint32_t count = good ? put_part(table, &questions[k].frame.view, first) : 0;
        longest = count > longest ? count : longest;
    }
    return longest;
}

static uint32_t load_of(const struct table *table, bw_node node)
{
    uint32_t load = 0;
    for (uint32_t i = 0; i < table->count; i++)
        load += table->at[i].leader == node;
    return load;
}

static const char *name_of(const struct bw_peer_answer *members, bw_node node, char *out)
{
    for (uint32_t i = 0; i < members->count; i++)
        if (members->seen[i].row.id == node)
            return bw_shown(bw_peer_client_name(&members->seen[i].row, out));
    snprintf(out, BW_PEER_NAME_MAX + 1, "%u", (unsigned)node);
    return node ? out : "none";
}

static void print_text(const struct table *table, const struct bw_peer_answer *members)
{
    char name[BW_PEER_NAME_MAX + 1];
    printf("  %-6s %-16s %12s %12s\n", "SHARD", "LEADER", "TERM", "TOKEN");
    for (uint32_t i = 0; i < table->count; i++) {
        const struct shard *s = &table->at[i];
        printf("%c %-6u %-16s %12" PRIu64 " %12" PRIu64 "%s\n", s->differ ? '!' : ' ', (unsigned)i,
               name_of(members, s->leader, name), s->term, s->token,
               s->leading > 1                           ? "  two leaders"
               : s->leader != BW_NODE_NONE && !s->works ? "  no work runs"
                                                        : "");
    }
    for (uint32_t i = 0; i < members->count; i++)
        if (!members->seen[i].row.left)
            printf("%s leads %u\n", bw_shown(bw_peer_client_name(&members->seen[i].row, name)),
                   (unsigned)load_of(table, members->seen[i].row.id));
}

static void print_json(const struct table *table, const struct bw_peer_answer *members, bool differ,
                       bool split)
{
    json_t *shards = json_array(), *peers = json_array();
    char name[BW_PEER_NAME_MAX + 1];
    for (uint32_t i = 0; i < table->count; i++) {
        const struct shard *s = &table->at[i];
        json_array_append_new(shards, json_pack("{sI sI sI sI sb sb}", "shard", (json_int_t)i,
                                                "leader", (json_int_t)s->leader, "term",
                                                (json_int_t)s->term, "token", (json_int_t)s->token,
                                                "differs", s->differ, "works", s->works));
    }
    for (uint32_t i = 0; i < members->count; i++) {
        const struct bw_peer_row *row = &members->seen[i].row;
        if (!row->left)
            json_array_append_new(peers, json_pack("{sI so sI}", "id", (json_int_t)row->id, "name",
                                                   bw_json_text(bw_peer_client_name(row, name)),
                                                   "shards", (json_int_t)load_of(table, row->id)));
    }
    bw_json_line(json_pack("{so so sb sb}", "shards", shards, "peers", peers, "differ", differ,
                           "split", split));
}

int bw_peer_shards_show(struct bw_peer_client *client, const struct bw_peer_answer *members,
                        uint32_t shards, bool json)
{
    struct table table = {.at = calloc(shards, sizeof *table.at), .count = shards};
    struct bw_peer_question_to *questions = calloc(members->count + 1, sizeof *questions);
    bool differ = false, split = false, led = true;
    for (uint32_t first = 0, part = 1; table.at && questions && first < shards && part;
         first += part)
        part = ask_part(client, questions, members, first, &table);
    for (uint32_t i = 0; table.at && i < shards; i++) {
        differ = differ || table.at[i].differ;
        split = split || table.at[i].leading > 1;
        led = led && table.at[i].leader != BW_NODE_NONE && table.at[i].works;
    }
    if (table.at && questions && json)
        print_json(&table, members, differ, split);
    else if (table.at && questions)
        print_text(&table, members);
    int code = !table.at || !questions ? 71 : differ || split || !led ? BW_EXIT_FAILED : BW_EXIT_OK;
    free(table.at);
    free(questions);
    return code;
}
