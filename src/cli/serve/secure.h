/* What `bellwether serve` asks of who connects, and shows them: certificates and the rules that
 * keep a service from standing open on a network by mistake. */
#ifndef BW_CLI_SERVE_SECURE_H
#define BW_CLI_SERVE_SECURE_H

#include "cli/options/options.h"
#include "net/tls/credentials.h"
#include "serve/api/users.h"
#include "serve/replica/replica.h"

struct bw_secure {
    const char *cert, *key, *client_ca;
    const char *peer_cert, *peer_key, *peer_ca;
    const char *users, *hash_password;
    bool insecure;
    /* what follows from it */
    struct bw_credentials *clients, *peers; /* NULL: in the clear */
    struct bw_users first;                  /* of the file --users */
    uv_signal_t hang_up;
};

/* Do the options go together, and with these addresses? BW_GO_ON, or the code to leave with. */
int bw_secure_check(const struct bw_cli_command *command, const struct bw_secure *secure,
                    const char *listen, const struct bw_replica_member *members, uint32_t count);
/* What this node shows to the others when it connects to them; NULL: nothing is asked. Returns 0 or
 * an error with a line in why[BW_TLS_WHY_MAX + 1]. */
int bw_secure_peer_tls(const struct bw_secure *secure, struct bw_tls_config **out, char *why);
int bw_secure_open(const struct bw_cli_command *command, struct bw_secure *secure, uv_loop_t *loop);
void bw_secure_close(struct bw_secure *secure);
/* Keys and hashes are in memory from now on: it is nobody's to dump. */
void bw_secure_hide(void);
/* Prints the line of a user whose password comes by standard input. */
int bw_secure_hash(const struct bw_cli_command *command, const char *name_and_role);
/* A line of what happened, on standard error. */
void bw_secure_say(void *context, const char *line);

#endif
