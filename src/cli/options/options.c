/* Parses options by the tables of options.h. All options are long: --name value or --name=value, in
 * any order with operands. `--` ends the options. */
#include "cli/options/options.h"

#include "cli/options/config_file.h"
#include "core/base/parse_values.h"
#include "os/journal.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *bw_any_word(unsigned i)
{
    (void)i;
    return NULL;
}

int bw_usage_error(const struct bw_cli_command *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s%s: ", bw_journal_prefix(bw_journal_reads(STDERR_FILENO), BW_PRIORITY_ERROR),
            command->path);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return BW_EXIT_USAGE;
}

int bw_target_of(const struct bw_cli_command *command, const struct bw_parsed *parsed,
                 const char *what, const char **to)
{
    if (parsed->operands_count > 1)
        return bw_usage_error(command, "unexpected argument '%.60s': expected one %s",
                              parsed->operands[1], what);
    if (parsed->operands_count == 1 && *to && strcmp(*to, parsed->operands[0]) != 0)
        return bw_usage_error(command, "--to %.60s and the argument '%.60s' differ; give one %s",
                              *to, parsed->operands[0], what);
    if (parsed->operands_count == 1)
        *to = parsed->operands[0];
    if (!*to || !**to)
        return bw_usage_error(command, "missing %s; usage: %s --to ID", what, command->path);
    return BW_GO_ON;
}

static const char *nearest_word(const char *got, const char *(*word)(unsigned i))
{
    const char *best = NULL;
    for (unsigned i = 0; word(i); i++)
        if (bw_text_similar(got, word(i)) &&
            (!best || bw_text_distance(got, word(i)) < bw_text_distance(got, best)))
            best = word(i);
    return best;
}

int bw_unknown_word(char *why, const char *what, const char *got, const char *(*word)(unsigned i))
{
    size_t used = (size_t)snprintf(why, BW_WHY, "unknown %s '%.60s'; expected one of", what, got);
    const char *near = nearest_word(got, word);
    for (unsigned i = 0; word(i) && used < BW_WHY; i++)
        used += (size_t)snprintf(why + used, BW_WHY - used, "%s %s", i ? "," : "", word(i));
    if (near && used < BW_WHY)
        snprintf(why + used, BW_WHY - used, " (did you mean %s?)", near);
    return -1;
}

static bool last_row(const struct bw_option *option)
{
    return !option->name && !option->help;
}

static const struct bw_option *find_row(const struct bw_cli_command *command, const char *name,
                                        size_t length)
{
    for (const struct bw_option *o = command->options; !last_row(o); o++)
        if (o->name && strlen(o->name) == length && memcmp(o->name, name, length) == 0)
            return o;
    return NULL;
}

const struct bw_option *bw_options_find(const struct bw_cli_command *command, const char *name,
                                        size_t length)
{
    const char *common = bw_option_config.name;
    if (strlen(common) == length && memcmp(common, name, length) == 0)
        return &bw_option_config;
    return find_row(command, name, length);
}

static const struct bw_option *nearest_option(const struct bw_cli_command *command,
                                              const char *name)
{
    const struct bw_option *best = NULL;
    for (const struct bw_option *o = command->options; !last_row(o); o++)
        if (o->name && bw_text_similar(name, o->name) &&
            (!best || bw_text_distance(name, o->name) < bw_text_distance(name, best->name)))
            best = o;
    return best;
}

static int unknown_option(const struct bw_cli_command *command, const char *name, size_t length)
{
    char got[64];
    snprintf(got, sizeof got, "%.*s", (int)(length < 60 ? length : 60), name);
    const struct bw_option *near = nearest_option(command, got);
    if (near)
        return bw_usage_error(command, "unknown option --%s (did you mean --%s?)", got, near->name);
    return bw_usage_error(command, "unknown option --%s; see %s --help", got, command->path);
}

/* ---- the environment ---- */

void bw_options_twin(const struct bw_option *option, char *out, size_t size)
{
    int length = snprintf(out, size, "BELLWETHER_%s", option->name);
    for (int i = 0; i < length && (size_t)i < size; i++)
        out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
}

static bool means_no(const char *value)
{
    static const char *const no[] = {"", "0", "no", "off", "false"};
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (strcmp(value, no[i]) == 0)
            return true;
    return false;
}

/* Sets an option from the environment or a config file. For a switch and for an option whose value
 * is optional, an empty value, 0, no, off and false leave the option unset; yes, on and true set it
 * without a value. A switch also accepts 1. */
static int set_from_text(const struct bw_option *option, void *target, const char *value, char *why)
{
    if (option->form && option->form[0] != '[')
        return option->set(option, target, value, why);
    if (means_no(value))
        return 0;
    bool yes = strcmp(value, "yes") == 0 || strcmp(value, "on") == 0 || strcmp(value, "true") == 0;
    bool bare = !option->form || yes;
    if (!option->form && !yes && strcmp(value, "1") != 0) {
        snprintf(why, BW_WHY, "invalid value '%.60s': expected yes or no", value);
        return -1;
    }
    return option->set(option, target, bare ? NULL : value, why);
}

static int apply_environment(const struct bw_cli_command *command, void *target)
{
    char name[64], why[BW_WHY];
    for (const struct bw_option *o = command->options; !last_row(o); o++) {
        if (!o->name)
            continue;
        bw_options_twin(o, name, sizeof name);
        const char *value = getenv(name);
        if (value && *value && set_from_text(o, target, value, why) != 0)
            return bw_usage_error(command, "%s: %s", name, why);
    }
    return BW_GO_ON;
}

