/* The dashboard pages, made from web/dashboard at build time. Read-only data: they take no memory
 * and no time until a browser asks for them. */
#ifndef BW_DASHBOARD_PAGE_H
#define BW_DASHBOARD_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct bw_web_page {
    /* The Content-Security-Policy of the page: the browser runs only this script and applies only
     * this style sheet, by their hashes, and sends requests only to the server of the page. */
    const char *policy;
    const char *etag; /* weak, W/"...": the same for both forms; changes with the content */
    const char *plain, *gzip;
    size_t plain_length, gzip_length;
};

extern const struct bw_web_page bw_dashboard_serve; /* a node of `bellwether serve` */
extern const struct bw_web_page bw_dashboard_run;   /* a candidate of `bellwether run` or `peer` */

/* Largest page, plain or compressed; checked when the page is made. */
#define BW_WEB_PAGE_MAX 60000u

/* Whether a value of Accept-Encoding (RFC 9110, 12.5.3) names gzip with a weight above 0. */
bool bw_web_accepts_gzip(const char *value, size_t length);
/* Whether a value of If-None-Match (RFC 9110, 13.1.2) contains the tag, by weak comparison. */
bool bw_web_has_tag(const char *value, size_t length, const char *etag);

/* Whether a value of Host is an IP address or localhost, with or without a port. A browser sends
 * another name also for a web site that lets its own name resolve to this server (DNS rebinding).
 * The scripts of that site could read the response. */
bool bw_web_is_address(const char *host, size_t length);

#endif
