/* The metrics of a candidate in Prometheus' text format, see docs/reference/metrics.md. */
#include "run/status/text.h"

#include <inttypes.h>
#include <string.h>

static void put_metric(struct bw_page *page, const struct bw_status_view *view, const char *name,
                       const char *kind, const char *help)
{
    bw_page_put(page, "# HELP bellwether_%s %s\n# TYPE bellwether_%s %s\n", name, help, name, kind);
    bw_page_put(page, "bellwether_%s{election=\"", name);
    bw_page_put_label(page, view->election);
    bw_page_put(page, "\"} ");
}

static void put_seconds(struct bw_page *page, bw_time duration_ns)
{
    bw_page_put(page, "%lld.%03lld\n", (long long)(duration_ns / BW_SEC),
                (long long)(duration_ns % BW_SEC / BW_MS));
}

/* Facts as labels of a metric that is always 1. */
static void put_info(struct bw_page *page, const struct bw_status_view *view)
{
    bw_page_put(page, "# HELP bellwether_build_info Version of bellwether\n"
                      "# TYPE bellwether_build_info gauge\n"
                      "bellwether_build_info{version=\"" BW_VERSION "\"} 1\n");
    if (!view->leader[0])
        return;
    bw_page_put(page, "# HELP bellwether_leader_info The leader as last seen\n"
                      "# TYPE bellwether_leader_info gauge\n"
                      "bellwether_leader_info{election=\"");
    bw_page_put_label(page, view->election);
    bw_page_put(page, "\",leader=\"");
    bw_page_put_label(page, view->leader);
    bw_page_put(page, "\"} 1\n");
}

static void put_histogram(struct bw_page *page, const struct bw_status_view *view, const char *name,
                          const char *help, const struct bw_histogram_bounds *bounds,
                          const struct bw_histogram *histogram)
{
    uint64_t below = 0;
    bw_page_put(page, "# HELP bellwether_%s %s\n# TYPE bellwether_%s histogram\n", name, help,
                name);
    for (uint32_t i = 0; i <= bounds->count; i++) {
        bool last = i == bounds->count;
        below = last ? histogram->count : below + histogram->within[i];
        bw_page_put(page, "bellwether_%s_bucket{election=\"", name);
        bw_page_put_label(page, view->election);
        if (last)
            bw_page_put(page, "\",le=\"+Inf\"} %" PRIu64 "\n", below);
        else
            bw_page_put(page, "\",le=\"%.9g\"} %" PRIu64 "\n", (double)bounds->at[i] / 1e9, below);
    }
    bw_page_put(page, "bellwether_%s_sum{election=\"", name);
    bw_page_put_label(page, view->election);
    bw_page_put(page, "\"} %.9f\nbellwether_%s_count{election=\"", (double)histogram->sum_ns / 1e9,
                name);
    bw_page_put_label(page, view->election);
    bw_page_put(page, "\"} %" PRIu64 "\n", histogram->count);
}

static void put_tally(struct bw_page *page, const struct bw_status_view *view)
{
    const struct bw_tally *tally = view->tally;
    if (view->leading) {
        put_metric(page, view, "renewal_age_seconds", "gauge",
                   "Time since the store last confirmed the lease of this candidate");
        put_seconds(page, bw_time_max(view->now - tally->renewed, 0));
    }
    put_metric(page, view, "leader_changes_total", "counter",
               "Times another leader than the one before was seen");
    bw_page_put(page, "%" PRIu64 "\n", tally->leader_changes);
    put_histogram(page, view, "gap_seconds", "Times without a leader, as this candidate saw them",
                  &bw_bounds_gap, &tally->gaps);
    put_histogram(page, view, "failover_seconds",
                  "From the end of the former leadership to the start of the work here",
                  &bw_bounds_gap, &tally->failovers);
    put_histogram(page, view, "store_seconds",
                  "Answers of the store to requests that acquire, renew or release",
                  &bw_bounds_disk, &tally->answers);
}

static void put_losses(struct bw_page *page, const struct bw_status_view *view)
{
    bw_page_put(
        page, "# HELP bellwether_losses_total Leaderships of this candidate that ended, by reason\n"
              "# TYPE bellwether_losses_total counter\n");
    for (unsigned i = BW_LEASE_KEPT + 1; i < BW_HTTP_LOSSES; i++) {
        bw_page_put(page, "bellwether_losses_total{election=\"");
        bw_page_put_label(page, view->election);
        bw_page_put(page, "\",reason=\"%s\"} %" PRIu64 "\n",
                    bw_lease_loss_name((enum bw_lease_loss)i), view->losses[i]);
    }
}

static void put_counts(struct bw_page *page, const struct bw_status_view *view)
{
    const char *last = "";
    for (uint32_t i = 0; i < view->counts; i++) {
        const struct bw_store_count *count = &view->count[i];
        if (strcmp(count->name, last) != 0)
            bw_page_put(page, "# HELP bellwether_%s %s\n# TYPE bellwether_%s counter\n",
                        count->name, count->help, count->name);
        last = count->name;
        bw_page_put(page, "bellwether_%s{election=\"", count->name);
        bw_page_put_label(page, view->election);
        if (count->reason)
            bw_page_put(page, "\",reason=\"%s", count->reason);
        bw_page_put(page, "\"} %" PRIu64 "\n", count->value);
    }
}

void bw_page_put_metrics(struct bw_page *page, const struct bw_status_view *view)
{
    page->type = "text/plain; version=0.0.4; charset=utf-8";
    put_metric(page, view, "leader", "gauge", "1 while this candidate leads");
    bw_page_put(page, "%d\n", view->leading);
    put_metric(page, view, "token", "gauge", "Fencing token of the leadership last seen");
    bw_page_put(page, "%" PRIu64 "\n", (uint64_t)view->token);
    put_metric(page, view, "valid_seconds", "gauge",
               "Time left until this candidate must stop leading");
    put_seconds(page, view->valid_ns);
    put_metric(page, view, "healthy", "gauge", "1 while this candidate is healthy enough to lead");
    bw_page_put(page, "%d\n", view->healthy);
    put_metric(page, view, "drained", "gauge", "1 while this host is drained");
    bw_page_put(page, "%d\n", view->drained);
    put_metric(page, view, "store_up", "gauge", "1 while the store answers");
    bw_page_put(page, "%d\n", view->stored);
    put_metric(page, view, "elections_total", "counter", "Times this candidate was elected");
    bw_page_put(page, "%" PRIu64 "\n", view->elections);
    put_metric(page, view, "splits_total", "counter", "Times two leaders were seen at once");
    bw_page_put(page, "%" PRIu64 "\n", view->splits);
    put_info(page, view);
    put_tally(page, view);
    put_losses(page, view);
    put_counts(page, view);
}
