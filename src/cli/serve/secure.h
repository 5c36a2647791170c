/* TLS and authentication of `bellwether serve`: its certificates, its users, and checks that it
 * does not listen on a network unprotected by mistake. */
#ifndef BW_CLI_SERVE_SECURE_H
#define BW_CLI_SERVE_SECURE_H

#include "cli/options/options.h"
#include "net/tls/credentials.h"
#include "serve/auth/users.h"
#include "serve/replica/replica.h"

struct bw_secure {
    const char *cert, *key, *client_ca, *client_crl;
    const char *peer_cert, *peer_key, *peer_ca, *peer_crl;
    const char *users, *hash_password;
    bool insecure;
    /* derived from the options */
    struct bw_credentials *clients, *peers; /* NULL: no TLS */
    struct bw_users first;                  /* from the file --users */
    uv_signal_t sighup;
};

/* Checks that the options fit together and fit the addresses. Returns BW_GO_ON or an exit code. */
int bw_secure_check(const struct bw_cli_command *command, const struct bw_secure *secure,
                    const char *listen, const struct bw_replica_member *members, uint32_t count);
/* Creates the TLS configuration for connections to other nodes; NULL: no TLS. Returns 0, or an
 * error with the reason in why[BW_TLS_WHY_MAX + 1]. */
int bw_secure_peer_tls(const struct bw_secure *secure, struct bw_tls_config **out, char *why);
int bw_secure_open(const struct bw_cli_command *command, struct bw_secure *secure, uv_loop_t *loop);
void bw_secure_close(struct bw_secure *secure);
/* Forbids core dumps and debuggers, because memory contains keys and password hashes. */
void bw_secure_hide(void);
/* Prints the line of a user, with the password read from standard input. */
int bw_secure_hash(const struct bw_cli_command *command, const char *name_and_role);
/* Logs a line to standard error. */
void bw_secure_log(void *context, enum bw_priority priority, const char *line);

#endif
