/* Prints the figures of `sim run` as a table. */
#include "cli/sim/run.h"

#include <string.h>

#define LABEL 22

struct page {
    const struct bw_sim_run_options *options;
    struct bw_summary *summary;
    const struct bw_term *term;
};

static void label(const char *text)
{
    printf("  %-*s", LABEL, text);
}

static const char *ms(char *out, double value)
{
    return bw_term_span(out, (bw_time)(value * 1e6 + 0.5));
}

static void print_head(const struct page *p)
{
    const struct bw_sim_config *c = &p->options->config;
    const char *name = c->algorithm ? c->algorithm->name : "no election";
    printf("%s%s%s%s, %u nodes, ", bw_term_colour(p->term, BW_BOLD), name,
           c->guard ? " + quorum guard" : "", bw_term_colour(p->term, BW_PLAIN), c->nodes);
    if (bw_sim_is_lease(c->algorithm))
        printf("store %s, ", bw_sim_store_name(c->lease.store));
    printf("detector %s, seed %llu", bw_run_detector_name(c), (unsigned long long)c->seed);
    if (p->options->runs > 1)
        printf("..%llu", (unsigned long long)(c->seed + p->options->runs - 1));
    putchar('\n');
    if (c->algorithm)
        printf("%s\n", c->guard ? bw_elect_guard.promise : c->algorithm->promise);
    if (c->drift > c->drift_bound)
        printf("Note: clocks drift by more than the %.3g %% that the electors assume "
               "(--drift-bound); timed promises do not hold then.\n",
               c->drift_bound * 100);
    putchar('\n');
}

static void print_leader(const struct page *p)
{
    const struct bw_summary *s = p->summary;
    label("leader");
    if (s->runs == 1 && s->leader)
        printf("%u (term %.0f)\n", s->leader, s->term);
    else if (s->same_leader && s->leader)
        printf("%u in every run\n", s->leader);
    else if (s->runs == 1)
        printf("%sno agreement%s\n", bw_term_colour(p->term, BW_RED),
               bw_term_colour(p->term, BW_PLAIN));
    else {
        for (uint32_t i = 0; i < s->leaders.count && i < 8; i++)
            printf("%s%llu: %llu runs", i ? ", " : "", (unsigned long long)s->leaders.value[i],
                   (unsigned long long)s->leaders.times[i]);
        printf("%s\n", s->leaders.count > 8 ? ", ..." : "");
    }
    label("leaders at once");
    enum bw_colour colour = s->sum.max_leaders > 1 ? BW_RED : BW_PLAIN;
    printf("%s%u%s%s\n", bw_term_colour(p->term, colour), s->sum.max_leaders,
           bw_term_colour(p->term, BW_PLAIN), s->runs > 1 ? " at most" : "");
}

static void print_times(const char *name, struct bw_summary_samples *samples, uint32_t runs)
{
    char a[BW_TEXT_SPAN], b[BW_TEXT_SPAN], c[BW_TEXT_SPAN], d[BW_TEXT_SPAN], e[BW_TEXT_SPAN];
    struct bw_sim_stats s = bw_summary_stats(samples);
    label(name);
    if (samples->count == 0)
        printf("never\n");
    else if (runs == 1)
        printf("%s\n", ms(a, s.mean));
    else
        printf("%11s %11s %11s %11s %11s\n", ms(a, s.min), ms(b, s.mean), ms(c, s.median),
               ms(d, s.p99), ms(e, s.max));
}

static void print_split(const struct page *p)
{
    const struct bw_summary *s = p->summary;
    char mean[BW_TEXT_SPAN], most[BW_TEXT_SPAN];
    label("two leaders may act");
    printf("%s%s%s", bw_term_colour(p->term, s->split_max_ms > 0 ? BW_RED : BW_PLAIN),
           ms(mean, s->split_ms / s->runs), bw_term_colour(p->term, BW_PLAIN));
    if (s->runs > 1)
        printf(" on average, %s at most", ms(most, s->split_max_ms));
    putchar('\n');
}

/* Prints the longest gap that the user's settings allow, beside the measured gap. */
static void print_gap(const struct page *p)
{
    const struct bw_sim_config *c = &p->options->config;
    char seen[BW_TEXT_SPAN], worst[BW_TEXT_SPAN], ttl[BW_TEXT_SPAN], grace[BW_TEXT_SPAN],
        election[BW_TEXT_SPAN];
    if (!bw_sim_is_lease(c->algorithm))
        return;
    bw_time most = bw_sim_lease_gap(c);
    label("longest gap");
    printf("%s; at most %s after a crash (TTL %s + grace %s + election %s)\n",
           ms(seen, p->summary->gap_max_ms), bw_term_span(worst, most),
           bw_term_span(ttl, c->lease.ttl_ns), bw_term_span(grace, c->lease.grace_ns),
           bw_term_span(election, most - c->lease.ttl_ns - c->lease.grace_ns));
}

