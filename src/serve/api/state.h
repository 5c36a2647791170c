/* Internal state of the services. */
#ifndef BW_SERVE_API_STATE_H
#define BW_SERVE_API_STATE_H

#include "serve/api/service.h"
#include "serve/auth/password.h"

#define WAIT_BUCKETS 16384u /* a power of two */
/* Allocated once, so that responses of ordinary size never lack memory. The largest of them is one
 * response of a watch (watch.c). */
#define SCRATCH_BYTES (512u << 10)
#define WATCHERS_MAX  100000u

struct scratch {
    struct scratch *next;
    size_t used, size;
    _Alignas(16) unsigned char bytes[];
};

struct bw_pace {                  /* pace.c */
    struct bw_wait *first, **end; /* reads with large responses that wait for their turn */
    uv_timer_t *timer;            /* ends the rest while reads wait; NULL: not needed yet */
    uint64_t turn_ms;             /* the loop's time of the turn to which `built` belongs */
    size_t built;                 /* bytes of responses */
    uint64_t rest_until_ms;
    bool serving; /* the first of the queue is answered now */
};

struct leader_view { /* dashboard.c: times are from uv_hrtime */
    bw_node leader;
    uint64_t since;     /* when this node learned of it */
    uint64_t lost;      /* when the leader before it was lost; 0: none was */
    uint64_t hand_over; /* time without a leader before this one; 0: none was lost */
    bool found;         /* it led before this node knew it */
};

struct bw_service {
    struct bw_service_options options;
    struct bw_replica *replica;
    struct bw_wait **buckets;
    uint32_t waiting;
    struct bw_watches *watches;
    void *watch_memory;
    size_t watch_bytes;
    struct bw_results results;
    struct scratch *scratch;
    struct bw_bindings *bindings; /* binding.c; NULL: none yet */
    struct bw_passwords *passwords;
    struct bw_compactor *compactor; /* NULL: no automatic compaction */
    struct bw_call import;          /* the import of users runs on behalf of this call */
    uv_timer_t *import_timer;
    struct bw_awaiting *awaiting; /* await_level.c: proposals that wait */
    uint32_t awaiting_count;
    uv_timer_t *await_timer; /* NULL: not needed yet */
    uint64_t leaderless_ms;  /* when the leader was lost, by the loop's clock; 0: there is one */
    uint64_t restores;       /* how often another node's snapshot replaced the registry */
    struct bw_call_figures *figures;
    uint64_t raising;    /* alarm.c: request that raises the alarm; 0: none */
    uint64_t bytes;      /* alarm.c: content after the last change */
    bool users_reported; /* options.users_known was called */
    bool leaving;        /* calls end because this node shuts down */
    uv_idle_t *busy; /* watch_notify.c: watchers are ready beyond one turn; NULL: not needed yet */
    struct bw_catch_up *behind; /* waits until no watcher is behind */
    struct bw_pace pace;
    struct leader_view leader;
    struct bw_dashboard *dashboard; /* dashboard.c; NULL: no page is open */
    uint32_t (*list_clients)(void *context, struct bw_client_view *out, uint32_t size);
    void *clients_context;
    void (*closed)(void *context);
};

/* dashboard.c */
void bw_dashboard_note_leader(struct bw_service *service, bw_node leader);

/* watch_notify.c */
void bw_service_notify_open(struct bw_service *service);
void bw_service_notify_close(struct bw_service *service);

/* pace.c: removes a held read from the queue, if it is there */
void bw_service_pace_forget(struct bw_wait *wait);
void bw_service_pace_close(struct bw_service *service);

/* Answers the read that a call holds. */
void bw_call_answer_held(struct bw_call *call);

/* await_level.c: the call is gone: drops its proposals that wait. */
void bw_service_await_forget(struct bw_call *call);
void bw_service_await_close(struct bw_service *service);

/* compact.c; open returns 0 or BW_ENOMEM */
int bw_service_compactor_open(struct bw_service *service);
void bw_service_compactor_close(struct bw_service *service);

/* import.c */
void bw_service_import_open(struct bw_service *service);
void bw_service_import_close(struct bw_service *service);

#endif
