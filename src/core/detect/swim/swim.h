/* The parts SWIM is made of; swim.c says what it does as a whole. */
#ifndef BW_DETECT_SWIM_H
#define BW_DETECT_SWIM_H

#include "core/base/arena.h"
#include "core/base/limits.h"
#include "core/base/rng.h"
#include "core/detect/detector.h"
#include "core/detect/swim/lifeguard.h"

/* Members: members.c. Sixteen bytes each, because 10,000 instances that know 10,000 members
 * must fit one machine. Sorted by id, self left out, each in one of two queues, least recently
 * probed first: links are places in the table. */
struct bw_swim_member {
    bw_node id;
    uint32_t incarnation;
    uint16_t before, after;
    uint32_t status : 2;  /* enum bw_member_status */
    uint32_t probed : 30; /* number of the period in which it was last chosen */
};

#define BW_SWIM_NOBODY UINT16_MAX

struct bw_swim_queue {
    uint16_t head, tail;
    uint32_t count;
};

struct bw_swim_members {
    struct bw_swim_member *at;
    uint32_t count, cap;
    bw_node self;
    uint32_t period;                 /* own periods so far */
    struct bw_swim_queue live, dead; /* live: alive or suspected */
};

int bw_swim_members_init(struct bw_swim_members *members, struct bw_arena *arena,
                         const struct bw_detector_config *config, struct bw_rng *rng);
struct bw_swim_member *bw_swim_members_find(const struct bw_swim_members *members, bw_node id);
/* The new row, or NULL: known already, self, or full. */
struct bw_swim_member *bw_swim_members_add(struct bw_swim_members *members, bw_node id);
bool bw_swim_members_remove(struct bw_swim_members *members, bw_node id);
/* The only way a status changes: keeps the queues right. */
void bw_swim_members_become(struct bw_swim_members *members, struct bw_swim_member *member,
                            enum bw_member_status status);
/* A new period: whom to probe, or NULL when there is nobody. */
struct bw_swim_member *bw_swim_members_choose(struct bw_swim_members *members, struct bw_rng *rng);
/* Puts it before all others in the next choices. */
void bw_swim_members_hurry(struct bw_swim_members *members, struct bw_swim_member *member);
/* Up to `count` different live members other than `target`, at random; returns how many. */
uint32_t bw_swim_members_helpers(const struct bw_swim_members *members, struct bw_rng *rng,
                                 bw_node target, bw_node *out, uint32_t count);

/* News to pass on: gossip.c. */
#define BW_SWIM_NEWS_MAX 64u

struct bw_swim_item {
    struct bw_swim_update update;
    uint32_t told; /* how often it went out */
};

struct bw_swim_news {
    uint32_t count;
    struct bw_swim_item at[BW_SWIM_NEWS_MAX]; /* next to go out first */
};

/* Goes out next; older news of that node that it makes worthless is dropped. */
void bw_swim_news_add(struct bw_swim_news *news, const struct bw_swim_update *update);
void bw_swim_news_drop(struct bw_swim_news *news, bw_node node);
/* Takes up to `room` items that were told least and counts them as told; one told 3 log10(n + 1)
 * times is dropped. Returns how many. */
uint32_t bw_swim_news_take(struct bw_swim_news *news, uint32_t members, struct bw_swim_update *out,
                           uint32_t room);

/* Whether `update` beats what is known of a member, and so changes it (gossip.c). */
bool bw_swim_beats(const struct bw_swim_update *update, enum bw_member_status status,
                   uint32_t incarnation);

/* Suspicions that wait for a refutation: suspicion.c. */
#define BW_SWIM_SUSPICIONS_MAX 256u

struct bw_swim_suspicion {
    bw_node node;
    uint32_t voices;
    bw_node by[BW_LIFEGUARD_VOICES + 1];
    uint32_t members; /* when it began */
    bw_time began_ns, due_ns;
};

struct bw_swim_suspicions {
    struct bw_swim_suspicion *at;
    uint32_t count, cap;
    bw_time earliest_ns; /* lower bound of all due times */
    bw_time period_ns;
    double alpha, beta;
};

void bw_swim_suspicions_init(struct bw_swim_suspicions *all, struct bw_arena *arena,
                             const struct bw_detector_config *config);
struct bw_swim_suspicion *bw_swim_suspicions_find(const struct bw_swim_suspicions *all,
                                                  bw_node node);
/* Begins one; the table must have room. */
void bw_swim_suspicions_begin(struct bw_swim_suspicions *all, bw_node node, bw_node by,
                              uint32_t members, bw_time now);
/* One more voice. True when it is a new one: then it is worth passing on. */
bool bw_swim_suspicions_confirm(struct bw_swim_suspicions *all, bw_node node, bw_node by);
void bw_swim_suspicions_end(struct bw_swim_suspicions *all, bw_node node);
/* The one that began first; BW_NODE_NONE when there is none. */
bw_node bw_swim_suspicions_oldest(const struct bw_swim_suspicions *all);
/* Ends one that is due and names it; BW_NODE_NONE when none is, and then the bound is exact. */
bw_node bw_swim_suspicions_due(struct bw_swim_suspicions *all, bw_time now);

/* The whole. */
#define BW_SWIM_RELAYS_MAX   32u
#define BW_SWIM_PAYLOADS     4u /* messages of one step that carry news of their own */
#define BW_SWIM_INDIRECT_MAX 16u

struct bw_swim_relay { /* a probe on behalf of somebody */
    bw_node asker, target;
    uint64_t asked_seq, own_seq;
    bw_time due_ns;
};

struct bw_swim {
    bw_node self;
    uint32_t incarnation;
    uint32_t indirect;
    uint32_t starts, number; /* halves of a probe's seq */
    bw_time period_ns, ack_ns;
    bw_time start_ns;
    bw_time period_end_ns; /* NEVER: not started */
    bw_time ack_due_ns;    /* NEVER: answered, or helpers are asked already */
    bw_time relay_due_ns;  /* lower bound */
    uint64_t seq;          /* of the probe under way */
    bw_node target;        /* NONE: no probe under way */
    bool answered;
    uint32_t helpers, nacks;
    struct bw_lifeguard health;
    struct bw_rng rng;
    struct bw_swim_members members;
    struct bw_swim_suspicions suspicions;
    struct bw_swim_news news;
    uint32_t relays_count, payloads_used;
    struct bw_swim_relay relays[BW_SWIM_RELAYS_MAX];
    struct bw_swim_update payloads[BW_SWIM_PAYLOADS][BW_SWIM_UPDATES_MAX];
};

/* Changes of mind: mind.c. They keep queues, suspicions and news in step. */

/* Takes an update on `member` in if it beats what is known. */
void bw_swim_apply(struct bw_swim *swim, struct bw_swim_member *member,
                   const struct bw_swim_update *update, bw_time now, struct bw_actions *actions);
/* What a message says besides its purpose: its sender's incarnation, and the news on it. */
void bw_swim_learn(struct bw_swim *swim, struct bw_swim_member *from, const struct bw_event *event,
                   struct bw_actions *actions);
void bw_swim_become_dead(struct bw_swim *swim, struct bw_swim_member *member, bw_node by,
                         struct bw_actions *actions);
void bw_swim_become_alive(struct bw_swim *swim, struct bw_swim_member *member,
                          struct bw_actions *actions);

/* Probing and answering: probe.c. */
void bw_swim_message(struct bw_swim *swim, const struct bw_event *event,
                     struct bw_actions *actions);
void bw_swim_time_out(struct bw_swim *swim, bw_time now, struct bw_actions *actions);

#endif
