/* Phi-accrual and its variants: a silence is judged by the past intervals of the same link.
 *
 * phi = -log10(P(an interval is longer than this silence)). The intervals of the last `window`
 * beats are modelled as normal (the paper), by Akka's logistic approximation, or as
 * exponential (Cassandra). As in Akka, an acceptable pause is added to the mean and the standard
 * deviation has a minimum. Without them, any jitter after steady beats would cause a suspicion. The
 * exponential model needs neither.
 * "phi+deadline" is the normal model with a limit on any silence. It suspects when either condition
 * holds, so that a bad link does not make it wait without bound.
 *
 * Loss: on a link that loses beats the intervals are not normal; their tail is geometric and much
 * longer. So there is a second phi, computed from the loss rate (loss_rate.h): m beats lost in a
 * row give -m log10(rate). The lower phi counts: a member is suspected only when both reach the
 * threshold. With threshold 8, a link that loses one beat in five is allowed 12.9 periods of
 * silence. A link without loss gets no extra time. LOSS_PERIODS bounds the extra time.
 *
 * Pings: a loss that has just begun is not yet in the history. So the detector pings a member whose
 * beat is overdue, and repeats this every half period until a reply arrives or the verdict is
 * passed. This costs nothing while beats arrive. A reply counts from when its ping was sent and is
 * not a sample.
 *
 * The detector converts the threshold into a maximum silence when a beat arrives, so waiting needs
 * only one timer. At first, two made-up intervals around the period serve as history. The interval
 * that ends a suspicion is not recorded, because an outage does not show how the link normally
 * behaves.
 *
 * Model: crash and restart, lossy links.
 *
 * Guarantees: a crash is noticed when phi passes the threshold. The level is exposed, so that users
 * may act at another threshold.
 *
 * Not guaranteed: fast detection on slow and lossy links, because the detector adapts to them. If
 * the link between two healthy members is cut, each suspects the other.
 *
 * Source: Hayashibara, Defago, Yared, Katayama 2004, "The phi Accrual Failure Detector". */
#include "core/base/assert.h"
#include "core/detect/phi_math.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/detect/beat_detector.h"
#include "core/detect/loss_rate.h"

#include <math.h>

#define UNITS_PER_PERIOD 65536
/* Maximum silence that loss can justify; reached at a loss rate of 0.48 with threshold 8. */
#define LOSS_PERIODS 26.5
/* If the next beat comes within this time after the last one, no beat between them was lost. */
#define NEXT_PERIODS 1.5
/* Pings whose replies still count. */
#define PINGS_KEPT 8u
/* A beat is overdue this many standard deviations after the mean. */
#define OVERDUE_SD 3

struct row {
    struct bw_detector_peer peer;
    struct bw_phi_window window;
    struct bw_missed missed;
    bw_time beat_ns; /* last beat; peer.received_ns also counts replies to pings */
    /* time from peer.expires_ns to the verdict; 0: pass the verdict at expires_ns */
    bw_time left_ns;
    bw_time asked_ns[PINGS_KEPT]; /* send times of the newest pings, by number */
    uint32_t asked;               /* number of the newest ping */
    uint32_t first;               /* number of the first ping in this silence */
    uint32_t samples[];
};

struct phi {
    struct bw_watch watch;
    enum bw_phi_model model;
    bw_time limit_ns; /* maximum of any silence; NEVER: none */
    uint32_t window;
    double threshold;
    double argument; /* argument of the model at the threshold */
    double pause_ns, min_sd_ns;
};

static double sd_ns(const struct phi *phi, const struct row *row)
{
    double sd = bw_phi_window_sd_ns(&row->window);
    return sd > phi->min_sd_ns ? sd : phi->min_sd_ns;
}

/* The mean interval, at least half a period. Beats that were delayed by a pause arrive together.
 * Without the minimum, a window full of such short intervals would make every next beat late. And
 * as the interval that ends a suspicion is not recorded, the window would never recover. */
static double mean_ns(const struct phi *phi, const struct row *row)
{
    double mean = bw_phi_window_mean_ns(&row->window), least = (double)phi->watch.period_ns / 2;
    return mean > least ? mean : least;
}

/* The silence at which the phi of lost beats reaches the threshold; 0 on a link without loss. */
static double loss_max_silence(const struct phi *phi, const struct row *row)
{
    double weight = BW_BUG(phi_ignores_loss) ? INFINITY : bw_missed_weight(&row->missed);
    double periods = isinf(weight) ? 0 : phi->threshold / weight + NEXT_PERIODS;
    return (double)phi->watch.period_ns * (periods < LOSS_PERIODS ? periods : LOSS_PERIODS);
}

/* The silence at which phi reaches the threshold. */
static bw_time max_silence_ns(const struct phi *phi, const struct row *row)
{
    double mean = mean_ns(phi, row), loss = loss_max_silence(phi, row);
    double silence = phi->model == BW_PHI_EXPONENTIAL
                         ? phi->argument * mean
                         : mean + phi->pause_ns + phi->argument * sd_ns(phi, row);
    silence = silence > loss ? silence : loss;
    bw_time max_silence = silence < 1 ? 1 : (bw_time)ceil(silence);
    return bw_time_min(max_silence, phi->limit_ns);
}

