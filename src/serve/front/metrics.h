/* Writes the service's metrics in Prometheus format, with etcd's names where etcd has them. */
#ifndef BW_SERVE_FRONT_METRICS_H
#define BW_SERVE_FRONT_METRICS_H

#include "serve/front/json.h"

struct bw_front;

void bw_metrics_write(struct bw_json_text *text, const struct bw_front *front);

#endif
