/* The origin of a request that a browser sends (RFC 6454), judged by its Origin and Host fields.
 *
 * A page of any web site can make a browser send requests to this server. The browser then adds the
 * page's origin. Only a page of this server has an origin that equals the request's Host, so
 * requests of other pages are refused (cross-site request forgery). A site can also let its own
 * name resolve to this server's address (DNS rebinding). Then both fields are equal, but contain
 * the site's name, not an address. Other clients send no Origin. Pure. */
#ifndef BW_SERVE_FRONT_ORIGIN_H
#define BW_SERVE_FRONT_ORIGIN_H

#include <stddef.h>

enum bw_origin {
    BW_ORIGIN_NONE,    /* not sent by a script of a page */
    BW_ORIGIN_ADDRESS, /* a page of this server, by an IP address or as localhost */
    BW_ORIGIN_NAME,    /* a page of this server, by another host name */
    BW_ORIGIN_FOREIGN
};

/* `origin` NULL: no Origin field. `host` NULL: no Host field. */
enum bw_origin bw_origin_judge(const char *origin, size_t origin_length, const char *host,
                               size_t host_length);

#endif
