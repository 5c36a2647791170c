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
 * Intervals of a link that loses beats are not normal: their tail is geometric and much longer. So
 * a second phi is made of the loss itself (missed.h), m beats lost in a row being worth -m
 * log10(rate), and the lower of the two counts: nobody is suspected before both reach the
 * threshold. At a threshold of 8 a link that loses one in five is given 12.9 periods; one that
 * loses nothing is not given any longer than the model says. The patience that loss can earn is
 * bounded, LOSS_PERIODS.
 *
 * Loss that begins is not in any history yet. So who is overdue is asked, and asked again every
 * half period, until it answers or the verdict falls; that costs nothing while beats come. An
 * answer counts from when its question was sent and is no sample.
 *
 * The threshold is turned into a silence when a beat is heard, so waiting costs one timer and no
 * arithmetic. Two made-up intervals around the period stand for history at first. The interval that
 * ends a suspicion is not recorded: an outage is no sample of how the link behaves.
 *
 * Model: crash and restart, lossy links. Guarantees: a crash is noticed once phi passes the
 * threshold; the level is exposed, so users may act at a lower or higher one. Adapts to slow and
 * lossy links, thereby detects slower on them. A cut link between two healthy members is suspected
 * by both. */
#include "core/detect/phi.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/detect/missed.h"
#include "core/detect/watch.h"

#include <math.h>

#define UNITS_PER_PERIOD 65536
/* No loss earns more patience than this; reached at a rate of 0.48 with threshold 8. */
#define LOSS_PERIODS 26.5
/* A beat that comes this long after the last one has nothing lost before it. */
#define NEXT_PERIODS 1.5
/* Questions whose answers are still waited for. */
#define QUESTIONS 8u
/* Overdue: so many standard deviations after the mean. */
#define OVERDUE_SD 3

struct row {
    struct bw_peer peer;
    struct bw_phi_window window;
    struct bw_missed missed;
    bw_time beat_ns;             /* last beat; peer.heard_ns counts answers too */
    bw_time left_ns;             /* from peer.expires_ns to the verdict; 0: it is the verdict */
    bw_time asked_ns[QUESTIONS]; /* the newest questions, by number */
    uint32_t asked;              /* the number of the newest */
    uint32_t first;              /* that of the first in this silence */
    uint32_t samples[];
};

