/* The settings of a DynamoDB store; see settings.h. */
#include "store/dynamodb/settings.h"

#include "net/loopback.h"
#include "store/kit/url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOWERCASE "abcdefghijklmnopqrstuvwxyz0123456789-"
#define LETTERS   "ABCDEFGHIJKLMNOPQRSTUVWXYZ_." LOWERCASE
#define LINE      5120u

static const char *const keys[] = {"endpoint",          "create",  "profile",
                                   "metadata-endpoint", "ca-file", NULL};

static bool is_made_of(const char *text, const char *characters, size_t least, size_t most)
{
    size_t length = strlen(text);
    return strspn(text, characters) == length && length >= least && length <= most;
}

static int set_place(struct dynamodb_settings *s, const struct bw_url *url, char *why)
{
    const char *region = url->host[0].name;
    if (url->hosts != 1 || url->host[0].port || url->user[0] || url->password[0] ||
        !is_made_of(region, LOWERCASE, 1, 40))
        return bw_store_explain(
            why, BW_EINVAL,
            "dynamodb://REGION/TABLE: invalid region: expected a name like eu-central-1, without "
            "user or port");
    if (!is_made_of(url->path, LETTERS, 3, 255))
        return bw_store_explain(
            why, BW_EINVAL,
            "dynamodb://REGION/TABLE: invalid table: expected 3 to 255 letters, digits, '_', "
            "'-' and '.'");
    snprintf(s->region, sizeof s->region, "%.40s", region);
    snprintf(s->table, sizeof s->table, "%.255s", url->path);
    snprintf(s->signing, sizeof s->signing, "aws:amz:%s:dynamodb", s->region);
    snprintf(s->endpoint, sizeof s->endpoint, "https://dynamodb.%s.amazonaws.com%s", s->region,
             strncmp(s->region, "cn-", 3) == 0 ? ".cn" : "");
    return 0;
}

static int set_endpoint(struct dynamodb_settings *s, const char *text, char *why)
{
    if (!bw_url_endpoint(text, false, why))
        return BW_EINVAL;
    snprintf(s->endpoint, sizeof s->endpoint, "%.511s", text);
    return 0;
}

bool bw_dynamodb_set_keys(struct dynamodb_keys *out, const char *id, const char *secret,
                          const char *token)
{
    size_t size = sizeof out->user;
    if (!id || !secret || !*id || !*secret || strpbrk(id, ": \t\r\n") || strpbrk(secret, " \t\r\n"))
        return false;
    if (token && (strlen(token) > DYNAMODB_TOKEN_MAX || strpbrk(token, " \t\r\n")))
        return false;
    snprintf(out->token, sizeof out->token, "%s", token ? token : "");
    return (size_t)snprintf(out->user, size, "%s:%s", id, secret) < size;
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length && strchr(" \t\r\n", text[length - 1]))
        text[--length] = '\0';
    return text;
}

struct profile {
    char id[256], secret[256], token[DYNAMODB_TOKEN_MAX + 1];
};

static void keep(char *out, size_t size, const char *value)
{
    snprintf(out, size, "%s", value);
}

static void read_line(struct profile *found, char *line)
{
    char *equals = strchr(line, '=');
    if (!equals)
        return;
    *equals = '\0';
    const char *name = trim(line), *value = trim(equals + 1);
    if (strcmp(name, "aws_access_key_id") == 0)
        keep(found->id, sizeof found->id, value);
    else if (strcmp(name, "aws_secret_access_key") == 0)
        keep(found->secret, sizeof found->secret, value);
    else if (strcmp(name, "aws_session_token") == 0)
        keep(found->token, sizeof found->token, value);
}

/* Reads the lines of section [PROFILE]. */
static void read_profile(FILE *file, const char *profile, struct profile *found)
{
    char line[LINE], head[160];
    bool inside = false;
    snprintf(head, sizeof head, "[%.127s]", profile);
    while (fgets(line, sizeof line, file)) {
        if (*trim(line) == '[')
            inside = strcmp(trim(line), head) == 0;
        else if (inside)
            read_line(found, line);
    }
    explicit_bzero(line, sizeof line);
}

