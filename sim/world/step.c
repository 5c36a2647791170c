/* The stepping interface: steps, injected faults, and views of the world. */
#include "sim/step.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "sim/world/world.h"

#include <string.h>

#define YEAR (365 * (86400 * BW_SEC))

static int refuse(struct bw_sim *sim, const char *text)
{
    snprintf(sim->why, BW_SIM_WHY, "%s", text);
    return BW_EINVAL;
}

/* Returns the error that ended the run, or 0. */
static int check(struct bw_sim *sim)
{
    bw_sim_check_queue(sim);
    return sim->error;
}

int bw_sim_step_until(struct bw_sim *sim, bw_time at)
{
    if (!sim->config)
        return BW_EINVAL;
    if (sim->error)
        return sim->error;
    if (at < sim->now || at > YEAR)
        return refuse(sim, at < sim->now ? "the time to step to is in the past"
                                         : "the time to step to is later than a year");
    bw_time last = BW_BUG(step_takes_one_event_more) ? at + BW_MS : at;
    while (bw_sim_queue_next(&sim->queue) < last && bw_sim_goes_on(sim))
        bw_sim_loop_once(sim);
    int error = check(sim);
    if (!error)
        sim->now = at;
    return error;
}

int bw_sim_step(struct bw_sim *sim)
{
    if (!sim->config)
        return BW_EINVAL;
    if (sim->queue.count && bw_sim_goes_on(sim))
        bw_sim_loop_once(sim);
    return check(sim);
}

int bw_sim_inject(struct bw_sim *sim, const struct bw_sim_fault *fault)
{
    if (!sim->config)
        return BW_EINVAL;
    if (sim->error)
        return sim->error;
    int error = bw_sim_validate_fault(sim->config, fault, sim->why);
    if (error)
        return error;
    if (!bw_sim_fault_possible(sim, fault))
        return refuse(sim, "the fault is not possible now");
    bw_sim_fault_due(sim, fault);
    sim->recheck = true;
    return check(sim);
}

bw_time bw_sim_now(const struct bw_sim *sim)
{
    return sim->now;
}

bw_time bw_sim_next(const struct bw_sim *sim)
{
    return bw_sim_queue_next(&sim->queue);
}

uint32_t bw_sim_ids(const struct bw_sim *sim)
{
    return sim->config ? sim->cap : 0;
}

bool bw_sim_view(const struct bw_sim *sim, bw_node id, uint32_t election, struct bw_sim_view *view)
{
    memset(view, 0, sizeof *view);
    if (!sim->config || id < 1 || id > sim->cap || election >= sim->elections)
        return false;
    const struct bw_sim_node *node = &sim->nodes[id];
    const struct bw_sim_claim *claim = bw_sim_claims_of(&sim->claims, election, id);
    view->store = bw_sim_is_store(sim, id);
    view->member = node->member;
    view->up = node->up;
    view->paused = node->paused;
    view->waiting = node->waiting.count;
    if (!node->up)
        return true;
    struct bw_elector_status status;
    bw_instance_status(node->instance, election, &status);
    view->electing = status.electing;
    view->state = status.state;
    view->term = status.term;
    view->leader = claim->leader;
    view->leads = claim->leads;
    if (!claim->leads)
        return true;
    view->term = claim->term;
    view->token = claim->token;
    view->act_from = bw_sim_clock_world(&node->clock, claim->act_from);
    view->act_until = bw_sim_clock_world(&node->clock, claim->act_until);
    view->acts = !node->paused && view->act_from <= sim->now && sim->now < view->act_until;
    return true;
}

bool bw_sim_suspects(const struct bw_sim *sim, bw_node id, bw_node target)
{
    if (!sim->config || id < 1 || id > sim->cap || target < 1 || target > sim->cap)
        return false;
    const struct bw_sim_node *node = &sim->nodes[id];
    if (!node->up || id == target || !sim->config->detector || bw_sim_is_store(sim, id))
        return false;
    return bw_instance_member(node->instance, target) != BW_MEMBER_ALIVE;
}

bool bw_sim_flight_next(const struct bw_sim *sim, uint32_t *cursor, struct bw_sim_flight *flight)
{
    const struct bw_sim_queue *queue = &sim->queue;
    while (sim->config && *cursor < queue->count) {
        const struct bw_sim_queue_item *item = &queue->heap[(*cursor)++];
        struct bw_sim_slot *slot = bw_sim_queue_of(queue, item);
        if (slot->kind != BW_PENDING_MESSAGE)
            continue;
        *flight = (struct bw_sim_flight){slot->sent, item->at, bw_sim_slot_msg(slot)};
        return true;
    }
    return false;
}
