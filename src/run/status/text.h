/* The text of a response of the status endpoint, written piece by piece. */
#ifndef BW_RUN_STATUS_TEXT_H
#define BW_RUN_STATUS_TEXT_H

#include "run/status/pages.h"

#define BW_PAGE_HEAD_MAX 512u

struct bw_page {
    int status;
    const char *type;
    size_t used;
    char text[BW_HTTP_ANSWER_MAX - BW_PAGE_HEAD_MAX];
};

__attribute__((format(printf, 2, 3))) void bw_page_put(struct bw_page *page, const char *format,
                                                       ...);
/* Writes a JSON string. Bytes that are not valid UTF-8 become '?'. */
void bw_page_put_json(struct bw_page *page, const char *text);
/* Writes a label value with Prometheus' escapes. */
void bw_page_put_label(struct bw_page *page, const char *text);

/* metrics.c: writes all metrics of a candidate. */
void bw_page_put_metrics(struct bw_page *page, const struct bw_status_view *view);

#endif
