/* The trace of a run. A line is: time in ms, node, event. */
#include "sim/world/trace.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <string.h>

enum tag {
    TAG_SENT = 1,
    TAG_DELIVERED,
    TAG_ANNOUNCED,
    TAG_SUSPECTED,
    TAG_FAULTED,
    TAG_WROTE,
    TAG_NOTED,
    TAG_COMMITTED,
    TAG_STEPPED
};

static const char *const fault_names[] = {
    [BW_FAULT_CRASH] = "crash",         [BW_FAULT_RESTART] = "restart",
    [BW_FAULT_PAUSE] = "pause",         [BW_FAULT_RESUME] = "resume",
    [BW_FAULT_PARTITION] = "partition", [BW_FAULT_CUT] = "cut",
    [BW_FAULT_MEND] = "mend",           [BW_FAULT_HEAL] = "heal",
    [BW_FAULT_LOSS] = "loss",           [BW_FAULT_LATENCY] = "latency",
    [BW_FAULT_DRIFT] = "drift",         [BW_FAULT_JUMP] = "jump",
    [BW_FAULT_DISK_FAIL] = "disk-fail", [BW_FAULT_DISK_SLOW] = "disk-slow",
    [BW_FAULT_HINT] = "hint",           [BW_FAULT_CONFIRM] = "confirm",
    [BW_FAULT_JOIN] = "join",           [BW_FAULT_LEAVE] = "leave",
    [BW_FAULT_CAMPAIGN] = "campaign",   [BW_FAULT_RESIGN] = "resign",
    [BW_FAULT_TRANSFER] = "transfer",   [BW_FAULT_STORE_DOWN] = "store-down",
    [BW_FAULT_STORE_UP] = "store-up",   [BW_FAULT_WIPE] = "wipe",
    [BW_FAULT_KILL] = "kill",           [BW_FAULT_REMOVE] = "remove",
    [BW_FAULT_SECOND] = "second",       [BW_FAULT_UNABLE] = "unable",
    [BW_FAULT_ABLE] = "able",
};

const char *bw_sim_fault_name(unsigned kind)
{
    return kind < sizeof fault_names / sizeof *fault_names ? fault_names[kind] : "unknown";
}

void bw_sim_trace_init(struct bw_sim_trace *trace, FILE *file, uint64_t seed)
{
    memset(trace, 0, sizeof *trace);
    trace->file = file;
    trace->hash = seed ^ 0x9e3779b97f4a7c15u;
}

void bw_sim_trace_watch(struct bw_sim_trace *trace, const struct bw_sim_observer *observer)
{
    BW_ASSERT(trace->all_count < BW_SIM_OBSERVERS_MAX);
    trace->all[trace->all_count++] = observer;
    if (observer->sent)
        trace->sent[trace->sent_count++] = observer;
    if (observer->delivered)
        trace->delivered[trace->delivered_count++] = observer;
}

static inline uint64_t fold(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 32;
}

static inline void begin(struct bw_sim_trace *trace, enum tag tag, bw_time at, bw_node node)
{
    trace->hash = fold(fold(trace->hash, (uint64_t)at), (uint64_t)tag << 32 | node);
}

static inline void add(struct bw_sim_trace *trace, uint64_t value)
{
    trace->hash = fold(trace->hash, value);
}

static void line(const struct bw_sim_trace *trace, bw_time at, bw_node node)
{
    fprintf(trace->file, "%8" PRId64 ".%06" PRId64 " ", at / BW_MS, at % BW_MS);
    if (node)
        fprintf(trace->file, "%4" PRIu32 "  ", node);
    else
        fputs("   -  ", trace->file);
}

static void message_text(const struct bw_sim_trace *trace, const struct bw_message *msg)
{
    fprintf(trace->file, "%s %" PRIu32 ">%" PRIu32 " term %" PRIu64, bw_message_name(msg->kind),
            msg->from, msg->to, msg->term);
    if (msg->flags)
        fprintf(trace->file, " flags %u", (unsigned)msg->flags);
    if (msg->items)
        fprintf(trace->file, " items %" PRIu32, msg->items);
    if (msg->election)
        fprintf(trace->file, " election %u", (unsigned)msg->election);
}

