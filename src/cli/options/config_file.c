/* Reads a config file and applies its options; config_text.c parses the text. */
#include "cli/options/config_file.h"

#include "cli/commands.h"
#include "cli/options/config_text.h"
#include "core/base/limits.h"
#include "core/base/parse_values.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct bw_option bw_option_config = {
    .name = "config",
    .form = "FILE",
    .help = "read further options from FILE, one NAME = VALUE per line; the command line and the "
            "environment take precedence (default: no file)",
};

struct reading {
    const struct bw_cli_command *command;
    const struct bw_parsed *parsed;
    void *target;
    const struct bw_cli_command *section; /* NULL: before the first section, so for every command */
};

/* ---- which command, which option ---- */

static const char *words_behind_program(const struct bw_cli_command *command)
{
    const char *blank = strchr(command->path, ' ');
    return blank ? blank + 1 : "";
}

/* Returns the command below `top` that `[name]` denotes, or NULL. */
static const struct bw_cli_command *find_section(const struct bw_cli_command *top, const char *name)
{
    for (const struct bw_cli_command *const *sub = top->subs; sub && *sub; sub++) {
        if ((*sub)->options && strcmp(words_behind_program(*sub), name) == 0)
            return *sub;
        const struct bw_cli_command *below = find_section(*sub, name);
        if (below)
            return below;
    }
    return NULL;
}

/* Returns whether any command below `top` has the option `name`. If none has, *near is the most
 * similar option name, or NULL. */
static bool is_known(const struct bw_cli_command *top, const char *name, const char **near)
{
    bool known = false;
    for (const struct bw_option *o = top->options; o && (o->name || o->help) && !known; o++) {
        if (!o->name)
            continue;
        known = strcmp(o->name, name) == 0;
        if (bw_text_similar(name, o->name) &&
            (!*near || bw_text_distance(name, o->name) < bw_text_distance(name, *near)))
            *near = o->name;
    }
    for (const struct bw_cli_command *const *sub = top->subs; sub && *sub && !known; sub++)
        known = is_known(*sub, name, near);
    return known;
}

static bool is_in_environment(const struct bw_option *option)
{
    char name[64];
    bw_options_twin(option, name, sizeof name);
    const char *value = getenv(name);
    return value && *value;
}

/* ---- lines ---- */

static int take_section(struct reading *r, const char *name, char *why)
{
    r->section = find_section(&bw_command_top, name);
    if (r->section)
        return 0;
    snprintf(why, BW_CONFIG_WHY,
             "unknown command [%.60s]; expected a command that has options, for example [run] or "
             "[sim run]",
             name);
    return -1;
}

static int unknown(const struct reading *r, const char *name, const char *near, char *why)
{
    const char *whose = r->section ? r->section->path : "bellwether";
    snprintf(why, BW_CONFIG_WHY,
             "unknown setting '%.60s'; expected an option of %s without its dashes%s%s%s", name,
             whose, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
    return -1;
}

static int take(void *context, const struct bw_config_line *line, char *why)
{
    struct reading *r = context;
    if (!line->name)
        return take_section(r, line->section, why);
    const char *near = NULL;
    if (strcmp(line->name, bw_option_config.name) == 0) {
        snprintf(why, BW_CONFIG_WHY, "config: a config file cannot include another config file");
        return -1;
    }
    if (!is_known(r->section ? r->section : &bw_command_top, line->name, &near))
        return unknown(r, line->name, near, why);
    const struct bw_option *option = bw_options_find(r->command, line->name, strlen(line->name));
    bool ours = !r->section || r->section == r->command;
    if (!ours || !option || is_in_environment(option))
        return 0;
    if ((!line->value || *line->value == '\0') && option->form && option->form[0] != '[') {
        snprintf(why, BW_CONFIG_WHY, "missing value for %s; write %s = %s", line->name, line->name,
                 option->form);
        return -1;
    }
    char text[BW_WHY];
    int error = bw_options_set(r->command, r->parsed, r->target, line->name, line->value, text);
    if (error)
        snprintf(why, BW_CONFIG_WHY, "%s", text);
    return error;
}

/* ---- the file ---- */

/* Reads the whole file into `text`. Returns its length, or -1 with the reason in `why`. Never
 * blocks, because it accepts only regular files. */
static ssize_t read_whole(const char *path, char *text, size_t size, char *why)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0) {
        snprintf(why, BW_CONFIG_WHY, "%s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    const char *wrong =
        !S_ISREG(st.st_mode) ? "not a regular file"
        : st.st_mode & S_IWOTH
            ? "writable by every user, although it can name commands to run; use chmod o-w"
            : NULL;
    size_t used = 0;
    ssize_t got = 1;
    while (!wrong && used < size && got > 0) {
        got = read(fd, text + used, size - used);
        used += got > 0 ? (size_t)got : 0;
    }
    if (!wrong && got < 0)
        wrong = strerror(errno);
    close(fd);
    if (wrong)
        snprintf(why, BW_CONFIG_WHY, "%s", wrong);
    return wrong ? -1 : (ssize_t)used;
}

int bw_config_apply(const struct bw_cli_command *command, const char *path,
                    const struct bw_parsed *parsed, void *target)
{
    /* option values point into it until the process ends */
    static char text[BW_CONFIG_FILE_MAX + 2];
    char why[BW_CONFIG_WHY];
    struct reading reading = {command, parsed, target, NULL};
    ssize_t length = read_whole(path, text, BW_CONFIG_FILE_MAX + 1, why);
    if (length < 0)
        return bw_usage_error(command, "cannot read config file %.200s: %s", path, why);
    if ((size_t)length > BW_CONFIG_FILE_MAX)
        return bw_usage_error(command, "cannot read config file %.200s: longer than %u bytes", path,
                              BW_CONFIG_FILE_MAX);
    text[length] = '\0';
    unsigned line = bw_config_parse(text, (size_t)length, take, &reading, why);
    if (line)
        return bw_usage_error(command, "%.200s: line %u: %s", path, line, why);
    return BW_GO_ON;
}
