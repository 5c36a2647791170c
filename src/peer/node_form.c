/* Creates the instance of a peer when the cluster is formed, from the roster, the founders and the
 * state on disk. */
#include "peer/node_state.h"

#include <stdlib.h>

struct setup {
    struct bw_member members[BW_PEER_MEMBERS_MAX];
    bw_node ids[BW_PEER_MEMBERS_MAX];
    uint32_t count;
    uint32_t voters; /* Raft: number of voters in `members` */
    struct bw_instance_election elections[BW_ELECTIONS_MAX];
    struct bw_raft_saved saved[BW_ELECTIONS_MAX];
    struct bw_start starts[BW_ELECTIONS_MAX];
};

/* Chooses all members that have not left. With Raft, only the voters among the founders. */
static void choose_members(const struct bw_peer *p, struct setup *m)
{
    bw_node voters[BW_PEER_FOUNDERS_MAX];
    for (uint32_t i = 0; i < p->roster.count; i++) {
        const struct bw_peer_row *row = &p->roster.at[i].row;
        if (row->left)
            continue;
        m->ids[m->count] = row->id;
        m->members[m->count++] =
            (struct bw_member){.id = row->id, .priority = row->priority, .ordinary = row->ordinary};
    }
    m->voters = p->raft ? bw_peer_found_voters(&p->found, voters) : 0;
    for (uint32_t i = 0; i < m->voters; i++)
        m->members[i] = (struct bw_member){.id = voters[i]};
}

static void configure_election(struct bw_peer *p, struct setup *m, uint32_t e)
{
    struct bw_elector_config *config = &m->elections[e].config;
    m->elections[e].ops = p->options.quorum && !p->raft ? &bw_elect_guard : p->options.algorithm;
    *config = p->options.elect;
    config->self = p->options.self;
    config->members = m->members;
    config->count = p->raft ? m->voters : m->count;
    config->cap = p->cap;
    config->together = p->elections > 1;
    config->seed = bw_rng_next(&p->rng);
    config->inner = p->options.quorum && !p->raft ? p->options.algorithm : NULL;
    config->announce_ns =
        bw_time_max(config->announce_ns,
                    3 * config->answer_ns + 8 * (bw_time)config->count * config->latency_ns);
    if (config->inner) {
        config->voters = p->found.saved.set;
        config->voters_count = p->found.saved.count;
    }
    peer_raft_saved(&p->records[e].log, &m->saved[e]);
    config->saved = p->raft ? &m->saved[e] : NULL;
    m->starts[e].durable = p->records[e].durable;
    m->starts[e].durable.starts = p->starts - 1;
}

static int make(struct bw_peer *p, struct setup *m)
{
    struct bw_instance_config config = {.detector = p->options.detector,
                                        .detect = p->options.detect,
                                        .elections = m->elections,
                                        .count = p->elections,
                                        .spread = p->elections > 1};
    choose_members(p, m);
    config.detect.self = p->options.self;
    config.detect.members = m->ids;
    config.detect.count = m->count;
    config.detect.cap = p->cap;
    config.detect.seed = bw_rng_next(&p->rng);
    config.detect.starts = p->starts - 1;
    for (uint32_t e = 0; e < p->elections; e++)
        configure_election(p, m, e);
    p->actions_max = bw_instance_actions_max(&config);
    p->instance_memory = malloc(bw_instance_bytes(&config));
    p->actions = malloc(p->actions_max * sizeof *p->actions);
    if (!p->instance_memory || !p->actions)
        return BW_ENOMEM;
    return bw_instance_init(&p->instance, p->instance_memory, &config);
}

bool peer_form(struct bw_peer *p)
{
    struct setup *m = calloc(1, sizeof *m);
    int error = m ? make(p, m) : BW_ENOMEM;
    if (error) {
        p->instance = NULL;
        free(m);
        peer_end(p, error,
                 error == BW_ENOMEM ? "out of memory while forming the cluster"
                                    : "the algorithm rejects these settings or members");
        return false;
    }
    p->formed = true;
    if (p->options.formed)
        p->options.formed(p->options.context);
    struct bw_event event = {.kind = BW_EVENT_START, .node = p->options.self, .start = m->starts};
    peer_step(p, &event);
    free(m);
    return true;
}
