/* Phi-accrual (Hayashibara, Defago, Yared, Katayama 2004) and its relatives: a silence is judged by
 * how long the intervals of this very link have been.
 *
 * phi = -log10(P(an interval lasts longer than this silence)), with the intervals of the last
 * `window` beats taken as normal (the paper), by Akka's logistic approximation, or as exponential
 * (Cassandra). An acceptable pause is added to the mean and the standard deviation has a floor, as
 * Akka does, or steady beats would make any jitter deadly; the exponential model needs neither.
 * "phi+deadline" is the normal model with a hard limit on any silence: suspected when either says
 * so, so that a bad link does not make it patient without end.
 *
 * The threshold is turned into a silence when a beat is heard, so waiting costs one timer and no
 * arithmetic. Two made-up intervals around the period stand for history at first. The interval that
 * ends a suspicion is not recorded: an outage is no sample of how the link behaves.
 *
 * Model: crash and restart, lossy links. Guarantees: a crash is noticed once phi passes the
 * threshold; the level is exposed, so users may act at a lower or higher one. Adapts to slow links,
 * thereby detects slower on them. A cut link between two healthy members is suspected by both. */
#include "detect/phi.h"

#include "base/bug.h"
#include "base/error.h"
#include "base/limits.h"
#include "detect/watch.h"

#include <math.h>

#define UNITS_PER_PERIOD 65536

struct row {
    struct bw_peer peer;
    struct bw_phi_window window;
    uint32_t samples[];
};

struct phi {
    struct bw_watch watch;
    enum bw_phi_model model;
    bw_time limit_ns; /* of any silence; NEVER: none */
    uint32_t window;
    double argument; /* the model's, at the threshold */
    double pause_ns, min_sd_ns;
};

static double sd_ns(const struct phi *phi, const struct row *row)
{
    double sd = bw_phi_window_sd_ns(&row->window);
    return sd > phi->min_sd_ns ? sd : phi->min_sd_ns;
}

/* With a floor of half a period: beats that waited behind a pause arrive together, and a window
 * full of such intervals would make every next beat late and, as what ends a suspicion is not
 * recorded, never heal. */
static double mean_ns(const struct phi *phi, const struct row *row)
{
    double mean = bw_phi_window_mean_ns(&row->window), least = (double)phi->watch.period_ns / 2;
    return mean > least ? mean : least;
}

/* The silence at which phi reaches the threshold. */
static bw_time patience_ns(const struct phi *phi, const struct row *row)
{
    double mean = mean_ns(phi, row);
    double silence = phi->model == BW_PHI_EXPONENTIAL
                         ? phi->argument * mean
                         : mean + phi->pause_ns + phi->argument * sd_ns(phi, row);
    bw_time patience = silence < 1 ? 1 : (bw_time)ceil(silence);
    return bw_time_min(patience, phi->limit_ns);
}

static void wait_for_next(struct phi *phi, struct row *row, bw_time now)
{
    row->peer.heard_ns = now;
    bw_peers_expire_at(&phi->watch.peers, &row->peer, bw_time_add(now, patience_ns(phi, row)));
}

static void admit(struct bw_watch *watch, struct bw_peer *peer, bw_time now)
{
    struct phi *phi = (struct phi *)watch;
    struct row *row = (struct row *)peer;
    bw_time period = watch->period_ns;
    bw_phi_window_init(&row->window, period / UNITS_PER_PERIOD + 1, phi->window);
    bw_phi_window_add(&row->window, row->samples, period - period / 4);
    bw_phi_window_add(&row->window, row->samples, period + period / 4);
    wait_for_next(phi, row, now);
}

static void beat(struct bw_watch *watch, bw_time now, struct bw_actions *actions)
{
    (void)now;
    bw_watch_broadcast(watch, BW_MSG_HEARTBEAT, actions);
}

