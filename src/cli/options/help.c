/* Prints --help and shell completions from the tables of options.h. */
#include "cli/options/config_file.h"

#include <string.h>

#define HELP_COLUMN 30
#define HELP_WIDTH  96

static bool last_row(const struct bw_option *option)
{
    return !option->name && !option->help;
}

/* Prints words wrapped at HELP_WIDTH. Every line starts at column `indent`. */
static void print_wrapped(const char *text, int indent)
{
    int column = indent;
    while (*text) {
        int length = (int)strcspn(text, " ");
        bool first = column == indent;
        if (!first && column + 1 + length > HELP_WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
            first = true;
        }
        printf("%s%.*s", first ? "" : " ", length, text);
        column += length + !first;
        text += length;
        text += *text == ' ';
    }
    putchar('\n');
}

static void print_option(const struct bw_option *option)
{
    char left[64];
    const char *form = option->form;
    if (!form)
        snprintf(left, sizeof left, "  --%s", option->name);
    else if (form[0] == '[')
        snprintf(left, sizeof left, "  --%s[=%.*s]", option->name, (int)strlen(form) - 2, form + 1);
    else
        snprintf(left, sizeof left, "  --%s %s", option->name, form);
    int width = printf("%s", left);
    if (width >= HELP_COLUMN - 1) {
        putchar('\n');
        width = 0;
    }
    printf("%*s", HELP_COLUMN - width, "");
    print_wrapped(option->help, HELP_COLUMN);
}

void bw_options_help(const struct bw_cli_command *command)
{
    printf("%s: %s\n\nusage: %s %s\n", command->path, command->about, command->path,
           command->usage);
    if (command->subs)
        printf("\ncommands:\n");
    for (const struct bw_cli_command *const *sub = command->subs; sub && *sub; sub++)
        printf("  %-10s %s\n", (*sub)->name, (*sub)->about);
    for (const struct bw_option *o = command->options; o && !last_row(o); o++) {
        if (o->name)
            print_option(o);
        else
            printf("\n%s:\n", o->help);
    }
    if (command->options) {
        printf("\nall commands:\n");
        print_option(&bw_option_config);
    }
    if (command->text)
        printf("\n%s", command->text);
}

/* ---- completion ---- */

static void offer(const char *word, const char *prefix, const char *start)
{
    if (strncmp(word, start, strlen(start)) == 0)
        printf("%s%s\n", prefix, word);
}

static void offer_options(const struct bw_cli_command *command, const char *start)
{
    offer("help", "--", start);
    if (command->options)
        offer(bw_option_config.name, "--", start);
    for (const struct bw_option *o = command->options; o && !last_row(o); o++)
        if (o->name)
            offer(o->name, "--", start);
}

static const struct bw_option *option_named(const struct bw_cli_command *command, const char *arg)
{
    bool is_option = command->options && arg[0] == '-' && arg[1] == '-';
    return is_option ? bw_options_find(command, arg + 2, strlen(arg + 2)) : NULL;
}

static void offer_words(const char *(*word)(unsigned i), const char *start)
{
    for (unsigned i = 0; word && word(i); i++)
        offer(word(i), "", start);
}

int bw_options_complete(const struct bw_cli_command *top, int count, char **words)
{
    const struct bw_cli_command *command = top;
    const char *start = count > 0 ? words[count - 1] : "";
    const struct bw_option *before = NULL;
    int at = 0;
    for (bool deeper = true; deeper && at + 1 < count; at += deeper) {
        deeper = false;
        for (const struct bw_cli_command *const *sub = command->subs; sub && *sub && !deeper; sub++)
            if (strcmp((*sub)->name, words[at]) == 0) {
                command = *sub;
                deeper = true;
            }
    }
    if (count >= 2)
        before = option_named(command, words[count - 2]);
    if (before && before->form && before->form[0] != '[')
        offer_words(before->word, start);
    else if (strncmp(start, "-", 1) == 0)
        offer_options(command, strncmp(start, "--", 2) == 0 ? start + 2 : "");
    else
        offer_words(command->operand, start);
    for (const struct bw_cli_command *const *sub = command->subs; sub && *sub && at + 1 >= count;
         sub++)
        offer((*sub)->name, "", start);
    return BW_EXIT_OK;
}
