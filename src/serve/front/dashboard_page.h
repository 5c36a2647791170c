/* The dashboard as one page, made from web/dashboard at build time. Read-only data: it takes no
 * memory and no time until a browser asks for it. */
#ifndef BW_SERVE_FRONT_DASHBOARD_PAGE_H
#define BW_SERVE_FRONT_DASHBOARD_PAGE_H

#include <stddef.h>

extern const char bw_dashboard_page[];
extern const size_t bw_dashboard_page_length;
/* The Content-Security-Policy of the page: the browser runs only this script and applies only this
 * style sheet, by their hashes, and sends requests only to the server of the page. */
extern const char bw_dashboard_policy[];

#endif
