#!/usr/bin/env python3
"""Roles with permissions on ranges of keys, side by side with a real etcd: the same commands of etcdctl and the same
requests must have the same outcome.

    serve_roles.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import wait_for  # noqa: E402
from serve_lib import Cluster, Etcd, Nodes, acknowledged, b64  # noqa: E402
from store_lib import TIMEOUT_S, Place, Suite  # noqa: E402

suite = Suite()
ROOT, ADA = "root:secret", "ada:word"
FIXED = {"observe", "campaign", "admin"}  # our own roles that etcd does not have


def ctl(target, user, *words):
    """(exit code, output, error) of etcdctl, without what differs by design."""
    login = ["--user", user] if user else []
    done = target.ctl(*login, *words, check=False)
    errors = [re.sub(r".*desc = ", "", line) for line in done.stderr.splitlines() if not line.startswith("{")]
    lines = [line for line in done.stdout.splitlines() if line not in FIXED]
    return done.returncode, lines, errors


def both(targets, user, *words):
    outcomes = [ctl(target, user, *words) for target in targets]
    assert outcomes[0] == outcomes[1], f"etcdctl {words} as {user}: etcd {outcomes[0]}, ours {outcomes[1]}"
    return outcomes[0]


def works(targets, user, *words):
    outcome = both(targets, user, *words)
    assert outcome[0] == 0, f"etcdctl {words} as {user}: {outcome}"
    return outcome[1]


def denied(targets, user, *words):
    outcome = both(targets, user, *words)
    assert outcome[0] != 0 and "permission denied" in str(outcome), f"etcdctl {words} as {user}: {outcome}"


def with_users(place, count=1):
    """etcd and ours; `ada` has the role `app`: all of /app/, reading of /common, writing of /log/."""
    targets = [Etcd(place), Nodes(place, suite.bellwether, count)]
    works(targets, None, "user", "add", ROOT)
    works(targets, None, "role", "add", "root")
    works(targets, None, "user", "grant-role", "root", "root")
    works(targets, None, "auth", "enable")
    for words in (("role", "add", "app"), ("user", "add", ADA), ("user", "grant-role", "ada", "app"),
                  ("role", "grant-permission", "app", "readwrite", "/app/", "--prefix"),
                  ("role", "grant-permission", "app", "read", "/common"),
                  ("role", "grant-permission", "app", "write", "/log/", "/log0"),
                  ("put", "/app/x", "1"), ("put", "/common", "2"), ("put", "/log/1", "3"), ("put", "/other", "4")):
        works(targets, ROOT, *words)
    return targets


@suite.test
def roles_are_managed_as_in_etcd():
    with Place("roles") as place:
        targets = with_users(place)
        for words in (("role", "list"), ("role", "get", "app"), ("user", "get", "ada"), ("user", "get", "ada", "--detail"),
                      ("role", "add", "app"), ("role", "get", "none"), ("role", "delete", "none"),
                      ("role", "grant-permission", "none", "read", "k"), ("role", "grant-permission", "app", "write", "/common"),
                      ("role", "get", "app"), ("role", "revoke-permission", "app", "/nothing"),
                      ("role", "revoke-permission", "app", "/common"), ("role", "get", "app"),
                      ("role", "revoke-permission", "app", "/log/", "/log0"), ("role", "get", "app"),
                      ("role", "add", "all"), ("role", "grant-permission", "all", "readwrite", "", "--from-key"),
                      ("role", "get", "all"), ("user", "grant-role", "ada", "all"), ("user", "get", "ada"),
                      ("user", "grant-role", "ada", "none"), ("user", "grant-role", "nobody", "app"),
                      ("user", "revoke-role", "ada", "none"), ("user", "revoke-role", "ada", "all"),
                      ("user", "revoke-role", "ada", "all"), ("user", "get", "ada"), ("role", "delete", "root"),
                      ("role", "delete", "app"), ("user", "get", "ada"), ("role", "list")):
            both(targets, ROOT, *words)


@suite.test
def permissions_are_enforced_as_in_etcd():
    for count in (1, 3):
        with Place("roles") as place:
            targets = with_users(place, count)
            works(targets, ADA, "put", "/app/x", "5")
            works(targets, ADA, "put", "/app/x", "6", "--prev-kv")
            works(targets, ADA, "put", "/log/1", "6")
            for key in ("/common", "/other", "/app", "/app0", "/log0"):
                denied(targets, ADA, "put", key, "7")
            denied(targets, ADA, "put", "/log/1", "7", "--prev-kv")
            for words in (("/app/x",), ("/app/", "--prefix"), ("/app/", "/app0"), ("/common",), ("/app/x", "/app/y", "--keys-only")):
                works(targets, ADA, "get", *words)
            for words in (("/log/1",), ("/other",), ("/app", "--prefix"), ("/app/", "/app1"), ("", "--from-key"), ("/common", "/common0")):
                denied(targets, ADA, "get", *words)
            works(targets, ADA, "del", "/log/", "--prefix")
            works(targets, ADA, "del", "/app/x", "--prev-kv")
            denied(targets, ADA, "del", "/common")
            denied(targets, ADA, "del", "/log/", "--prefix", "--prev-kv")
            denied(targets, ADA, "del", "/", "--prefix")
            denied(targets[1:] * 2, ADA, "compaction", "2")  # etcd lets every user compact
            denied(targets, ADA, "role", "list")
            denied(targets, ADA, "role", "get", "root")
            denied(targets, ADA, "user", "get", "root")
            for words in (("role", "get", "app"), ("user", "get", "ada")):
                works(targets, ADA, *words)
            both(targets, "nobody:x", "get", "/app/x")
            both(targets, None, "get", "/app/x")


def as_ada(target, path, body):
    token = target.post("/v3/auth/authenticate", {"name": "ada", "password": "word"})[1]["token"]
    status, answer = target.post(path, body, headers={"Authorization": token})
    return status, answer.get("message"), answer.get("responses") is not None


@suite.test
def transactions_leases_and_watches_are_checked():
    with Place("roles") as place:
        targets = with_users(place)
        put = {key: {"request_put": {"key": b64(key)}} for key in ("/app/x", "/other", "/log/1")}
        read = {key: {"request_range": {"key": b64(key)}} for key in ("/app/x", "/other", "/common")}
        compare = {key: {"key": b64(key), "target": "VERSION", "version": 77} for key in ("/app/x", "/other")}
        for txn, status in (({"success": [put["/app/x"], read["/common"]]}, 200), ({"success": [put["/other"]]}, 403),
                            ({"failure": [put["/app/x"]], "success": [put["/other"]], "compare": [compare["/app/x"]]}, 403),
                            ({"failure": [put["/app/x"]], "compare": [compare["/other"]]}, 403),
                            ({"success": [read["/other"]]}, 403), ({"success": [read["/common"]]}, 200)):
            seen = [as_ada(target, "/v3/kv/txn", txn) for target in targets]
            assert seen[0] == seen[1] and seen[0][0] == status, (txn, seen)
        for target in targets:
            token = target.post("/v3/auth/authenticate", {"name": "root", "password": "secret"})[1]["token"]
            for number, key in ((70, "/app/leased"), (71, "/other")):
                assert target.post("/v3/lease/grant", {"ID": number, "TTL": 600}, headers={"Authorization": token})[0] == 200
                assert target.post("/v3/kv/put", {"key": b64(key), "lease": number}, headers={"Authorization": token})[0] == 200
        for path, body, status in (("/v3/kv/put", {"key": b64("/app/x"), "lease": 71}, 403), ("/v3/lease/revoke", {"ID": 71}, 403),
                                   ("/v3/kv/put", {"key": b64("/app/x"), "lease": 70}, 200), ("/v3/lease/revoke", {"ID": 70}, 200),
                                   ("/v3/lease/grant", {"ID": 72, "TTL": 600}, 200)):
            seen = [as_ada(target, path, body) for target in targets]
            assert seen[0] == seen[1] and seen[0][0] == status, (path, body, seen)
        for key, end, allowed in (("/app/x", None, True), ("/app/", "/app0", True), ("/other", None, False), ("/", "0", False)):
            seen = []
            for target in targets:
                token = target.post("/v3/auth/authenticate", {"name": "ada", "password": "word"})[1]["token"]
                stream = target.stream("/v3/watch", {"create_request": {"key": b64(key), **({"range_end": b64(end)} if end else {})}},
                                       headers={"Authorization": token})
                result = stream.line()["result"]
                seen.append({name: result.get(name) for name in ("watch_id", "created", "canceled", "cancel_reason")})
                stream.close()
            assert seen[0] == seen[1] and bool(seen[0]["canceled"]) != allowed, (key, end, seen)


@suite.test
def watch_ends_when_the_permission_is_revoked():
    """An etcd watch goes on; ours must not show what its user may no longer read."""
    with Place("roles") as place:
        nodes = with_users(place)[1]
        token = nodes.post("/v3/auth/authenticate", {"name": "ada", "password": "word"})[1]["token"]
        stream = nodes.stream("/v3/watch", {"create_request": {"key": b64("/common")}}, headers={"Authorization": token})
        assert stream.line()["result"]["created"]
        ctl(nodes, ROOT, "put", "/common", "seen")
        assert stream.line()["result"]["events"]
        ctl(nodes, ROOT, "role", "revoke-permission", "app", "/common")
        ctl(nodes, ROOT, "put", "/common", "secret")
        result = stream.line()["result"]
        assert result["canceled"] and "events" not in result and "permission denied" in result["cancel_reason"], result
        stream.close()


@suite.test
def elections_and_locks_need_the_permission_of_their_keys():
    with Place("roles") as place:
        nodes = with_users(place)[1]
        for name, status in (("/app/job", 200), ("/other", 403), ("/log/x", 403)):
            assert as_ada(nodes, "/v3/lock/lock", {"name": b64(name)})[0] == status, name
            assert as_ada(nodes, "/v3/election/leader", {"name": b64(name)})[0] == status, name
            assert as_ada(nodes, "/v3/election/campaign", {"name": b64(name + "e")})[0] == status, name


@suite.test
def roles_survive_restart_and_snapshot_and_follow_their_changes():
    with Place("roles") as place:
        cluster = Cluster(place, suite.bellwether)
        for words in (("user", "add", ROOT), ("user", "grant-role", "root", "root"), ("auth", "enable")):
            cluster.ctl(*words)
        login = ["--user", ROOT]
        for words in (("role", "add", "app"), ("role", "grant-permission", "app", "readwrite", "/app/", "--prefix"), ("user", "add", ADA),
                      ("user", "grant-role", "ada", "app")):
            cluster.ctl(*login, *words)
        for name in list(cluster.nodes):
            cluster.nodes[name].kill()
        for name in list(cluster.nodes):
            cluster.nodes[name].start(wait=False)
        for name in list(cluster.nodes):
            cluster.nodes[name].wait_ready()
        for name in cluster.nodes:
            def served(name=name):
                """a node to serve ada after the restart"""
                return acknowledged(cluster.ctl("--user", ADA, "put", "/app/x", "1", endpoints=cluster.at(name), check=False))
            wait_for(served, TIMEOUT_S, 0.1)
            done = cluster.ctl("--user", ADA, "put", "/x", "1", endpoints=cluster.at(name), check=False)
            assert done.returncode != 0 and "permission denied" in done.stderr, done
        backup = os.path.join(place.dir, "backup")
        cluster.ctl(*login, "snapshot", "save", backup, endpoints=cluster.at("a"))
        with open(backup, "rb") as file:
            assert b"/app/" in file.read()
        cluster.ctl(*login, "role", "revoke-permission", "app", "/app/", "--prefix")
        for name in cluster.nodes:
            done = cluster.ctl("--user", ADA, "put", "/app/x", "1", endpoints=cluster.at(name), check=False)
            assert done.returncode != 0 and "permission denied" in done.stderr, done


suite.main(2)
