/* `bellwether peer keygen`: a new key for the file that peers share. */
#include "cli/commands.h"
#include "net/sealed/keyring.h"

static const struct bw_option options[] = {{.name = NULL}};

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct bw_parsed parsed;
    char key[BW_KEY_TEXT_MAX + 1];
    int none = 0, code = bw_options_parse(command, argc, argv, &none, &parsed);
    if (code != BW_GO_ON)
        return code;
    if (bw_keyring_make_key(key) != 0) {
        fprintf(stderr, "%s: no random numbers\n", command->path);
        return BW_EXIT_IO;
    }
    puts(key);
    return BW_EXIT_OK;
}

const struct bw_cli_command bw_command_peer_keygen = {
    .name = "keygen",
    .path = "bellwether peer keygen",
    .usage = "> FILE",
    .about = "print a new key for --key-file",
    .text =
        "All peers have the same file, closed to others, or it is refused; to make it:\n"
        "(umask 077; bellwether peer keygen > FILE). To change the key without a pause: add the\n"
        "new one as a second line everywhere, then move it to the top everywhere, then take the\n"
        "old one away. Running peers read the file again by themselves.\n",
    .options = options,
    .run = run,
};