/* A file or profile that the user named must exist; the default ones may be missing. */
static int read_file(struct dynamodb_settings *s, const char *profile, char *why)
{
    char fallback[512];
    const char *path = getenv("AWS_SHARED_CREDENTIALS_FILE"), *home = getenv("HOME");
    bool wanted = path || profile;
    snprintf(fallback, sizeof fallback, "%s/.aws/credentials", home ? home : "");
    FILE *file = fopen(path ? path : fallback, "re");
    if (!file)
        return wanted ? bw_store_explain(why, BW_EINVAL, "cannot read %s: %s",
                                         path ? path : fallback, strerror(errno))
                      : 0;
    struct profile found = {.id = ""};
    read_profile(file, profile ? profile : "default", &found);
    fclose(file);
    bool good = bw_dynamodb_set_keys(&s->keys, found.id, found.secret, found.token);
    explicit_bzero(&found, sizeof found);
    return good || !wanted
               ? 0
               : bw_store_explain(why, BW_EINVAL, "%s contains no valid keys for profile %s",
                                  path ? path : fallback, profile ? profile : "default");
}

static int set_keys(struct dynamodb_settings *s, const struct bw_url *url, char *why)
{
    const char *profile = bw_url_query(url, "profile"), *id = getenv("AWS_ACCESS_KEY_ID");
    if (!profile && id && *id) {
        if (bw_dynamodb_set_keys(&s->keys, id, getenv("AWS_SECRET_ACCESS_KEY"),
                                 getenv("AWS_SESSION_TOKEN")))
            return 0;
        return bw_store_explain(
            why, BW_EINVAL,
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY do not contain valid keys");
    }
    return read_file(s, profile ? profile : getenv("AWS_PROFILE"), why);
}

/* As in the AWS SDKs: an authorization token is sent and keys are returned. So without TLS only
 * loopback and a container agent's link-local address are allowed. */
static int check_container(const char *url, char *why)
{
    static const char *const agents[] = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", NULL};
    const char *host = strncmp(url, "http://", 7) == 0 ? url + 7 : NULL;
    if (strncmp(url, "https://", 8) == 0 || (host && bw_net_address_is_loopback(host)))
        return 0;
    for (size_t i = 0; host && agents[i]; i++) {
        size_t length = strlen(agents[i]);
        if (strncmp(host, agents[i], length) == 0 && (!host[length] || strchr(":/", host[length])))
            return 0;
    }
    return bw_store_explain(
        why, BW_EINVAL,
        "invalid AWS_CONTAINER_CREDENTIALS_FULL_URI: expected https://HOST/PATH; http:// is "
        "for loopback and container agents (169.254.170.2, 169.254.170.23) only");
}

/* Where keys are requested that neither the environment nor a file contains. */
static int set_sources(struct dynamodb_settings *s, const struct bw_url *url, char *why)
{
    const char *relative = getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *machine = bw_url_query(url, "metadata-endpoint");
    if (!machine)
        machine = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (relative && *relative)
        snprintf(s->container_url, sizeof s->container_url, "http://169.254.170.2%s", relative);
    else if (full && *full)
        snprintf(s->container_url, sizeof s->container_url, "%s", full);
    snprintf(s->metadata, sizeof s->metadata, "%s", machine ? machine : "http://169.254.169.254");
    if (strncmp(s->metadata, "http://", 7) != 0 && strncmp(s->metadata, "https://", 8) != 0)
        return bw_store_explain(why, BW_EINVAL,
                                "invalid metadata-endpoint: expected http://HOST[:PORT]");
    bool asks_full = !s->keys.user[0] && full && *full && !(relative && *relative);
    return asks_full ? check_container(full, why) : 0;
}

int bw_dynamodb_settings(struct dynamodb_settings *s, const char *text, char *why)
{
    struct bw_url url;
    memset(s, 0, sizeof *s);
    int error = bw_url_parse(&url, text, why);
    if (error == 0)
        error = bw_url_check_keys(&url, keys, why);
    if (error == 0)
        error = set_place(s, &url, why);
    if (error != 0)
        return error;
    const char *endpoint = bw_url_query(&url, "endpoint"), *create = bw_url_query(&url, "create");
    const char *ca = bw_url_query(&url, "ca-file");
    if (create && strcmp(create, "yes") != 0)
        return bw_store_explain(why, BW_EINVAL, "invalid create: expected 'yes'");
    s->create = create != NULL;
    snprintf(s->ca_file, sizeof s->ca_file, "%s", ca ? ca : "");
    if (endpoint)
        error = set_endpoint(s, endpoint, why);
    if (error == 0)
        error = set_keys(s, &url, why);
    return error == 0 ? set_sources(s, &url, why) : error;
}