static void message(struct bw_watch *watch, struct bw_peer *peer, const struct bw_event *event,
                    struct bw_actions *actions)
{
    struct row *row = (struct row *)peer;
    uint64_t before = peer->seq;
    if (!bw_watch_hears(peer, event, actions))
        return;
    bool same_life = before != 0 && before >> 32 == peer->seq >> 32;
    bool calm = peer->status == BW_MEMBER_ALIVE || BW_BUG(phi_records_outage);
    if (same_life && calm)
        bw_phi_window_add(&row->window, row->samples, event->now - peer->heard_ns);
    wait_for_next((struct phi *)watch, row, event->now);
    bw_watch_become_trusted(peer, actions);
}

static double level(const struct bw_watch *watch, const struct bw_peer *peer, bw_time now)
{
    const struct phi *phi = (const struct phi *)watch;
    const struct row *row = (const struct row *)peer;
    double silence = (double)(now - peer->heard_ns);
    if (row->window.count == 0)
        return 0; /* not started */
    double mean = mean_ns(phi, row);
    if (phi->model == BW_PHI_EXPONENTIAL)
        return bw_phi_exponential(silence / mean);
    double y = (silence - mean - phi->pause_ns) / sd_ns(phi, row);
    return phi->model == BW_PHI_LOGISTIC ? bw_phi_logistic(y) : bw_phi_normal(y);
}

static const struct bw_watch_rule rule = {
    .admit = admit, .beat = beat, .message = message, .level = level};

static size_t row_bytes(const struct bw_detector_config *config)
{
    return sizeof(struct row) + config->window * sizeof(uint32_t);
}

static size_t bytes(const struct bw_detector_config *config)
{
    return bw_watch_bytes(config, sizeof(struct phi), row_bytes(config));
}

static int init(void *memory, const struct bw_detector_config *config, enum bw_phi_model model,
                bw_time limit_ns)
{
    if (config->window < 2 || config->window > BW_PHI_WINDOW_MAX)
        return BW_ELIMIT;
    if (!(config->threshold > 0) || config->min_sd_ns <= 0 || config->pause_ns < 0 || limit_ns <= 0)
        return BW_EINVAL;
    struct bw_arena arena = {.at = memory, .cap = bytes(config)};
    struct phi *phi = bw_arena_take(&arena, sizeof *phi);
    *phi = (struct phi){.model = model,
                        .limit_ns = limit_ns,
                        .window = config->window,
                        .argument = bw_phi_inverse(model, config->threshold),
                        .pause_ns = (double)config->pause_ns,
                        .min_sd_ns = (double)config->min_sd_ns};
    return bw_watch_init(&phi->watch, &arena, config, &rule, row_bytes(config));
}

static int init_normal(void *memory, const struct bw_detector_config *config)
{
    return init(memory, config, BW_PHI_NORMAL, BW_TIME_NEVER);
}

static int init_logistic(void *memory, const struct bw_detector_config *config)
{
    return init(memory, config, BW_PHI_LOGISTIC, BW_TIME_NEVER);
}

static int init_exponential(void *memory, const struct bw_detector_config *config)
{
    return init(memory, config, BW_PHI_EXPONENTIAL, BW_TIME_NEVER);
}

static int init_deadline(void *memory, const struct bw_detector_config *config)
{
    return init(memory, config, BW_PHI_NORMAL, config->limit_ns);
}

#define PHI_OPS(ops_name, text, init_function)                                                     \
    {                                                                                              \
        .name = ops_name, .summary = text, .bytes = bytes, .actions_max = bw_watch_actions_max,    \
        .init = init_function, .step = bw_watch_step, .deadline = bw_watch_deadline,               \
        .level = bw_watch_level, .member = bw_watch_member                                         \
    }

const struct bw_detector_ops bw_detect_phi =
    PHI_OPS("phi", "accrual: silence judged by this link's own history, normal", init_normal);
const struct bw_detector_ops bw_detect_phi_logistic =
    PHI_OPS("phi-logistic", "accrual with Akka's logistic approximation", init_logistic);
const struct bw_detector_ops bw_detect_phi_exponential =
    PHI_OPS("phi-exponential", "accrual with Cassandra's exponential model", init_exponential);
const struct bw_detector_ops bw_detect_phi_deadline =
    PHI_OPS("phi+deadline", "accrual with a hard limit: either suspects", init_deadline);
