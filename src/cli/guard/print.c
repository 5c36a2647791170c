/* `bellwether guard print`: prints a guard for users to install in the storage they write to. The
 * SQLite guard is part of the library and prints itself. The texts of all others are in
 * src/fence/guards. */
#include "cli/guard/guard.h"

#include "fence/guard_sqlite.h"
#include "fence/guard_text.h"

#include <string.h>

#define OWN "sqlite"

struct print_options {
    const char *table, *column;
};

static const struct bw_option print_options[] = {
    {.name = "table",
     .form = "NAME",
     .help = "sqlite, postgres: table to guard with triggers; each row stores the token of its "
             "writer (default: no table)",
     .set = bw_set_text,
     .offset = offsetof(struct print_options, table)},
    {.name = "column",
     .form = "NAME",
     .help = "column of --table that stores the token (default: bw_token)",
     .set = bw_set_text,
     .offset = offsetof(struct print_options, column)},
    {.name = NULL},
};

static const char *word_print(unsigned i)
{
    return i == 0 ? OWN : bw_guard_texts[i - 1].name;
}

static const struct bw_guard_text *find_text(const char *name)
{
    for (const struct bw_guard_text *text = bw_guard_texts; text->name; text++)
        if (strcmp(name, text->name) == 0)
            return text;
    return NULL;
}

static int print(const struct bw_cli_command *command, const char *name,
                 const struct print_options *options)
{
    char why[BW_WHY];
    const struct bw_guard_text *text = find_text(name);
    if (!text && strcmp(name, OWN) != 0) {
        bw_unknown_word(why, "guard", name, word_print);
        return bw_usage_error(command, "%s", why);
    }
    if (text && options->table && !text->table)
        return bw_usage_error(command, "--table: the guard for %s does not support tables", name);
    int error = text ? bw_guard_text_print(stdout, text, options->table, options->column)
                     : bw_guard_sqlite_print(stdout, options->table, options->column);
    if (error != 0)
        return bw_usage_error(command,
                              "invalid --table or --column: the name is too long or not printable");
    return BW_EXIT_OK;
}

static int run_print(const struct bw_cli_command *command, int argc, char **argv)
{
    struct print_options options = {.column = "bw_token"};
    struct bw_parsed parsed;
    int code = bw_options_parse(command, argc, argv, &options, &parsed);
    if (code != BW_GO_ON)
        return code;
    if (parsed.operands_count != 1)
        return bw_usage_error(command, "missing NAME; usage: %s NAME, for example %s " OWN,
                              command->path, command->path);
    return print(command, parsed.operands[0], &options);
}

const struct bw_cli_command bw_command_guard_print = {
    .name = "print",
    .path = "bellwether guard print",
    .usage = "NAME [--table NAME [--column NAME]]",
    .about = "print a guard to install in your storage: SQL, a script or a condition",
    .text = "An unknown NAME prints the list of known ones. Pipe SQL into the database:\n"
            "  bellwether guard print sqlite | sqlite3 app.db\n"
            "  bellwether guard print postgres --table orders | psql app\n",
    .options = print_options,
    .operand = word_print,
    .run = run_print,
};
