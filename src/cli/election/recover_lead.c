/* Runs the lease elector on a client's loop; see recover_lead.h. Every request gets exactly one
 * answer: the store's reply, or UNKNOWN after its timeout. */
#include "cli/election/recover_lead.h"
#include "os/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void step(struct bw_lead *lead, struct bw_lease_event event);

static void on_timer(uv_timer_t *timer)
{
    (void)timer; /* only wakes the loop */
}

static struct bw_lead_ask *find_ask(struct bw_lead *lead, uint64_t id)
{
    for (unsigned i = 0; i < BW_LEAD_ASKS_MAX; i++)
        if (lead->asks[i].id == id)
            return &lead->asks[i];
    return NULL;
}

static void carry(struct bw_lead *lead, const struct bw_lease_ask *ask)
{
    struct bw_lead_ask *slot = find_ask(lead, 0);
    struct bw_client *client = lead->client;
    if (!slot || client->ops->request(client->store, &ask->request) != 0)
        return; /* treat the request as lost: the elector retries */
    *slot = (struct bw_lead_ask){.id = ask->request.id,
                                 .op = ask->request.op,
                                 .until = bw_time_add(bw_clock_boot(), ask->within_ns)};
}

static void on_elected(struct bw_lead *lead, const struct bw_lease_action *action)
{
    lead->elected = true;
    lead->token = action->token;
    lead->schedule = action->schedule;
    lead->previous_clean = action->previous_clean;
    snprintf(lead->previous, sizeof lead->previous, "%s", action->previous);
    snprintf(lead->previous_containment, sizeof lead->previous_containment, "%s",
             action->previous_containment);
}

static void act(struct bw_lead *lead, const struct bw_lease_action *action)
{
    switch (action->kind) {
    case BW_LEASE_ASK:
        carry(lead, &action->ask);
        break;
    case BW_LEASE_ELECTED:
        on_elected(lead, action);
        break;
    case BW_LEASE_EXTENDED:
        lead->schedule = action->schedule;
        break;
    case BW_LEASE_STEP_DOWN:
        lead->losing = true;
        lead->reason = action->reason;
        lead->schedule = action->schedule;
        break;
    case BW_LEASE_PREPARE:
        lead->prepare = true;
        break;
    case BW_LEASE_RELEASED:
        lead->released = true;
        break;
    case BW_LEASE_STOPPED:
        lead->stopped = true;
        break;
    case BW_LEASE_LEADER:
    case BW_LEASE_DUPLICATE:
        break;
    }
}

static void step(struct bw_lead *lead, struct bw_lease_event event)
{
    struct bw_lease_actions actions = {.count = 0};
    event.now = bw_clock_boot();
    bw_lease_step(lead->lease, &event, &actions);
    for (uint32_t i = 0; i < actions.count; i++)
        act(lead, &actions.at[i]);
    if (lead->prepare) {
        lead->prepare = false;
        step(lead, (struct bw_lease_event){.kind = BW_LEASE_PREPARED, .yes = true});
    }
}

static void answer(struct bw_lead *lead, const struct bw_store_reply *reply)
{
    struct bw_lead_ask *ask = find_ask(lead, reply->id);
    if (!ask)
        return;
    ask->id = 0;
    if (reply->id == lead->settle_id) {
        lead->settled = reply->outcome == BW_OUTCOME_DONE;
        return;
    }
    bool granted = reply->op == BW_STORE_ACQUIRE && reply->outcome == BW_OUTCOME_DONE;
    bool found = reply->op == BW_STORE_READ && reply->record.held &&
                 strcmp(reply->record.holder, lead->client->look->id) == 0;
    if (granted || found)
        lead->record = reply->record;
    step(lead, (struct bw_lease_event){.kind = BW_LEASE_ANSWER, .answer = reply});
}

static void on_reply(void *context, const struct bw_store_reply *reply)
{
    if (reply->id != 0)
        answer(context, reply);
}

