/* See origin.h. */
#include "serve/front/origin.h"

#include "core/base/bug.h"
#include "dashboard/page.h"

#include <string.h>
#include <strings.h>

enum bw_origin bw_origin_judge(const char *origin, size_t origin_length, const char *host,
                               size_t host_length)
{
    static const char *const schemes[] = {"http://", "https://"};
    if (!origin)
        return BW_ORIGIN_NONE;
    for (size_t i = 0; i < 2 && host && host_length; i++) {
        size_t skip = strlen(schemes[i]);
        if (origin_length == skip + host_length && strncasecmp(origin, schemes[i], skip) == 0 &&
            (strncasecmp(origin + skip, host, host_length) == 0 || BW_BUG(origin_is_not_compared)))
            return bw_web_is_address(host, host_length) ? BW_ORIGIN_ADDRESS : BW_ORIGIN_NAME;
    }
    return BW_ORIGIN_FOREIGN;
}
