/* `bellwether timeline`: draws the leaderships of a real incident, with the code that draws the
 * simulator's pictures. */
#include "cli/commands.h"
#include "cli/timeline/incident.h"
#include "core/base/error.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define EXIT_DATA 65
#define ROWS_MAX  2000u

struct timeline_options {
    const char *election, *output, *title;
    bool skip_invalid;
};

static const struct bw_option options[] = {
    {.name = "election",
     .form = "NAME",
     .help = "election to draw (default: the only one in the files)",
     .set = bw_set_text,
     .offset = offsetof(struct timeline_options, election)},
    {.name = "output",
     .form = "FILE",
     .help = "file to write: NAME.svg, NAME.html, or - for SVG on standard output (default: -)",
     .set = bw_set_text,
     .offset = offsetof(struct timeline_options, output)},
    {.name = "title",
     .form = "TEXT",
     .help = "title of the picture (default: the name of the election)",
     .set = bw_set_text,
     .offset = offsetof(struct timeline_options, title)},
    {.name = "skip-invalid",
     .help = "ignore lines that are not events, and report their number (default: refuse them)",
     .set = bw_set_switch,
     .offset = offsetof(struct timeline_options, skip_invalid)},
    {.name = NULL},
};

static void put_time(char out[40], bw_time at)
{
    time_t seconds = (time_t)(at / BW_SEC);
    struct tm utc;
    size_t used = strftime(out, 40, "%Y-%m-%d %H:%M:%S", gmtime_r(&seconds, &utc));
    snprintf(out + used, 40 - used, ".%03dZ", (int)(at % BW_SEC / BW_MS));
}

static void put_cell(FILE *out, const char *text)
{
    fputs("<td>", out);
    bw_svg_escape(out, text);
    fputs("</td>", out);
}

static void put_row(FILE *out, const struct bw_incident_event *event)
{
    char text[64];
    put_time(text, event->at);
    fputs("<tr>", out);
    put_cell(out, text);
    put_cell(out, event->who);
    put_cell(out, event->event);
    snprintf(text, sizeof text, "%llu", (unsigned long long)event->token);
    put_cell(out, event->token ? text : "");
    put_cell(out, event->message[0] ? event->message : event->reason);
    fputs("</tr>\n", out);
}

/* One page without scripts that requests nothing. */
static void put_html(FILE *out, const struct bw_incident *incident,
                     const struct bw_incident_events *events, const char *title,
                     const char *subtitle)
{
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
          out);
    bw_svg_escape(out, title);
    fputs("</title>\n<style>body{font:14px system-ui,sans-serif;margin:12px}svg{max-width:100%;"
          "height:auto}td{padding:1px 14px 1px 0;vertical-align:top}</style></head><body>\n",
          out);
    bw_timeline_draw(&incident->timeline, NULL, title, subtitle, out);
    fputs("<h2>Events</h2>\n<table>\n", out);
    for (size_t i = 0; i < events->count && i < ROWS_MAX; i++)
        put_row(out, &events->at[i]);
    fputs("</table>\n", out);
    if (events->count > ROWS_MAX)
        fprintf(out, "<p>%zu more events are not listed.</p>\n", events->count - ROWS_MAX);
    fputs("</body></html>\n", out);
}

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

static int write_picture(const struct bw_cli_command *command,
                         const struct timeline_options *options_given,
                         const struct bw_incident *incident,
                         const struct bw_incident_events *events)
{
    const char *path = options_given->output ? options_given->output : "-";
    const char *title = options_given->title ? options_given->title : events->election;
    bool standard = strcmp(path, "-") == 0;
    char begin[40], span[BW_TEXT_SPAN], subtitle[200];
    put_time(begin, incident->begin);
    snprintf(subtitle, sizeof subtitle,
             "from %s, %s, %zu events; times are each machine's own clock", begin,
             bw_term_span(span, incident->timeline.end), events->count);
    FILE *out = standard ? stdout : fopen(path, "we");
    bool good = out;
    if (out && ends_in(path, ".html"))
        put_html(out, incident, events, title, subtitle);
    else if (out)
        bw_timeline_draw(&incident->timeline, NULL, title, subtitle, out);
    if (out)
        good = !ferror(out);
    if (out && !standard)
        good = fclose(out) == 0 && good;
    if (!good) {
        fprintf(stderr, "%s: cannot write %s: %s\n", command->path, path, strerror(errno));
        return BW_EXIT_IO;
    }
    return BW_EXIT_OK;
}

static int draw(const struct bw_cli_command *command, const struct timeline_options *given,
                struct bw_incident_events *events)
{
    struct bw_incident incident;
    bw_events_sort(events);
    if (events->skipped)
        fprintf(stderr, "%s: ignored %llu invalid lines\n", command->path,
                (unsigned long long)events->skipped);
    if (events->count == 0) {
        fprintf(stderr, "%s: the files contain no event%s%s\n", command->path,
                given->election ? " of election " : "", given->election ? given->election : "");
        return EXIT_DATA;
    }
    int error = bw_incident_init(&incident, events);
    if (error) {
        fprintf(stderr, "%s: cannot draw: %s\n", command->path,
                error == BW_ELIMIT ? "more than 50 candidates" : "out of memory");
        return error == BW_ELIMIT ? EXIT_DATA : 71;
    }
    int code = write_picture(command, given, &incident, events);
    bw_incident_deinit(&incident);
    return code;
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct timeline_options given = {0};
    struct bw_incident_events events = {0};
    struct bw_parsed parsed;
    char why[BW_EVENTS_WHY_MAX + 1];
    int code = bw_options_parse(command, argc, argv, &given, &parsed);
    if (code != BW_GO_ON)
        return code;
    if (parsed.operands_count == 0)
        return bw_usage_error(command, "missing file; usage: bellwether timeline FILE...");
    if (given.output && strcmp(given.output, "-") != 0 && !ends_in(given.output, ".svg") &&
        !ends_in(given.output, ".html"))
        return bw_usage_error(
            command, "invalid --output '%.100s': expected NAME.svg, NAME.html or -", given.output);
    code = 0;
    for (int i = 0; i < parsed.operands_count && code == 0; i++)
        code = bw_events_read(&events, parsed.operands[i], given.election,
                              given.skip_invalid ? BW_INVALID_SKIP : BW_INVALID_REFUSE, why);
    if (code != 0)
        fprintf(stderr, "%s: %s\n", command->path, why);
    else
        code = draw(command, &given, &events);
    bw_events_deinit(&events);
    return code;
}

const struct bw_cli_command bw_command_timeline = {
    .name = "timeline",
    .path = "bellwether timeline",
    .usage = "[--election NAME] [--output FILE] FILE...",
    .about = "draw a real incident from logs and `observe --json`, as SVG or HTML",
    .text =
        "Each FILE contains JSON lines: the output of `bellwether observe --json`, or the log of\n"
        "`run` or `peer` with --log json; - is standard input. Give the logs of all machines:\n"
        "their lines are sorted by time. The picture has a lane per candidate, a bar while it\n"
        "leads (hatched while its work does not run), and a strip that shows when no candidate\n"
        "or two acted. Clocks of machines differ: small overlaps may be the clocks'.\n"
        "Exit code: 0; 64 invalid usage; 65 a line is not an event (the message names file and\n"
        "line); 74 a file cannot be read or written.\n",
    .options = options,
    .operand = bw_any_word,
    .run = run,
};