/* Answers expired requests and runs due timers. Returns when the next one is due. */
static bw_time attend(struct bw_lead *lead)
{
    bw_time next = BW_TIME_NEVER;
    for (unsigned i = 0; i < BW_LEAD_ASKS_MAX; i++) {
        struct bw_lead_ask *ask = &lead->asks[i];
        if (ask->id == 0)
            continue;
        if (bw_clock_boot() >= ask->until) {
            struct bw_store_reply unknown = {
                .id = ask->id, .op = ask->op, .outcome = BW_OUTCOME_UNKNOWN};
            lead->client->ops->cancel(lead->client->store, ask->id);
            answer(lead, &unknown);
            return bw_clock_boot();
        }
        next = bw_time_min(next, ask->until);
    }
    if (bw_clock_boot() >= bw_lease_deadline(lead->lease))
        step(lead, (struct bw_lease_event){.kind = BW_LEASE_TIMEOUT});
    return bw_time_min(next, bw_lease_deadline(lead->lease));
}

bool bw_lead_run(struct bw_lead *lead, bw_time until, bool (*done)(void *context), void *context)
{
    struct bw_client *client = lead->client;
    while (!done(context) && !client->interrupted) {
        bw_time next = bw_time_min(attend(lead), until), now = bw_clock_boot();
        if (now >= until)
            return done(context);
        if (done(context))
            break;
        bw_time left = bw_time_min(bw_time_max(next - now, 0), 3600 * BW_SEC);
        uv_update_time(&client->loop);
        uv_timer_start(&client->timer, on_timer, (uint64_t)((left + BW_MS - 1) / BW_MS), 0);
        uv_run(&client->loop, UV_RUN_ONCE);
    }
    return done(context);
}

int bw_lead_open(struct bw_lead *lead, struct bw_client *client, const struct bw_lease_terms *terms)
{
    memset(lead, 0, sizeof *lead);
    lead->client = client;
    lead->ttl_ns = terms->ttl_ns;
    lead->lease = calloc(1, bw_lease_bytes());
    if (!lead->lease)
        return BW_ENOMEM;
    struct bw_lease_config config = {.election = client->look->election,
                                     .candidate = client->look->id,
                                     .value = "recovery",
                                     .terms = *terms,
                                     .retry_ns = bw_time_max(terms->ttl_ns / 5, 10 * BW_MS),
                                     .preferred = true,
                                     .traits = client->ops->traits};
    if (getrandom(&config.seed, sizeof config.seed, 0) != sizeof config.seed)
        config.seed = (uint64_t)bw_clock_boot();
    int error = bw_lease_init(lead->lease, &config);
    if (error)
        return error;
    client->context = lead;
    client->on_reply = on_reply;
    step(lead, (struct bw_lease_event){.kind = BW_LEASE_START});
    return 0;
}

static bool is_settled(void *context)
{
    const struct bw_lead *lead = context;
    return lead->settled || lead->losing;
}

bool bw_lead_settle(struct bw_lead *lead, bw_time within_ns)
{
    struct bw_lease_ask ask = {.request = bw_client_request(lead->client, BW_STORE_RENEW),
                               .within_ns = within_ns};
    ask.request.candidate = lead->client->look->id;
    ask.request.token = lead->token;
    ask.request.ttl_ns = lead->ttl_ns;
    ask.request.settled = true;
    lead->settle_id = ask.request.id;
    carry(lead, &ask);
    bw_lead_run(lead, bw_time_add(bw_clock_boot(), within_ns), is_settled, lead);
    return lead->settled;
}

static bool is_stopped(void *context)
{
    return ((struct bw_lead *)context)->stopped;
}

void bw_lead_stop(struct bw_lead *lead)
{
    if (lead->stopped)
        return;
    bool interrupted = lead->client->interrupted;
    lead->client->interrupted = false; /* releasing leadership needs a little more time */
    step(lead, (struct bw_lease_event){.kind = BW_LEASE_STOP});
    step(lead, (struct bw_lease_event){.kind = BW_LEASE_WORK_DEAD});
    bw_time end = bw_time_max(lead->schedule.end, bw_clock_boot() + lead->client->look->timeout_ns);
    bw_lead_run(lead, end, is_stopped, lead);
    lead->client->interrupted = lead->client->interrupted || interrupted;
}

void bw_lead_close(struct bw_lead *lead)
{
    lead->client->on_reply = NULL;
    free(lead->lease);
    lead->lease = NULL;
}
