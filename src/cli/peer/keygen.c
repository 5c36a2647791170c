/* `bellwether peer keygen`: prints a new key for the file that all peers share. */
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
        fprintf(stderr, "%s: cannot create a key: no random numbers\n", command->path);
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
    .text = "All peers use the same file. It must be readable only by its owner; to create it:\n"
            "  (umask 077; bellwether peer keygen > FILE)\n"
            "To change the key without interruption: append the new key as a second line on every "
            "peer,\n"
            "then move it to the first line on every peer, then delete the old key on every peer.\n"
            "Running peers reload the file by themselves.\n",
    .options = options,
    .run = run,
};