/* A sign of life dates from `received`. Schedules the next expiry: the time when the next beat is
 * overdue (never in the past), or the verdict if that is not later. The time left until the verdict
 * is kept as a span, so that it moves when all expiries are postponed. */
static void wait_for_next(struct phi *phi, struct row *row, bw_time received, bw_time now)
{
    bw_time verdict = bw_time_add(received, max_silence_ns(phi, row));
    bw_time overdue = received + (bw_time)(mean_ns(phi, row) + OVERDUE_SD * sd_ns(phi, row));
    bw_time next = bw_time_min(bw_time_max(overdue, now), verdict);
    row->peer.received_ns = received;
    row->left_ns = verdict - next;
    row->first = row->asked + 1;
    bw_peers_expire_at(&phi->watch.peers, &row->peer, next);
}

static void expired(struct bw_watch *watch, struct bw_detector_peer *peer, bw_time now,
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
    row->asked_ns[++row->asked % PINGS_KEPT] = now;
    if (!BW_BUG(phi_never_asks))
        bw_watch_send(watch, BW_MSG_PING, peer->id, (uint64_t)watch->starts << 32 | row->asked,
                      actions);
    bw_peers_expire_at(&watch->peers, peer, bw_time_add(now, wait));
}

static void admit(struct bw_watch *watch, struct bw_detector_peer *peer, bw_time now)
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

static void receive_beat(struct phi *phi, struct row *row, const struct bw_event *event,
                         struct bw_actions *actions)
{
    struct bw_detector_peer *peer = &row->peer;
    uint64_t before = peer->seq;
    if (!bw_watch_accept_heartbeat(peer, event, actions))
        return;
    bool same_start = before != 0 && before >> 32 == peer->seq >> 32;
    bool was_alive = peer->status == BW_MEMBER_ALIVE || BW_BUG(phi_records_outage);
    if (same_start && was_alive) {
        bw_phi_window_add(&row->window, row->samples, event->now - row->beat_ns);
        bw_missed_received(&row->missed, peer->seq - before - 1);
    }
    row->beat_ns = event->now;
    wait_for_next(phi, row, event->now, event->now);
    bw_watch_become_trusted(peer, actions);
}

/* Handles the reply to a ping of this silence. Only a beat ends a suspicion. */
static void receive_reply(struct phi *phi, struct row *row, const struct bw_event *event,
                          struct bw_actions *actions)
{
    struct bw_detector_peer *peer = &row->peer;
    uint64_t seq = event->msg->probe.seq;
    uint32_t number = (uint32_t)seq;
    bool ours = seq >> 32 == phi->watch.starts && number >= row->first && number <= row->asked &&
                row->asked - number < PINGS_KEPT;
    bw_time asked = row->asked_ns[number % PINGS_KEPT];
    bool late = !ours || bw_time_add(asked, max_silence_ns(phi, row)) <= event->now;
    if (late || peer->status != BW_MEMBER_ALIVE) {
        bw_actions_trace(actions, BW_TRACE_IGNORED_LATE, peer->id, seq, 0);
        return;
    }
    if (BW_ALWAYS(
            bw_watch_accept_incarnation(peer, event->msg->probe.incarnation, event->now, actions)))
        wait_for_next(phi, row, asked, event->now);
}

static void message(struct bw_watch *watch, struct bw_detector_peer *peer,
                    const struct bw_event *event, struct bw_actions *actions)
{
    struct phi *phi = (struct phi *)watch;
    if (event->msg->kind == BW_MSG_PING)
        bw_watch_send(watch, BW_MSG_ACK, peer->id, event->msg->probe.seq, actions);
    else if (event->msg->kind == BW_MSG_ACK)
        receive_reply(phi, (struct row *)peer, event, actions);
    else
        receive_beat(phi, (struct row *)peer, event, actions);
}

static double model_level(const struct phi *phi, const struct row *row, double silence)
{
    double mean = mean_ns(phi, row);
    if (phi->model == BW_PHI_EXPONENTIAL)
        return bw_phi_exponential(silence / mean);
    double y = (silence - mean - phi->pause_ns) / sd_ns(phi, row);
    return phi->model == BW_PHI_LOGISTIC ? bw_phi_logistic(y) : bw_phi_normal(y);
}

static double level(const struct bw_watch *watch, const struct bw_detector_peer *peer, bw_time now)
{
    const struct phi *phi = (const struct phi *)watch;
    const struct row *row = (const struct row *)peer;
    double silence = (double)(now - peer->received_ns);
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
    PHI_OPS("phi", "accrual: judges a silence by the past intervals of the link; normal model",
            init_normal);
const struct bw_detector_ops bw_detect_phi_logistic =
    PHI_OPS("phi-logistic", "accrual with Akka's logistic approximation", init_logistic);
const struct bw_detector_ops bw_detect_phi_exponential =
    PHI_OPS("phi-exponential", "accrual with Cassandra's exponential model", init_exponential);
const struct bw_detector_ops bw_detect_phi_deadline =
    PHI_OPS("phi+deadline", "accrual with a limit: suspects when phi or the silence is too high",
            init_deadline);