static void add_message(struct bw_sim_trace *trace, const struct bw_message *msg)
{
    add(trace, (uint64_t)msg->from << 32 | msg->to);
    add(trace, (uint64_t)msg->kind << 56 | (uint64_t)msg->flags << 48 |
                   (uint64_t)msg->election << 32 | msg->items);
    add(trace, msg->term);
}

void bw_sim_trace_sent(struct bw_sim_trace *trace, bw_time at, const struct bw_message *msg,
                       bw_time arrives)
{
    begin(trace, TAG_SENT, at, msg->from);
    add_message(trace, msg);
    add(trace, (uint64_t)arrives);
    if (trace->file) {
        line(trace, at, msg->from);
        fputs("send ", trace->file);
        message_text(trace, msg);
        fputs(arrives == BW_TIME_NEVER ? " lost\n" : "\n", trace->file);
    }
    for (uint32_t i = 0; i < trace->sent_count; i++)
        trace->sent[i]->sent(trace->sent[i]->context, at, msg, arrives);
}

void bw_sim_trace_delivered(struct bw_sim_trace *trace, bw_time at, const struct bw_message *msg)
{
    begin(trace, TAG_DELIVERED, at, msg->to);
    add_message(trace, msg);
    if (trace->file) {
        line(trace, at, msg->to);
        fputs("recv ", trace->file);
        message_text(trace, msg);
        fputc('\n', trace->file);
    }
    for (uint32_t i = 0; i < trace->delivered_count; i++)
        trace->delivered[i]->delivered(trace->delivered[i]->context, at, msg);
}

/* Writes a future instant: "never", or ms. */
static void instant_text(const struct bw_sim_trace *trace, const char *what, bw_time at)
{
    if (at == BW_TIME_NEVER)
        fprintf(trace->file, " %s never", what);
    else
        fprintf(trace->file, " %s %" PRId64 ".%06" PRId64, what, at / BW_MS, at % BW_MS);
}

static void announced_text(const struct bw_sim_trace *trace, bw_node node, uint32_t election,
                           const struct bw_announcement *a, bw_time act_from, bw_time act_until)
{
    if (a->leader == node)
        fprintf(trace->file, "LEADS term %" PRIu64 " token %" PRIu64, a->term, a->token);
    else if (a->leader)
        fprintf(trace->file, "NAMES %" PRIu32 " term %" PRIu64, a->leader, a->term);
    else
        fprintf(trace->file, "NAMES none, term %" PRIu64, a->term);
    if (a->leader == node) {
        instant_text(trace, "from", act_from);
        instant_text(trace, "until", act_until);
    }
    if (a->reason)
        fprintf(trace->file, " (loss %u)", (unsigned)a->reason);
    if (election)
        fprintf(trace->file, " election %" PRIu32, election);
    fputc('\n', trace->file);
}

void bw_sim_trace_announced(struct bw_sim_trace *trace, bw_time at, bw_node node, uint32_t election,
                            const struct bw_announcement *a, bw_time act_from, bw_time act_until)
{
    begin(trace, TAG_ANNOUNCED, at, node);
    add(trace, (uint64_t)election << 40 | (uint64_t)a->reason << 32 | a->leader);
    add(trace, a->term);
    add(trace, a->token);
    add(trace, (uint64_t)act_from);
    add(trace, (uint64_t)act_until);
    if (trace->file) {
        line(trace, at, node);
        announced_text(trace, node, election, a, act_from, act_until);
    }
    for (uint32_t i = 0; i < trace->all_count; i++)
        if (trace->all[i]->announced)
            trace->all[i]->announced(trace->all[i]->context, at, node, election, a, act_from,
                                     act_until);
}

void bw_sim_trace_suspected(struct bw_sim_trace *trace, bw_time at, bw_node node, bw_node target,
                            bool suspect, double level)
{
    begin(trace, TAG_SUSPECTED, at, node);
    add(trace, (uint64_t)suspect << 32 | target);
    if (trace->file) {
        line(trace, at, node);
        fprintf(trace->file, "%s %" PRIu32 "\n", suspect ? "suspects" : "trusts", target);
    }
    for (uint32_t i = 0; i < trace->all_count; i++)
        if (trace->all[i]->suspected)
            trace->all[i]->suspected(trace->all[i]->context, at, node, target, suspect, level);
}