static void print_messages(const struct page *p)
{
    const struct bw_summary *s = p->summary;
    char a[BW_TEXT_SPAN], b[BW_TEXT_SPAN], c[BW_TEXT_SPAN];
    label(s->runs > 1 ? "messages per run" : "messages");
    printf("%s sent, %s delivered, %s failed\n", bw_term_count(a, bw_summary_mean(s, s->sum.sent)),
           bw_term_count(b, bw_summary_mean(s, s->sum.delivered)),
           bw_term_count(c, bw_summary_mean(s, s->sum.failed_sends)));
    for (unsigned kind = 1; kind < BW_SIM_KINDS; kind++) {
        if (s->sum.by_kind[kind] == 0)
            continue;
        printf("    %-*s%s\n", LABEL - 2, bw_message_name(kind),
               bw_term_count(a, bw_summary_mean(s, s->sum.by_kind[kind])));
    }
}

/* Prints what the clients of a registry observed. */
static void print_clients(const struct page *p)
{
    const struct bw_summary *s = p->summary;
    char a[BW_TEXT_SPAN], b[BW_TEXT_SPAN], c[BW_TEXT_SPAN], d[BW_TEXT_SPAN];
    if (p->options->config.algorithm != &bw_sim_registry_ops)
        return;
    label("client requests");
    printf("%s, %s answered, %s unknown; %s leases ended\n",
           bw_term_count(a, bw_summary_mean(s, s->sum.asked)),
           bw_term_count(b, bw_summary_mean(s, s->sum.asked_ok)),
           bw_term_count(c, bw_summary_mean(s, s->sum.asked_unknown)),
           bw_term_count(d, bw_summary_mean(s, s->sum.leases_ended)));
    if (s->sum.undecided == 0)
        return;
    label("history");
    printf("history too long to check for %s keys or leases\n", bw_term_count(a, s->sum.undecided));
}

static void print_writes(const struct page *p)
{
    const struct bw_summary *s = p->summary;
    char a[BW_TEXT_SPAN], b[BW_TEXT_SPAN], c[BW_TEXT_SPAN];
    label("elections");
    printf("%s, leader changed %s times\n", bw_term_count(a, bw_summary_mean(s, s->sum.elections)),
           bw_term_count(b, bw_summary_mean(s, s->sum.leader_changes)));
    label("stale writes");
    printf("%s tried, %s%s accepted%s of %s writes\n",
           bw_term_count(a, bw_summary_mean(s, s->sum.stale_tried)),
           bw_term_colour(p->term, s->sum.stale_accepted ? BW_RED : BW_PLAIN),
           bw_term_count(b, bw_summary_mean(s, s->sum.stale_accepted)),
           bw_term_colour(p->term, BW_PLAIN),
           bw_term_count(c, bw_summary_mean(s, s->sum.writes_tried)));
}

static void print_detector(const struct page *p)
{
    struct bw_summary *s = p->summary;
    char a[BW_TEXT_SPAN], b[BW_TEXT_SPAN];
    if (!p->options->config.detector)
        return;
    print_times("detection, first", &s->detection_first, s->runs);
    print_times("detection, all", &s->detection_all, s->runs);
    if (s->sum.member_periods == 0)
        return;
    double periods = (double)s->sum.member_periods;
    label("detector");
    printf("%s false suspicions, %s messages per member and period\n",
           bw_term_count(a, (double)s->sum.false_suspicions / periods),
           bw_term_count(b, (double)s->sum.detector_sent / periods));
}

static void print_foot(const struct page *p)
{
    const struct bw_summary *s = p->summary;
    char a[BW_TEXT_SPAN], b[BW_TEXT_SPAN], c[BW_TEXT_SPAN], d[BW_TEXT_SPAN];
    if (s->violations)
        printf("\n  %sVIOLATION%s (seed %llu): %s\n", bw_term_colour(p->term, BW_RED),
               bw_term_colour(p->term, BW_PLAIN), (unsigned long long)s->violation_seed,
               s->violation);
    printf("\nsimulated %s, %s events, in %s: %s x real time\n", ms(a, s->virtual_ms),
           bw_term_count(b, (double)s->sum.events), ms(c, s->wall_ms),
           bw_term_count(d, s->wall_ms > 0 ? s->virtual_ms / s->wall_ms : 0));
}

static void print_election(const struct page *p)
{
    struct bw_summary *summary = p->summary;
    print_leader(p);
    if (summary->runs > 1) {
        label("");
        printf("%11s %11s %11s %11s %11s\n", "min", "mean", "median", "p99", "max");
    }
    if (summary->noticed.count > 0)
        print_times("noticed", &summary->noticed, summary->runs);
    print_times("time to leader", &summary->to_leader, summary->runs);
    if (summary->led < summary->runs && summary->runs > 1)
        printf("  %u of %u runs had no leader\n", summary->runs - summary->led, summary->runs);
    print_times("until it acts", &summary->to_act, summary->runs);
    print_times("until all agree", &summary->to_agree, summary->runs);
    print_times("leaderless", &summary->leaderless, summary->runs);
    print_times("no node acts", &summary->none_acted, summary->runs);
    print_gap(p);
    print_split(p);
    print_messages(p);
    print_writes(p);
    print_clients(p);
}

void bw_run_print(const struct bw_sim_run_options *options, struct bw_summary *summary,
                  const struct bw_term *term)
{
    struct page p = {options, summary, term};
    print_head(&p);
    if (options->config.algorithm)
        print_election(&p);
    print_detector(&p);
    print_foot(&p);
}
