#!/usr/bin/env python3
"""Replicated users of `bellwether serve`: with etcdctl, curl and our own commands, on three nodes.

    serve_users.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import http.client
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from run_lib import wait_for  # noqa: E402
from serve_lib import Nodes, b64  # noqa: E402
from store_lib import STALL_S, TIMEOUT_S, Place, Suite, program  # noqa: E402

suite = Suite()
ROOT = ("--user", "root:rootpw")


class Users(Nodes):
    """Three nodes with users: root, and those given as NAME, ROLE; NAME's password is NAMEpw."""

    def __init__(self, place, *users):
        super().__init__(place, suite.bellwether, 3)
        self.say("/v3/auth/user/add", {"name": "root", "password": "rootpw"})
        self.say("/v3/auth/user/grant", {"user": "root", "role": "root"})
        for name, role in users:
            self.say("/v3/auth/user/add", {"name": name, "password": name + "pw"})
            self.say("/v3/auth/user/grant", {"user": name, "role": role})
        self.say("/v3/auth/enable", {})
        for port in self.ports:  # a node that lags does not know the users yet
            for name in ("root", *(name for name, _ in users)):
                wait_for(lambda: self.admits(name, port), TIMEOUT_S, 0.02)
        self.root = self.token("root")

    def admits(self, name, port):
        token = self.post("/v3/auth/authenticate", {"name": name, "password": name + "pw"}, port)[1].get("token")
        return token is not None and self.knows(token, port)

    def post(self, path, body, port=None, token=None):
        status, text, _ = self.ask("POST", path, json.dumps(body), {"Authorization": token} if token else {}, port)
        return status, json.loads(text)

    def say(self, path, body, token=None):
        """Must succeed at the first attempt, unless the machine stalled."""
        def done(_):
            status, answer = self.post(path, body, token=token)
            assert status == 200, (path, answer)
        stall.judge(done, STALL_S, path)

    def token(self, name, password=None):
        status, answer = self.post("/v3/auth/authenticate", {"name": name, "password": password or name + "pw"})
        assert status == 200, answer
        return answer["token"]

    def knows(self, token, port):
        """Returns true once this node knows that user."""
        return self.post("/v3/kv/range", {"key": b64("k")}, port, token)[0] == 200


def denied(done, text):
    assert done.returncode != 0 and text in done.stderr, (done, text)


@suite.test
def etcdctl_adds_users_grants_and_revokes_roles():
    with Place("ctl") as place:
        nodes = Nodes(place, suite.bellwether, 3)
        nodes.ctl("user", "add", "root:rootpw")
        nodes.ports = [nodes.ports[nodes.leader()]]  # the others may lag behind the answer
        denied(nodes.ctl("user", "add", "root:rootpw", check=False), "etcdserver: user name already exists")
        nodes.ctl("auth", "enable")  # grants root its role by itself
        denied(nodes.ctl("put", "k", "v", check=False), "etcdserver: user name is empty")
        assert nodes.ctl("member", "list").stdout.count("started") == 3, "clients list the members before they say who they are"
        nodes.ctl(*ROOT, "user", "add", "bob:bobpw")
        for role in ("observe", "campaign"):
            nodes.ctl(*ROOT, "user", "grant-role", "bob", role)
        assert "campaign observe" in nodes.ctl(*ROOT, "user", "get", "bob").stdout
        assert nodes.ctl(*ROOT, "user", "list").stdout.split() == ["bob", "root"]
        assert nodes.ctl(*ROOT, "role", "list").stdout.split() == ["admin", "campaign", "observe", "root"]
        assert "KV Write" in nodes.ctl(*ROOT, "role", "get", "observe").stdout
        bob = ("--user", "bob:bobpw")
        nodes.ctl(*bob, "put", "k", "v")
        assert "bob" in nodes.ctl(*bob, "user", "get", "bob").stdout
        denied(nodes.ctl(*bob, "user", "get", "root", check=False), "etcdserver: permission denied")
        nodes.ctl(*ROOT, "user", "revoke-role", "bob", "campaign")
        denied(nodes.ctl(*bob, "put", "k", "w", check=False), "etcdserver: permission denied")
        assert nodes.ctl(*bob, "get", "k", "--print-value-only").stdout == "v\n"
        nodes.ctl(*ROOT, "user", "passwd", "bob", "--interactive=false", stdin="new\n")
        denied(nodes.ctl(*bob, "get", "k", check=False), "authentication failed, invalid user ID or password")
        assert nodes.ctl("--user", "bob:new", "get", "k", "--print-value-only").stdout == "v\n"
        for words, text in ((("role", "add", "observe"), "role name already exists"), (("role", "delete", "observe"), "invalid auth management"),
                            (("role", "grant-permission", "observe", "read", "k"), "fixed"), (("role", "get", "king"), "role name not found"),
                            (("user", "grant-role", "bob", "king"), "role name not found"), (("user", "delete", "nobody"), "user name not found"),
                            (("user", "revoke-role", "bob", "admin"), "role is not granted to the user"),
                            (("user", "delete", "root"), "invalid auth management"), (("user", "revoke-role", "root", "root"), "invalid auth management")):
            denied(nodes.ctl(*ROOT, *words, check=False), text)
        nodes.ctl(*ROOT, "user", "delete", "bob")
        denied(nodes.ctl("--user", "bob:new", "get", "k", check=False), "authentication failed, invalid user ID or password")
        nodes.ctl(*ROOT, "auth", "disable")
        nodes.ctl("put", "k", "w")


