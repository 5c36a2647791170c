/* A registry whose users have roles with permissions on keys. */
#ifndef BW_TESTS_UNIT_CORE_REGISTRY_REGISTRY_ROLE_WORLD_H
#define BW_TESTS_UNIT_CORE_REGISTRY_REGISTRY_ROLE_WORLD_H

#include "registry_world.h"

static inline enum bw_refusal change(struct world *w, const struct bw_users_change *change)
{
    struct bw_entry entry = {.kind = BW_ENTRY_USERS, .users = *change};
    entry.by.kind = BW_REQUESTER_NODE;
    return bw_registry_apply(w->registry, &entry, &w->results);
}

static inline enum bw_refusal on_role(struct world *w, enum bw_users_act act, const char *user,
                                      const char *role)
{
    struct bw_users_change made = {.act = act};
    strcpy(made.user.name, user);
    strcpy(made.role_name, role);
    return change(w, &made);
}

static inline enum bw_refusal allow(struct world *w, const char *role, enum bw_perm_type type,
                                    struct bw_keys keys)
{
    struct bw_users_change made = {.act = BW_USERS_ROLE_ALLOW, .perm = {type, keys}};
    strcpy(made.role_name, role);
    return change(w, &made);
}

/* `root` is admin, `ada` has the role `r`; users are enabled. */
static inline void world_with_users(struct world *w)
{
    world_open(w);
    bw_registry_raise(w->registry, BW_REGISTRY_LEVEL);
    struct bw_users_change root = {.act = BW_USERS_ADD, .user = {.name = "root"}};
    root.user.roles = 1u << BW_ROLE_ROOT;
    assert_int_equal(change(w, &root), 0);
    struct bw_users_change ada = {.act = BW_USERS_ADD, .user = {.name = "ada"}};
    assert_int_equal(change(w, &ada), 0);
    assert_int_equal(on_role(w, BW_USERS_ROLE_ADD, "", "r"), 0);
    assert_int_equal(on_role(w, BW_USERS_ROLE_GRANT, "ada", "r"), 0);
    assert_int_equal(change(w, &(struct bw_users_change){.act = BW_USERS_ENABLE}), 0);
}

static inline struct bw_requester ada(const struct world *w)
{
    const struct bw_user *user = bw_registry_user(w->registry, text("ada"));
    return (struct bw_requester){
        .kind = BW_REQUESTER_USER, .name = text("ada"), .since = user->since};
}

#endif
