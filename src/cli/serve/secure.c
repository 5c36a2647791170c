/* TLS and authentication of `bellwether serve`; see secure.h. */
#include "cli/serve/secure.h"

#include "core/base/error.h"
#include "net/loopback.h"
#include "os/journal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <termios.h>
#include <unistd.h>

static const char *const client_protocols[] = {"h2", "grpc-exp", "http/1.1", NULL};
static const char *const peer_protocols[] = {"bellwether-peer", NULL};

void bw_secure_log(void *context, enum bw_priority priority, const char *line)
{
    (void)context;
    bw_print_line(priority, "bellwether serve: %s", line);
}

static int check_files(const struct bw_cli_command *command, const struct bw_secure *s)
{
    if (!s->cert != !s->key)
        return bw_usage_error(command, "--cert and --key must be given together");
    if (s->client_ca && !s->cert)
        return bw_usage_error(command, "--client-ca needs --cert and --key");
    if (!s->peer_cert != !s->peer_key || !s->peer_cert != !s->peer_ca)
        return bw_usage_error(command,
                              "--peer-cert, --peer-key and --peer-ca must be given together");
    if ((s->client_crl && !s->client_ca) || (s->peer_crl && !s->peer_ca))
        return bw_usage_error(command, s->client_crl && !s->client_ca
                                           ? "--client-crl needs --client-ca"
                                           : "--peer-crl needs --peer-ca");
    return BW_GO_ON;
}

int bw_secure_check(const struct bw_cli_command *command, const struct bw_secure *s,
                    const char *listen, const struct bw_replica_member *members, uint32_t count)
{
    int code = check_files(command, s);
    if (code != BW_GO_ON || s->insecure)
        return code;
    if (!bw_net_host_is_loopback(listen) && !s->cert)
        return bw_usage_error(command,
                              "--listen %s is reachable from other machines without TLS; use "
                              "--cert and --key, or --insecure",
                              listen);
    if (!bw_net_host_is_loopback(listen) && !s->client_ca && !s->users)
        return bw_usage_error(command,
                              "--listen %s is reachable from other machines without "
                              "authentication; use --client-ca or --users, or --insecure",
                              listen);
    for (uint32_t i = 0; i < count; i++)
        if (members[i].port && !bw_net_host_is_loopback(members[i].host) && !s->peer_cert)
            return bw_usage_error(
                command,
                "the peer address %s is reachable from other machines, which could pose as nodes; "
                "use --peer-cert, --peer-key and --peer-ca, or --insecure",
                members[i].host);
    return BW_GO_ON;
}

int bw_secure_peer_tls(const struct bw_secure *s, struct bw_tls_config **out, char *why)
{
    struct bw_tls_files files = {.ca_file = s->peer_ca,
                                 .crl_file = s->peer_crl,
                                 .cert_file = s->peer_cert,
                                 .key_file = s->peer_key,
                                 .protocols = peer_protocols};
    *out = NULL;
    return s->peer_cert ? bw_tls_config_new(out, &files, why) : 0;
}

static void on_sighup(uv_signal_t *handle, int number)
{
    struct bw_secure *s = handle->data;
    (void)number;
    if (s->clients)
        bw_credentials_check(s->clients);
    if (s->peers)
        bw_credentials_check(s->peers);
}

static int open_one(const struct bw_cli_command *command, struct bw_credentials **out,
                    const struct bw_credentials_options *options)
{
    char why[BW_TLS_WHY_MAX + 1] = "";
    if (!options->files.cert_file || bw_credentials_open(out, options, why) == 0)
        return BW_GO_ON;
    bw_print_line(BW_PRIORITY_ERROR, "%s: %s", command->path, why);
    return BW_EXIT_IO;
}

static int read_users(const struct bw_cli_command *command, struct bw_secure *s)
{
    char why[BW_USERS_WHY + 1] = "";
    if (!s->users || bw_users_read(&s->first, s->users, why) == 0)
        return BW_GO_ON;
    bw_print_line(BW_PRIORITY_ERROR, "%s: --users: %s", command->path, why);
    return BW_EXIT_IO;
}

void bw_secure_hide(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

int bw_secure_open(const struct bw_cli_command *command, struct bw_secure *s, uv_loop_t *loop)
{
    struct bw_credentials_options clients = {.loop = loop,
                                             .files = {.ca_file = s->client_ca,
                                                       .crl_file = s->client_crl,
                                                       .cert_file = s->cert,
                                                       .key_file = s->key,
                                                       .protocols = client_protocols},
                                             .whose = "client",
                                             .say = bw_secure_log};
    struct bw_credentials_options peers = {.loop = loop,
                                           .files = {.ca_file = s->peer_ca,
                                                     .crl_file = s->peer_crl,
                                                     .cert_file = s->peer_cert,
                                                     .key_file = s->peer_key,
                                                     .protocols = peer_protocols},
                                           .whose = "node",
                                           .dials = true,
                                           .say = bw_secure_log};
    if (s->cert || s->peer_cert || s->users)
        bw_secure_hide();
    int code = open_one(command, &s->clients, &clients);
    if (code == BW_GO_ON)
        code = open_one(command, &s->peers, &peers);
    if (code == BW_GO_ON)
        code = read_users(command, s);
    uv_signal_init(loop, &s->sighup);
    s->sighup.data = s;
    if (s->cert || s->peer_cert || s->users)
        uv_signal_start(&s->sighup, on_sighup, SIGHUP);
    return code;
}

void bw_secure_close(struct bw_secure *s)
{
    uv_close((uv_handle_t *)&s->sighup, NULL);
    if (s->clients)
        bw_credentials_close(s->clients);
    if (s->peers)
        bw_credentials_close(s->peers);
    bw_users_free(&s->first);
}

/* Reads a password from stdin, without echo on a terminal. */
static bool read_password(char *out, size_t size)
{
    struct termios before, silent;
    bool terminal = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    if (terminal) {
        silent = before;
        silent.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
        fputs("password: ", stderr);
    }
    bool got = fgets(out, (int)size, stdin);
    bool whole = got && (strchr(out, '\n') || feof(stdin));
    if (terminal) {
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
        fputs("\n", stderr);
    }
    if (got)
        out[strcspn(out, "\r\n")] = '\0';
    return whole;
}

int bw_secure_hash(const struct bw_cli_command *command, const char *name_and_role)
{
    char password[BW_PASSWORD_MAX + 2] = "", line[BW_USER_LINE], why[BW_USERS_WHY + 1] = "";
    if (!read_password(password, sizeof password))
        return bw_usage_error(
            command, "--hash-password: expected a password of 1 to %u bytes on standard input",
            BW_PASSWORD_MAX);
    int error = bw_user_line(line, name_and_role, password, why);
    explicit_bzero(password, sizeof password);
    if (error)
        return bw_usage_error(command, "--hash-password: %s", why);
    puts(line);
    return BW_EXIT_OK;
}
