/* The split-brain event, and its counter in Prometheus' text format. */
#include "fence/split_brain_event.h"

#include "fence/guard_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define METRIC "bellwether_split_brain_total"

/* JSON and Prometheus labels escape quote, backslash and newline in the same way. Other control
 * bytes become \u00XX, which a label may contain. */
static void escape(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (; *text && used + 7 < size; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            used += (size_t)snprintf(out + used, size - used, "\\%c", c);
        else if (c == '\n')
            used += (size_t)snprintf(out + used, size - used, "\\n");
        else if (c < 0x20)
            used += (size_t)snprintf(out + used, size - used, "\\u%04x", c);
        else
            out[used++] = (char)c;
    }
    out[used] = '\0';
}

void bw_guard_report(FILE *out, const struct bw_guard_verdict *verdict, const char *resource,
                     bool json)
{
    char name[PATH_MAX];
    if (!json) {
        fprintf(out,
                "split brain: token %" PRIu64 " came after %" PRIu64
                " at %s: a former leader still acts; rejected\n",
                verdict->token, verdict->highest, resource);
        return;
    }
    escape(resource, name, sizeof name);
    fprintf(out,
            "{\"event\":\"split_brain\",\"how\":\"token\",\"resource\":\"%s\",\"token\":%" PRIu64
            ",\"highest\":%" PRIu64 ",\"action\":\"rejected\"}\n",
            name, verdict->token, verdict->highest);
}

/* Reads the number after the last blank; 0 if the file is missing or has another format. */
static uint64_t counted(const char *path)
{
    char text[PATH_MAX + 512] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    const char *line = length > 0 ? strstr(text, "\n" METRIC "{") : NULL;
    const char *blank = line ? strrchr(line, ' ') : NULL;
    uint64_t count = 0;
    return blank && sscanf(blank, " %" SCNu64, &count) == 1 ? count : 0;
}

int bw_guard_count_one(const struct bw_guard *guard, const char *metrics_path, char *why)
{
    char name[PATH_MAX], text[PATH_MAX + 512];
    escape(guard->path, name, sizeof name);
    int length = snprintf(text, sizeof text,
                          "# HELP " METRIC " Stale tokens rejected: a former leader still acts.\n"
                          "# TYPE " METRIC " counter\n" METRIC "{resource=\"%s\"} %" PRIu64 "\n",
                          name, counted(metrics_path) + 1);
    if (strlen(metrics_path) + 16 > PATH_MAX)
        return bw_guard_error(why, BW_EINVAL, "the metrics file's path is too long");
    return bw_guard_replace(guard, metrics_path, text, (size_t)length, why);
}