@suite.test
def enabling_without_an_admin_is_refused():
    with Place("admin") as place:
        nodes = Nodes(place, suite.bellwether)
        status, answer = nodes.post("/v3/auth/enable", {})
        assert status == 412 and answer["message"] == "etcdserver: root user does not exist", (status, answer)
        assert nodes.post("/v3/auth/user/add", {"name": "root", "options": {"no_password": True}})[0] == 200
        assert nodes.post("/v3/auth/enable", {})[1]["message"] == "etcdserver: root user does not have root role"
        for body in ({"name": "x"}, {"name": "x", "password": "y" * 256}, {"name": "b b", "password": "y"}, {"password": "y"},
                     {"name": "x", "password": "y", "hashedPassword": "eA=="}):
            assert nodes.post("/v3/auth/user/add", body)[0] == 400, body
        assert nodes.post("/v3/auth/status", {})[1].get("enabled") is None


@suite.test
def empty_user_name_is_refused_as_such_when_the_token_is_invalid_and_users_are_disabled():
    with Place("empty") as place:
        nodes = Nodes(place, suite.bellwether)
        for headers in ({}, {"Authorization": "root.0123456789"}):
            for path, body in (("add", {"password": "y"}), ("changepw", {"password": "y"}), ("delete", {}), ("grant", {"role": "campaign"})):
                status, answer = nodes.post("/v3/auth/user/" + path, body, headers=headers)
                assert status == 400 and answer["message"] == "etcdserver: user name is empty", (path, headers, status, answer)


@suite.test
def a_removed_user_is_refused_by_every_node_at_once():
    """Also by a node that has not received the removal yet: the place in the log counts."""
    with Place("removed") as place:
        nodes = Users(place, ("bob", "campaign"))
        for turn in range(5):
            name = f"b{turn}"
            nodes.say("/v3/auth/user/add", {"name": name, "password": "pw"}, nodes.root)
            nodes.say("/v3/auth/user/grant", {"user": name, "role": "campaign"}, nodes.root)
            token = nodes.token(name, "pw")
            for port in nodes.ports:
                wait_for(lambda: nodes.knows(token, port), TIMEOUT_S, 0.01)
                assert nodes.post("/v3/kv/put", {"key": b64("k")}, port, token)[0] == 200
            nodes.say("/v3/auth/user/delete", {"name": name}, nodes.root)
            for port in nodes.ports[::-1]:
                for path in ("/v3/kv/put", "/v3/kv/range", "/v3/kv/deleterange"):
                    status, answer = nodes.post(path, {"key": b64("k")}, port, token)
                    assert status in (401, 403), (turn, port, path, answer)
                assert nodes.post("/v3/lease/grant", {"TTL": 60}, port, token)[0] in (401, 403)


@suite.test
def watch_and_campaign_end_when_their_user_is_removed():
    with Place("streams") as place:
        nodes = Users(place, ("eve", "observe"), ("bob", "campaign"))
        eve, bob = nodes.token("eve"), nodes.token("bob")
        for token in (eve, bob):
            wait_for(lambda: nodes.knows(token, nodes.ports[0]), TIMEOUT_S, 0.01)
        leases = [nodes.post("/v3/lease/grant", {"TTL": 600}, token=who)[1]["ID"] for who in (nodes.root, bob)]
        assert nodes.post("/v3/election/campaign", {"name": b64("e"), "lease": leases[0]}, token=nodes.root)[0] == 200

        def ask(path, body, token):
            link = http.client.HTTPConnection("127.0.0.1", nodes.ports[0], timeout=TIMEOUT_S)
            link.request("POST", path, json.dumps(body), {"Authorization": token})
            return link
        watch = ask("/v3/watch", {"create_request": {"key": b64("k")}}, eve)
        stream = watch.getresponse()
        assert json.loads(stream.readline())["result"]["created"]
        waits = ask("/v3/election/campaign", {"name": b64("e"), "lease": leases[1]}, bob)
        key = b64(f"e/{int(leases[1]):x}")
        wait_for(lambda: nodes.post("/v3/kv/range", {"key": key}, token=nodes.root)[1].get("count") == "1", TIMEOUT_S, 0.02)
        for name in ("eve", "bob"):
            nodes.say("/v3/auth/user/delete", {"name": name}, nodes.root)
        nodes.say("/v3/kv/put", {"key": b64("k"), "value": b64("secret")}, nodes.root)
        said = stream.readline()
        assert b"permission denied" in said and b64("secret").encode() not in said, said
        nodes.say("/v3/lease/revoke", {"ID": leases[0]}, nodes.root)
        answer = waits.getresponse()
        assert answer.status == 403, (answer.status, answer.read())
        watch.close()
        waits.close()