struct phi {
    struct bw_watch watch;
    enum bw_phi_model model;
    bw_time limit_ns; /* of any silence; NEVER: none */
    uint32_t window;
    double threshold;
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

/* The silence at which the phi of lost beats reaches the threshold; 0 on a link without loss. */
static double loss_patience(const struct phi *phi, const struct row *row)
{
    double weight = BW_BUG(phi_ignores_loss) ? INFINITY : bw_missed_weight(&row->missed);
    double periods = isinf(weight) ? 0 : phi->threshold / weight + NEXT_PERIODS;
    return (double)phi->watch.period_ns * (periods < LOSS_PERIODS ? periods : LOSS_PERIODS);
}

/* The silence at which phi reaches the threshold. */
static bw_time patience_ns(const struct phi *phi, const struct row *row)
{
    double mean = mean_ns(phi, row), loss = loss_patience(phi, row);
    double silence = phi->model == BW_PHI_EXPONENTIAL
                         ? phi->argument * mean
                         : mean + phi->pause_ns + phi->argument * sd_ns(phi, row);
    silence = silence > loss ? silence : loss;
    bw_time patience = silence < 1 ? 1 : (bw_time)ceil(silence);
    return bw_time_min(patience, phi->limit_ns);
}

/* Heard at `heard`: the next thing to happen is that it is overdue, never in the past, or, if that
 * is no earlier, the verdict. What is left to the verdict is kept as a span, so that it moves when
 * all expiries are put off. */
static void wait_for_next(struct phi *phi, struct row *row, bw_time heard, bw_time now)
{
    bw_time verdict = bw_time_add(heard, patience_ns(phi, row));
    bw_time overdue = heard + (bw_time)(mean_ns(phi, row) + OVERDUE_SD * sd_ns(phi, row));
    bw_time next = bw_time_min(bw_time_max(overdue, now), verdict);
    row->peer.heard_ns = heard;
    row->left_ns = verdict - next;
    row->first = row->asked + 1;
    bw_peers_expire_at(&phi->watch.peers, &row->peer, next);
}

static void expired(struct bw_watch *watch, struct bw_peer *peer, bw_time now,
                    struct bw_actions *actions)
{
    struct row *row = (struct row *)peer;
    if (row->left_ns == 0) {
        bw_watch_become_suspect(peer, BW_MEMBER_SUSPECT, watch->rule->level(watch, peer, now),
                                actions);
        return;
    }
    bw_time wait = bw_time_min(row->left_ns, bw_time_max(watch->period_ns / 2, 1));
    row->left_ns -= wait;
    row->asked_ns[++row->asked % QUESTIONS] = now;
    if (!BW_BUG(phi_never_asks))
        bw_watch_send(watch, BW_MSG_PING, peer->id, (uint64_t)watch->starts << 32 | row->asked,
                      actions);
    bw_peers_expire_at(&watch->peers, peer, bw_time_add(now, wait));
}

static void admit(struct bw_watch *watch, struct bw_peer *peer, bw_time now)
{
    struct phi *phi = (struct phi *)watch;
    struct row *row = (struct row *)peer;
    bw_time period = watch->period_ns;
    bw_phi_window_init(&row->window, period / UNITS_PER_PERIOD + 1, phi->window);
    bw_phi_window_add(&row->window, row->samples, period - period / 4);
    bw_phi_window_add(&row->window, row->samples, period + period / 4);
    bw_missed_init(&row->missed);
    row->beat_ns = now;
    wait_for_next(phi, row, now, now);
}

static void beat(struct bw_watch *watch, bw_time now, struct bw_actions *actions)
{
    (void)now;
    bw_watch_broadcast(watch, BW_MSG_HEARTBEAT, actions);
}

static void heard_beat(struct phi *phi, struct row *row, const struct bw_event *event,
                       struct bw_actions *actions)
{
    struct bw_peer *peer = &row->peer;
    uint64_t before = peer->seq;
    if (!bw_watch_hears(peer, event, actions))
        return;
    bool same_life = before != 0 && before >> 32 == peer->seq >> 32;
    bool calm = peer->status == BW_MEMBER_ALIVE || BW_BUG(phi_records_outage);
    if (same_life && calm) {
        bw_phi_window_add(&row->window, row->samples, event->now - row->beat_ns);
        bw_missed_heard(&row->missed, peer->seq - before - 1);
    }
    row->beat_ns = event->now;
    wait_for_next(phi, row, event->now, event->now);
    bw_watch_become_trusted(peer, actions);
}

/* An answer to question `number` of this silence. A suspicion is ended by a beat alone. */
static void heard_answer(struct phi *phi, struct row *row, const struct bw_event *event,
                         struct bw_actions *actions)
{
    struct bw_peer *peer = &row->peer;
    uint64_t seq = event->msg->probe.seq;
    uint32_t number = (uint32_t)seq;
    bool ours = seq >> 32 == phi->watch.starts && number >= row->first && number <= row->asked &&
                row->asked - number < QUESTIONS;
    bw_time asked = row->asked_ns[number % QUESTIONS];
    bool late = !ours || bw_time_add(asked, patience_ns(phi, row)) <= event->now;
    if (late || peer->status != BW_MEMBER_ALIVE) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_LATE, peer->id, seq, 0);
        return;
    }
    if (bw_watch_believes(peer, event->msg->probe.incarnation, event->now, actions))
        wait_for_next(phi, row, asked, event->now);
}

static void message(struct bw_watch *watch, struct bw_peer *peer, const struct bw_event *event,
                    struct bw_actions *actions)
{
    struct phi *phi = (struct phi *)watch;
    if (event->msg->kind == BW_MSG_PING)
        bw_watch_send(watch, BW_MSG_ACK, peer->id, event->msg->probe.seq, actions);
    else if (event->msg->kind == BW_MSG_ACK)
        heard_answer(phi, (struct row *)peer, event, actions);
    else
        heard_beat(phi, (struct row *)peer, event, actions);
}

static double model_level(const struct phi *phi, const struct row *row, double silence)
{
    double mean = mean_ns(phi, row);
    if (phi->model == BW_PHI_EXPONENTIAL)
        return bw_phi_exponential(silence / mean);
    double y = (silence - mean - phi->pause_ns) / sd_ns(phi, row);
    return phi->model == BW_PHI_LOGISTIC ? bw_phi_logistic(y) : bw_phi_normal(y);
}

static double level(const struct bw_watch *watch, const struct bw_peer *peer, bw_time now)
{
    const struct phi *phi = (const struct phi *)watch;
    const struct row *row = (const struct row *)peer;
    double silence = (double)(now - peer->heard_ns);
    if (row->window.count == 0)
        return 0; /* not started */
    double model = model_level(phi, row, silence), weight = bw_missed_weight(&row->missed);
    double beats = silence / (double)watch->period_ns - NEXT_PERIODS;
    if (isinf(weight) || beats * weight > model)
        return model;
    return beats > 0 ? beats * weight : 0;
}

static const struct bw_watch_rule rule = {
    .admit = admit, .beat = beat, .message = message, .expired = expired, .level = level};

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
                        .threshold = config->threshold,
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