void bw_sim_trace_faulted(struct bw_sim_trace *trace, bw_time at, const struct bw_sim_fault *fault,
                          bw_node node)
{
    begin(trace, TAG_FAULTED, at, node);
    add(trace, (uint64_t)fault->kind << 32 | fault->peer);
    if (trace->file) {
        line(trace, at, node);
        fprintf(trace->file, "FAULT %s", bw_sim_fault_name(fault->kind));
        if (fault->peer)
            fprintf(trace->file, " %" PRIu32, fault->peer);
        fputc('\n', trace->file);
    }
    for (uint32_t i = 0; i < trace->all_count; i++)
        if (trace->all[i]->faulted)
            trace->all[i]->faulted(trace->all[i]->context, at, fault, node);
}

void bw_sim_trace_wrote(struct bw_sim_trace *trace, bw_time at, bw_node node, bw_token token,
                        bool accepted, bool stale)
{
    begin(trace, TAG_WROTE, at, node);
    add(trace, token);
    add(trace, (uint64_t)accepted << 1 | stale);
    if (trace->file) {
        line(trace, at, node);
        fprintf(trace->file, "write token %" PRIu64 " %s%s\n", token,
                accepted ? "accepted" : "refused", stale ? ", stale" : "");
    }
    for (uint32_t i = 0; i < trace->all_count; i++)
        if (trace->all[i]->wrote)
            trace->all[i]->wrote(trace->all[i]->context, at, node, token, accepted, stale);
}

/* Writes the text of a note with %node, %a and %b replaced. */
static void note_text(const struct bw_sim_trace *trace, const struct bw_trace_note *note)
{
    for (const char *at = bw_trace_text(note->code); *at; at++) {
        if (strncmp(at, "%node", 5) == 0) {
            fprintf(trace->file, "%" PRIu32, note->node);
            at += 4;
        } else if (at[0] == '%' && (at[1] == 'a' || at[1] == 'b')) {
            fprintf(trace->file, "%" PRIu64, at[1] == 'a' ? note->a : note->b);
            at++;
        } else {
            fputc(*at, trace->file);
        }
    }
    fputc('\n', trace->file);
}

void bw_sim_trace_noted(struct bw_sim_trace *trace, bw_time at, bw_node node,
                        const struct bw_trace_note *note)
{
    begin(trace, TAG_NOTED, at, node);
    add(trace, (uint64_t)note->code << 32 | note->node);
    add(trace, note->a);
    add(trace, note->b);
    if (trace->file) {
        line(trace, at, node);
        note_text(trace, note);
    }
    for (uint32_t i = 0; i < trace->all_count; i++)
        if (trace->all[i]->traced)
            trace->all[i]->traced(trace->all[i]->context, at, node, note);
}

void bw_sim_trace_committed(struct bw_sim_trace *trace, bw_time at, bw_node node, uint32_t election,
                            bw_index index, uint64_t hash)
{
    begin(trace, TAG_COMMITTED, at, node);
    add(trace, (uint64_t)election << 48 | index);
    add(trace, hash);
    if (trace->file) {
        line(trace, at, node);
        fprintf(trace->file, "commit %" PRIu64 " %016" PRIx64 "\n", index, hash);
    }
    for (uint32_t i = 0; i < trace->all_count; i++)
        if (trace->all[i]->committed)
            trace->all[i]->committed(trace->all[i]->context, at, node, election, index, hash);
}

void bw_sim_trace_stepped(struct bw_sim_trace *trace, bw_time at, bw_node node, const char *what,
                          uint64_t value)
{
    begin(trace, TAG_STEPPED, at, node);
    add(trace, value);
    if (!trace->file)
        return;
    line(trace, at, node);
    fprintf(trace->file, "%s", what);
    if (value)
        fprintf(trace->file, " %" PRIu64, value);
    fputc('\n', trace->file);
}