/* ---- the command line ---- */

struct cursor {
    const struct bw_cli_command *command;
    char **argv;
    int argc, at;
    void *target;
    struct bw_parsed *parsed;
};

/* Sets the option. Skips --config, which find_config has handled before all other options. */
static int accept(struct cursor *c, const struct bw_option *option, const char *value)
{
    char why[BW_WHY];
    if (option == &bw_option_config)
        return BW_GO_ON;
    if (option->set(option, c->target, value, why) != 0)
        return bw_usage_error(c->command, "--%s: %s", option->name, why);
    c->parsed->given[option - c->command->options] = true;
    return BW_GO_ON;
}

static int take_option(struct cursor *c, const char *arg)
{
    const char *equals = strchr(arg, '=');
    size_t length = equals ? (size_t)(equals - arg) : strlen(arg);
    const struct bw_option *option = bw_options_find(c->command, arg, length);
    if (!option)
        return unknown_option(c->command, arg, length);
    const char *value = equals ? equals + 1 : NULL;
    if (!option->form && value)
        return bw_usage_error(c->command, "--%s takes no value; write --%s", option->name,
                              option->name);
    if (option->form && option->form[0] != '[' && !value) {
        if (c->at >= c->argc)
            return bw_usage_error(c->command, "missing value for --%s; write --%s %s", option->name,
                                  option->name, option->form);
        value = c->argv[c->at++];
    }
    return accept(c, option, value);
}

static int take_operand(struct cursor *c, char *arg)
{
    if (!c->command->operand)
        return bw_usage_error(c->command,
                              "unexpected argument '%.60s': this command takes no operands, and "
                              "options begin with --",
                              arg);
    c->parsed->operands[c->parsed->operands_count++] = arg;
    return BW_GO_ON;
}

static int take(struct cursor *c, bool *only_operands)
{
    char *arg = c->argv[c->at++];
    if (*only_operands || arg[0] != '-' || arg[1] == '\0')
        return take_operand(c, arg);
    if (strcmp(arg, "--") == 0) {
        *only_operands = true;
        return BW_GO_ON;
    }
    if (arg[1] != '-')
        return bw_usage_error(c->command, "unknown option %.60s; options are long, see --help",
                              arg);
    return take_option(c, arg + 2);
}

/* Returns the config file to read: from the command line, else from the environment, else NULL.
 * Also notes which options the command line gives, so that the config file does not override them.
 * Ignores errors in the arguments; the second pass reports them. */
static const char *find_config(struct cursor *c)
{
    const char *path = getenv("BELLWETHER_CONFIG");
    for (int i = 0; i < c->argc && strcmp(c->argv[i], "--") != 0; i++) {
        const char *arg = c->argv[i];
        const char *equals = strchr(arg, '=');
        size_t length = equals ? (size_t)(equals - arg) : strlen(arg);
        if (length <= 2 || arg[0] != '-' || arg[1] != '-')
            continue;
        const struct bw_option *option = bw_options_find(c->command, arg + 2, length - 2);
        if (!option)
            continue;
        bool next = option->form && option->form[0] != '[' && !equals;
        if (option == &bw_option_config)
            path = equals ? equals + 1 : i + 1 < c->argc ? c->argv[i + 1] : NULL;
        else
            c->parsed->given[option - c->command->options] = true;
        i += next;
    }
    return path && *path ? path : NULL;
}

int bw_options_parse(const struct bw_cli_command *command, int argc, char **argv, void *target,
                     struct bw_parsed *parsed)
{
    struct cursor c = {command, argv, argc, 0, target, parsed};
    bool only_operands = false;
    memset(parsed, 0, sizeof *parsed);
    parsed->operands = argv; /* operands overwrite only arguments that were already read */
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            bw_options_help(command);
            return BW_EXIT_OK;
        }
    const char *config = find_config(&c);
    int code = config ? bw_config_apply(command, config, parsed, target) : BW_GO_ON;
    if (code == BW_GO_ON)
        code = apply_environment(command, target);
    while (code == BW_GO_ON && c.at < argc)
        code = take(&c, &only_operands);
    return code;
}

int bw_options_set(const struct bw_cli_command *command, const struct bw_parsed *parsed,
                   void *target, const char *name, const char *value, char *why)
{
    char text[BW_WHY];
    const struct bw_option *option = find_row(command, name, strlen(name));
    if (!option) {
        const struct bw_option *near = nearest_option(command, name);
        snprintf(why, BW_WHY,
                 "unknown setting '%.60s'; expected an option of %s without its dashes%s%s%s", name,
                 command->path, near ? " (did you mean " : "", near ? near->name : "",
                 near ? "?)" : "");
        return -1;
    }
    if (parsed->given[option - command->options])
        return 0;
    if (option->form && option->form[0] != '[' && !value) {
        snprintf(why, BW_WHY, "missing value for %s; write %s %s", name, name, option->form);
        return -1;
    }
    int error = value ? set_from_text(option, target, value, text)
                      : option->set(option, target, NULL, text);
    if (error != 0)
        snprintf(why, BW_WHY, "%.40s: %.*s", name, 340, text);
    return error;
}