@suite.test
def users_survive_restarts_and_passwords_are_not_stored():
    with Place("disk") as place:
        nodes = Users(place, ("bob", "campaign"))
        bob = nodes.token("bob")

        def accepts(port):
            """a node that has caught up and knows the user of the token"""
            status, answer = nodes.post("/v3/kv/put", {"key": b64("k")}, port, bob)
            assert status == 200 or answer["error"] == "etcdserver: invalid auth token", answer
            return status == 200
        for server in nodes.servers:
            server.kill()
        for server in nodes.servers:
            server.start(wait=False)
        for server in nodes.servers:
            server.wait_ready()
        for port in nodes.ports:
            wait_for(lambda: nodes.is_healthy(port), TIMEOUT_S, 0.02)
            wait_for(lambda: accepts(port), TIMEOUT_S, 0.02)
            assert nodes.post("/v3/kv/put", {"key": b64("k")}, port)[0] == 400
        for folder, _, files in os.walk(place.dir):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    text = file.read()
                assert b"bobpw" not in text and b"rootpw" not in text, name


@suite.test
def curl_authenticates():
    with Place("curl") as place:
        nodes = Users(place, ("bob", "campaign"))

        def curl(path, body, *words):
            done = subprocess.run([program("curl", "curl"), "-sS", "-X", "POST", "-d", json.dumps(body), *words,
                                   f"http://127.0.0.1:{nodes.ports[0]}/v3{path}"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
            return json.loads(done.stdout)
        token = curl("/auth/authenticate", {"name": "root", "password": "rootpw"})["token"]
        assert curl("/auth/user/list", {}, "-H", "Authorization: " + token)["users"] == ["bob", "root"]
        assert curl("/auth/user/list", {})["code"] == 3
        assert curl("/auth/user/get", {"name": "bob"}, "-H", "Authorization: " + token)["roles"] == ["campaign"]
        assert curl("/auth/role/get", {"role": "observe"}, "-H", "Authorization: " + token)["perm"] == [{"range_end": "AA=="}]
        assert "code" not in curl("/auth/role/add", {"name": "king"}, "-H", "Authorization: " + token)
        assert curl("/auth/role/add", {"name": "king"}, "-H", "Authorization: " + token)["code"] == 9
        assert curl("/auth/status", {})["enabled"] is True


@suite.test
def own_commands_authenticate():
    with Place("own") as place:
        nodes = Users(place, ("bob", "campaign"), ("eve", "observe"))
        secret = {name: place.file(name, name + "pw\n", 0o600) for name in ("root", "bob", "eve")}
        for name, code in (("root", 0), ("bob", 0), ("eve", 0)):
            got, _, said = suite.command("cluster", "status", "--endpoints", nodes.endpoints(), "--user", name, "--password-file", secret[name])
            assert got == code, (name, said)
        got, _, said = suite.command("cluster", "remove", "n2", "--endpoints", nodes.endpoints(), "--user", "bob", "--password-file", secret["bob"])
        assert got != 0 and "permission denied" in said, said

        def store(name):
            return f"bellwether://{name}@127.0.0.1:{nodes.ports[0]},127.0.0.1:{nodes.ports[1]}?password-file={secret[name]}"
        got, out, said = suite.command("run", "--store", store("bob"), "--election", "e", "--ttl", "5s", "--once", "--", "echo", "led")
        assert got == 0 and "led" in out, (got, out, said)
        got, out, said = suite.command("run", "--store", store("eve"), "--election", "e", "--ttl", "5s", "--wait", "3s", "--", "echo", "led")
        assert got != 0 and "permission denied" in said and "led" not in out, (got, out, said)
        got, out, said = suite.command("status", "--store", store("eve"), "--election", "e")
        assert got == 1 and "leader      none" in out, (got, out, said)  # it was the leader and has ended


suite.main(2)
