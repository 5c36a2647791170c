/* The inside of the services. */
#ifndef BW_SERVE_SERVICE_STATE_H
#define BW_SERVE_SERVICE_STATE_H

#include "serve/api/password.h"
#include "serve/api/service.h"

#define WAIT_BUCKETS 16384u /* a power of two */
#define ROOM_BYTES   65536u
#define WATCHERS_MAX 100000u

struct room {
    struct room *next;
    size_t used, size;
    _Alignas(16) unsigned char bytes[];
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
    struct room *room;
    struct bw_bindings *bindings; /* binding.c; NULL: none yet */
    struct bw_passwords *passwords;
    struct bw_call import; /* on whose behalf users are taken in (import.c) */
    uv_timer_t *import_timer;
    bool users_told; /* that there are some */
    bool leaving;    /* calls end because this node does */
    uv_idle_t *busy; /* news.c: watchers are ready beyond one turn; NULL: not needed yet */
    struct bw_catch_up *behind; /* who wants to know when no watcher is */
    void (*closed)(void *context);
};

/* news.c */
void bw_service_news_open(struct bw_service *service);
void bw_service_news_close(struct bw_service *service);

/* import.c */
void bw_service_import_open(struct bw_service *service);
void bw_service_import_close(struct bw_service *service);

#endif
