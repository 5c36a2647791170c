#!/usr/bin/env python3
"""TLS and users of `bellwether serve`, on real nodes, with etcdctl and JSON: who is accepted, who is refused with
which message, and certificates that change during running elections.

    serve_tls.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import base64
import concurrent.futures
import hmac
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall
from run_lib import wait_for
from serve_lib import Authority, certificate_words, python_with
from store_lib import STALL_S, TIMEOUT_S, Place, Server, Suite, free_ports, program

warnings.simplefilter("ignore", DeprecationWarning)  # tries a TLS version that is obsolete
suite = Suite()
suite.bellwether = os.path.abspath(suite.bellwether)  # servers run elsewhere


class Nodes:
    """Nodes of one cluster on loopback, each with its own options."""

    def __init__(self, place, words=(), count=1, each=None, wait=True):
        ports = free_ports(2 * count)
        self.ports, self.peers = ports[:count], ports[count:]
        names = [f"n{i}" for i in range(count)]
        cluster = ",".join(f"{name}=127.0.0.1:{port}" for name, port in zip(names, self.peers))
        alone = [] if count == 1 else ["--cluster", cluster]
        self.servers = [
            Server(place, f"bellwether-{name}", [suite.bellwether, "serve", "--node", name, *alone, "--data", place.folder("data-" + name),
                                                 "--listen", f"127.0.0.1:{port}", *words, *(each(i) if each else [])], port=port)
            for i, (name, port) in enumerate(zip(names, self.ports))]
        for server in self.servers:
            server.start(wait=False)
        for which, server in enumerate(self.servers if wait else []):
            server.wait_ready()
            if "--users" in words:
                self.wait_line("authentication is on", which)

    def log(self, which=0):
        with open(self.servers[which].log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_line(self, pattern, which=0):
        def said():
            return re.search(pattern, self.log(which))
        said.__doc__ = f"the line {pattern}; the log:\n{self.log(which)}"
        return wait_for(said, TIMEOUT_S, 0.05)

    def ctl_words(self, *words):
        if words[0] != "--endpoints":  # given twice, etcdctl uses both
            words = ("--endpoints", ",".join(f"127.0.0.1:{p}" for p in self.ports), *words)
        return [program("etcdctl", "etcd-client"), "--dial-timeout", "10s", "--command-timeout", "30s", *words]

    def ctl(self, *words, check=True, stdin=None, timeout=90):
        done = subprocess.run(self.ctl_words(*words), env=dict(os.environ, ETCDCTL_API="3"), input=stdin, capture_output=True, text=True,
                              timeout=timeout, check=False)
        assert not check or done.returncode == 0, f"etcdctl {words}: {done.stdout}{done.stderr}\n{self.log()}"
        return done

    def denied(self, *words):
        """An etcdctl that cannot even connect; it would retry until its own timeout."""
        done = self.ctl("--dial-timeout", "2s", "--command-timeout", "2s", *words, check=False)
        assert done.returncode != 0, f"etcdctl {words} was let in: {done.stdout}"
        return done.stderr

    def post(self, path, body, context=None, token=None, which=0):
        link = http.client.HTTPSConnection("127.0.0.1", self.ports[which], timeout=TIMEOUT_S, context=context) if context else \
            http.client.HTTPConnection("127.0.0.1", self.ports[which], timeout=TIMEOUT_S)
        try:
            link.request("POST", path, body=json.dumps(body), headers={"Authorization": token} if token else {})
            answer = link.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            link.close()


def context_of(ca, pair=None, alpn=None):
    context = ssl.create_default_context(cafile=ca)
    if pair:
        context.load_cert_chain(*pair)
    if alpn:
        context.set_alpn_protocols(alpn)
    return context


def shake(port, context):
    """The result of a handshake: (version, protocol, serial number of the server's certificate), or the error's
    text. In TLS 1.3 a client learns only after its handshake that it is refused, so this waits for a byte where
    one must come."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as raw, \
                context.wrap_socket(raw, server_hostname="127.0.0.1") as link:
            link.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            if not link.recv(1):
                return "closed"
            return link.version(), link.selected_alpn_protocol(), link.getpeercert()["serialNumber"]
    except (OSError, ssl.SSLError) as error:
        return str(error)


# ---- clients ----

@suite.test
def clients_use_tls_with_grpc_and_json():
    with Place("tls") as place:
        ca = Authority(place, "ca")
        nodes = Nodes(place, certificate_words(ca.sign("server")))
        nodes.ctl("--cacert", ca.crt, "put", "k", "v")
        assert nodes.ctl("--cacert", ca.crt, "get", "k").stdout == "k\nv\n"
        assert "https://127.0.0.1" in nodes.ctl("--cacert", ca.crt, "member", "list").stdout
        status, answer = nodes.post("/v3/kv/range", {"key": "aw=="}, context_of(ca.crt))
        assert status == 200 and answer["kvs"][0]["value"] == "dg==", answer
        large = "x" * 1_000_000
        nodes.ctl("--cacert", ca.crt, "put", "large", stdin=large)
        assert nodes.ctl("--cacert", ca.crt, "get", "large", "--print-value-only").stdout.strip() == large


@suite.test
def protocols_are_agreed_and_old_versions_refused():
    with Place("alpn") as place:
        ca = Authority(place, "ca")
        nodes = Nodes(place, certificate_words(ca.sign("server")))
        port = nodes.ports[0]
        assert shake(port, context_of(ca.crt, alpn=["http/1.1"]))[:2] == ("TLSv1.3", "http/1.1")
        assert shake(port, context_of(ca.crt))[1] is None
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as raw, \
                context_of(ca.crt, alpn=["grpc-exp", "h2"]).wrap_socket(raw, server_hostname="127.0.0.1") as link:
            assert link.selected_alpn_protocol() == "h2"
        assert "protocol" in shake(port, context_of(ca.crt, alpn=["smtp"])).lower()
        older = context_of(ca.crt)
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        assert shake(port, older)[0] == "TLSv1.2"
        oldest = context_of(ca.crt)
        oldest.set_ciphers("ALL:@SECLEVEL=0")
        oldest.options |= ssl.OP_NO_TLSv1_2 | ssl.OP_NO_TLSv1_3
        oldest.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        assert isinstance(shake(port, oldest), str)


@suite.test
def a_client_refuses_a_server_it_cannot_trust():
    with Place("trust") as place:
        ca, other = Authority(place, "ca"), Authority(place, "other")
        nodes = Nodes(place, certificate_words(ca.sign("server")))
        nodes.denied("--cacert", other.crt, "get", "k")
        assert "unable to get local issuer" in shake(nodes.ports[0], context_of(other.crt))
        with Place("ended") as ended:
            nodes = Nodes(ended, certificate_words(ca.sign("old", days=-1)))
            nodes.wait_line("has expired")
            nodes.denied("--cacert", ca.crt, "get", "k")
            assert "expired" in shake(nodes.ports[0], context_of(ca.crt))


@suite.test
def connection_without_tls_is_closed():
    with Place("clear") as place:
        ca = Authority(place, "ca")
        nodes = Nodes(place, certificate_words(ca.sign("server")))
        nodes.denied("get", "k")
        with socket.create_connection(("127.0.0.1", nodes.ports[0]), timeout=TIMEOUT_S) as raw:
            raw.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            said = raw.recv(100)
            assert b"HTTP/1.1" not in said, said
        nodes.wait_line("refused a client's connection: ")
        asked = subprocess.run([os.path.abspath(suite.bellwether), "cluster", "status", "--endpoints", f"127.0.0.1:{nodes.ports[0]}"], check=False,
                               capture_output=True, text=True, timeout=TIMEOUT_S)
        assert asked.returncode == 69 and "it may require TLS (https://" in asked.stderr, asked
        nodes.ctl("--cacert", ca.crt, "put", "k", "v")


@suite.test
def client_certificate_must_be_of_the_right_authority():
    with Place("mutual") as place:
        ca, clients, other = Authority(place, "ca"), Authority(place, "clients"), Authority(place, "other")
        nodes = Nodes(place, [*certificate_words(ca.sign("server")), "--client-ca", clients.crt])
        good, wrong = clients.sign("good"), other.sign("wrong")
        ended, serving = clients.sign("ended", days=-1), clients.sign("serving", usage="serverAuth")
        nodes.ctl("--cacert", ca.crt, *certificate_words(good), "put", "k", "v")
        for pair in (None, wrong, ended, serving):
            nodes.denied("--cacert", ca.crt, *(certificate_words(pair) if pair else []), "get", "k")
            assert isinstance(shake(nodes.ports[0], context_of(ca.crt, pair)), str), pair
        nodes.wait_line("refused a client's connection: ")


@suite.test
def revoked_client_certificate_is_refused_by_etcd_and_ours():
    with Place("revoked") as place:
        ca, clients = Authority(place, "ca"), Authority(place, "clients")
        good, revoked, later, server = clients.sign("good"), clients.sign("revoked"), clients.sign("later"), ca.sign("server")
        crl = clients.revoke(revoked)
        nodes = Nodes(place, [*certificate_words(server), "--client-ca", clients.crt, "--client-crl", crl])
        port, peer = free_ports(2)
        etcd = Server(place, "etcd", [
            program("etcd", "etcd-server"), "--name", "m", "--data-dir", place.folder("etcd"), "--log-level", "error", "--logger", "zap",
            "--listen-client-urls", f"https://127.0.0.1:{port}", "--advertise-client-urls", f"https://127.0.0.1:{port}",
            "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", f"m=http://127.0.0.1:{peer}", "--cert-file", server[0], "--key-file", server[1], "--client-cert-auth",
            "--trusted-ca-file", clients.crt, "--client-crl-file", crl], port=port).start()
        def serves(where, pair):
            return not isinstance(shake(where, context_of(ca.crt, pair)), str)
        wait_for(lambda: serves(port, good), TIMEOUT_S, 0.1)
        assert etcd.process.poll() is None
        for where in (port, nodes.ports[0]):
            assert [serves(where, pair) for pair in (good, later, revoked)] == [True, True, False], where
        nodes.wait_line("refused a client's connection: .*revoked")
        clients.revoke(later)
        clients.openssl("crl", "-in", crl, "-outform", "DER", "-out", crl + ".der")
        os.replace(crl + ".der", crl)
        os.kill(nodes.servers[0].process.pid, signal.SIGHUP)
        wait_for(lambda: not serves(nodes.ports[0], later), TIMEOUT_S, 0.1)
        assert serves(nodes.ports[0], good)


@suite.test
def node_with_a_revoked_certificate_takes_no_part():
    with Place("revoked") as place:
        peers = Authority(place, "peers")
        words = [peer_words(peers, f"n{i}") for i in range(3)]
        crl = peers.revoke()
        nodes = Nodes(place, count=3, each=lambda i: [*words[i], "--peer-crl", crl])
        two = f"127.0.0.1:{nodes.ports[0]},127.0.0.1:{nodes.ports[1]}"
        nodes.ctl("put", "k", "v")
        nodes.servers[2].kill()
        peers.revoke((words[2][1], words[2][3]))
        for which in (0, 1):
            os.kill(nodes.servers[which].process.pid, signal.SIGHUP)
            nodes.wait_line("new connections use the new certificate", which)
        nodes.servers[2].start()
        wait_for(lambda: leader_of(nodes, 0) == leader_of(nodes, 1) not in ("0", "3"), TIMEOUT_S, 0.05)
        nodes.ctl("--endpoints", two, "put", "k", "w")
        nodes.wait_line("refused a node's connection: .*revoked")
        assert leader_of(nodes, 2) == "0"


# ---- change ----

@suite.test
def new_certificate_is_loaded_during_an_election():
    with Place("reload") as place:
        ca = Authority(place, "ca")
        crt, key = place.dir + "/live.crt", place.dir + "/live.key"
        first, second, third = ca.sign("first"), ca.sign("second"), ca.sign("third", days=10)

        def install(pair):
            for source, target in zip(pair, (crt, key)):
                shutil.copy(source, target + ".new")
                os.replace(target + ".new", target)
        install(first)
        nodes = Nodes(place, certificate_words((crt, key)))
        holder = subprocess.Popen(nodes.ctl_words("--cacert", ca.crt, "elect", "e", "me"), stdout=subprocess.PIPE, text=True,
                                  env=dict(os.environ, ETCDCTL_API="3"))
        try:
            won = holder.stdout.readline()
            assert won.startswith("e/"), won
            assert nodes.log().count("expires in") == 0
            before = shake(nodes.ports[0], context_of(ca.crt))[2]
            install(second)
            nodes.servers[0].process.send_signal(signal.SIGHUP)
            nodes.wait_line("new connections use the new certificate")
            after = shake(nodes.ports[0], context_of(ca.crt))[2]
            assert after != before
            install(third)  # found without a signal
            nodes.wait_line(r"expires in (9|10) days; renew it")
            with open(key, "w", encoding="utf-8") as file:
                file.write("no key\n")
            nodes.wait_line("the previous certificate stays in use")
            shake_third = shake(nodes.ports[0], context_of(ca.crt))
            assert shake_third[2] not in (before, after)
            install(second)
            wait_for(lambda: shake(nodes.ports[0], context_of(ca.crt))[2] == after, TIMEOUT_S, 0.1)
            assert holder.poll() is None
            assert nodes.ctl("--cacert", ca.crt, "get", "--prefix", "e", "--print-value-only").stdout == "me\n"
            keys = nodes.ctl("--cacert", ca.crt, "get", "--prefix", "e", "-w", "json").stdout
            assert json.loads(keys)["kvs"][0]["create_revision"] == json.loads(keys)["kvs"][0]["mod_revision"]
            leases = nodes.ctl("--cacert", ca.crt, "lease", "list").stdout.split()
            assert won.strip().split("/")[-1].zfill(16) in leases, (won, leases)
        finally:
            holder.terminate()
            holder.wait(TIMEOUT_S)


# ---- nodes ----

def peer_words(authority, name, **more):
    pair = authority.sign(name, **more)
    return ["--peer-cert", pair[0], "--peer-key", pair[1], "--peer-ca", authority.crt]


@suite.test
def nodes_use_tls_between_each_other():
    with Place("peers") as place:
        peers = Authority(place, "peers")
        words = [peer_words(peers, f"n{i}") for i in range(3)]
        nodes = Nodes(place, count=3, each=lambda i: words[i])
        nodes.ctl("put", "k", "v")
        nodes.ctl("put", "large", stdin="y" * 1_000_000)
        for port in nodes.ports:
            done = subprocess.run([program("etcdctl", "etcd-client"), "--endpoints", f"127.0.0.1:{port}", "get", "k"],
                                  env=dict(os.environ, ETCDCTL_API="3"), capture_output=True, text=True, timeout=90, check=False)
            assert done.stdout == "k\nv\n", done.stderr
        assert nodes.ctl("member", "list").stdout.count(f", https://127.0.0.1:{nodes.peers[0]}, ") == 1
        nodes.servers[0].restart()
        nodes.ctl("put", "k", "w")
        text = nodes.ctl("get", "large", "--print-value-only").stdout.strip()
        assert text == "y" * 1_000_000


def comes_back_with(place, peers, words):
    """A cluster whose third node returns with other options: the other two continue, and it gets nothing from
    them."""
    right = [peer_words(peers, f"n{i}") for i in range(3)]
    nodes = Nodes(place, count=3, each=lambda i: right[i])
    nodes.ctl("put", "k", "v")
    status = nodes.post("/v3/maintenance/status", {}, which=2)[1]
    led = status["leader"] if status["leader"] == status["header"]["member_id"] else None  # then the others elect another leader
    nodes.servers[2].kill()
    nodes.servers[2].words = nodes.servers[2].words[:-len(right[2])] + words
    nodes.servers[2].start()
    two = f"127.0.0.1:{nodes.ports[0]},127.0.0.1:{nodes.ports[1]}"
    wait_for(lambda: leader_of(nodes, 0) == leader_of(nodes, 1) not in ("0", led), TIMEOUT_S, 0.02)
    nodes.ctl("--endpoints", two, "put", "k", "w")
    return nodes


def greet(port, context, cluster, sender):
    """Poses as a node to node 1, until the connection is closed."""
    newest, oldest = 999, 1  # versions of the protocol: every cluster accepts this range
    hello = struct.pack("<IBIIQIII", 38, 1, newest, oldest, cluster, sender, 1, 1) + b"127.0.0.1"
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as raw, \
            context.wrap_socket(raw, server_hostname="127.0.0.1") as link:
        link.sendall(hello)
        answer = b"".join(iter(lambda: link.recv(100), b""))
        _, kind, newest, oldest, why = struct.unpack("<IBIII", answer)
        assert (kind, why) == (8, 7) and oldest <= 1 <= newest, answer


def leader_of(nodes, which):
    return nodes.post("/v3/maintenance/status", {}, which=which)[1].get("leader", "0")


@suite.test
def a_client_certificate_is_denied_on_the_peer_port():
    with Place("strangers") as place:
        peers, clients = Authority(place, "peers"), Authority(place, "clients")
        client = clients.sign("client")
        nodes = comes_back_with(place, peers, ["--peer-cert", client[0], "--peer-key", client[1], "--peer-ca", peers.crt])
        nodes.wait_line("refused a node's connection: the (client|server)'s certificate is refused")
        assert leader_of(nodes, 0) in "12" and leader_of(nodes, 2) == "0"
        for pair in (None, client):
            text = shake(nodes.peers[0], context_of(peers.crt, pair, alpn=["bellwether-peer"]))
            assert isinstance(text, str) and text != "closed", text


@suite.test
def client_only_certificate_is_refused_on_the_peer_port():
    """The same authority signs both: then the certificate's usage and host decide."""
    with Place("same-ca") as place:
        ca = Authority(place, "ca")
        right = [peer_words(ca, f"n{i}") for i in range(3)]
        nodes = Nodes(place, count=3, each=lambda i: right[i])
        nodes.ctl("put", "k", "v")
        cluster = int(nodes.post("/v3/maintenance/status", {})[1]["header"]["cluster_id"])
        odd = ca.sign("odd", names="subjectAltName=DNS:client.example", usage="clientAuth")
        for sender, why in ((3, "not valid for the host of the node"), (9, "not valid for the host of the node")):
            greet(nodes.peers[0], context_of(ca.crt, odd, alpn=["bellwether-peer"]), cluster, sender)
            nodes.wait_line("refused a node's connection: its certificate is " + why)


@suite.test
def a_node_without_tls_does_not_join():
    with Place("mixed") as place:
        nodes = comes_back_with(place, Authority(place, "peers"), [])
        nodes.wait_line("refused a node's connection: TLS handshake failed")
        assert leader_of(nodes, 0) in "12" and leader_of(nodes, 2) == "0"


@suite.test
def nodes_change_their_authority_while_serving():
    with Place("move") as place:
        old, new = Authority(place, "old"), Authority(place, "new")
        files = [[f"{place.dir}/n{i}.{kind}" for kind in ("crt", "key", "ca")] for i in range(3)]

        def install(pair_of, *authorities):
            for i, paths in enumerate(files):
                pair = pair_of(i)
                for path, sources in zip(paths, ([pair[0]], [pair[1]], [a.crt for a in authorities])):
                    text = b"".join(open(source, "rb").read() for source in sources)
                    with open(path + ".new", "wb") as file:
                        file.write(text)
                    os.replace(path + ".new", path)

        pairs = {a: [a.sign(f"n{i}") for i in range(3)] for a in (old, new)}
        install(lambda i: pairs[old][i], old)
        nodes = Nodes(place, count=3, each=lambda i: ["--peer-cert", files[i][0], "--peer-key", files[i][1], "--peer-ca", files[i][2]])
        terms = []
        for step, (authority, trusted) in enumerate(((old, (old, new)), (new, (old, new)), (new, (new,)))):
            install(lambda i, a=authority: pairs[a][i], *trusted)
            for which, server in enumerate(nodes.servers):
                server.process.send_signal(signal.SIGHUP)
                wait_for(lambda w=which, s=step: nodes.log(w).count("use the new certificate") > s, TIMEOUT_S, 0.05)
            nodes.ctl("put", "k", str(step))
            terms.append(nodes.post("/v3/maintenance/status", {})[1]["raftTerm"])
        assert len(set(terms)) == 1, terms  # no connection was lost
        nodes.servers[0].restart()
        nodes.ctl("put", "k", "v")
        text = shake(nodes.peers[0], context_of(new.crt, pairs[old][1], alpn=["bellwether-peer"]))
        assert isinstance(text, str) and text != "closed", text


# ---- users ----

def user_line(who, password):
    done = subprocess.run([suite.bellwether, "serve", "--hash-password", who], input=password + "\n", capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0 and (len(password) < 4 or password not in done.stdout), done
    return done.stdout


def users_file(place, *users):
    """Always includes an admin, whose password the tests do not use."""
    admin = "" if any(who.endswith(":admin") for who in users) else "boss:admin:\n"
    return place.file("users", "# who may\n" + admin + "".join(user_line(who, "pw-" + who) for who in users), mode=0o600)


def token_of(nodes, name, password, which=0, context=None):
    status, answer = nodes.post("/v3/auth/authenticate", {"name": name, "password": password}, which=which, context=context)
    assert status == 200, answer
    return answer["token"]


K = {"key": "aw=="}
EVERYTHING = {  # requests that need exactly this role
    "observe": [("/v3/kv/range", K), ("/v3/kv/txn", {"success": [{"request_range": K}]}), ("/v3/lease/timetolive", {"ID": 1}), ("/v3/watch", {"create_request": K}), ("/v3/maintenance/status", {}),
                ("/v3/maintenance/alarm", {}), ("/v3/election/leader", {"name": "bm9uZQ=="}), ("/v3/election/observe", {"name": "bm9uZQ=="})],
    "campaign": [("/v3/kv/put", K), ("/v3/kv/deleterange", K), ("/v3/kv/txn", {"success": [{"request_put": K}]}), ("/v3/lease/grant", {"TTL": 60}), ("/v3/lease/revoke", {"ID": 1}),
                 ("/v3/lease/keepalive", {"ID": 1}), ("/v3/lease/leases", {}),
                 ("/v3/election/campaign", {"name": "ZQ==", "lease": 1}), ("/v3/election/proclaim", {"leader": {"name": "ZQ==", "key": "aw=="}}),
                 ("/v3/election/resign", {"leader": {"name": "ZQ==", "key": "aw=="}}), ("/v3/lock/lock", {"name": "bA==", "lease": 1}),
                 ("/v3/lock/unlock", K)],
    "admin": [("/v3/kv/compaction", {"revision": 1}), ("/v3/maintenance/transfer-leadership", {"targetID": 1}), ("/v3/auth/user/list", {}),
              ("/v3/auth/user/get", {"name": "adminr"}), ("/v3/auth/user/add", {"name": "x", "options": {"no_password": True}}),
              ("/v3/auth/user/grant", {"user": "x", "role": "observe"}), ("/v3/auth/user/revoke", {"name": "x", "role": "observe"}),
              ("/v3/auth/user/changepw", {"name": "x", "password": "y"}), ("/v3/auth/user/delete", {"name": "x"}),
              ("/v3/cluster/member/remove", {"ID": 99}), ("/v3/auth/enable", {})]}


def first_line(nodes, path, body, token=None):
    """(status, error message or None); streams answer with one line each, and do not end by themselves."""
    link = http.client.HTTPConnection("127.0.0.1", nodes.ports[0], timeout=TIMEOUT_S)
    try:
        link.request("POST", path, body=json.dumps(body), headers={"Authorization": token} if token else {})
        answer = link.getresponse()
        text = json.loads(answer.readline())
        error = text.get("error")
        return answer.status, error.get("message") if isinstance(error, dict) else error
    finally:
        link.close()


@suite.test
def every_path_requires_its_role():
    roles = list(EVERYTHING)
    with Place("roles") as place:
        nodes = Nodes(place, ["--users", users_file(place, *(f"{role}r:{role}" for role in roles))])
        tokens = [token_of(nodes, f"{role}r", f"pw-{role}r:{role}") for role in roles]
        assert nodes.post("/v3/kv/put", {"key": "bm9uZS8x"}, token=tokens[-1])[0] == 200  # so that "none" has a leader to report
        for needed, requests in EVERYTHING.items():
            for path, body in requests:
                assert first_line(nodes, path, body) == (400, "etcdserver: user name is empty"), path
                assert first_line(nodes, path, body, "nobody.1") == (401, "etcdserver: invalid auth token"), path
                for role, token in zip(roles, tokens):
                    status, error = first_line(nodes, path, body, token)
                    may = roles.index(role) >= roles.index(needed)
                    assert (status, error) == (403, "etcdserver: permission denied") if not may else status not in (401, 403), \
                        (path, role, status, error)


@suite.test
def etcdctl_works_with_a_user_of_the_right_role():
    with Place("user") as place:
        nodes = Nodes(place, ["--users", users_file(place, "bob:campaign", "eve:observe", "root:admin")], count=3)
        bob, eve, root = ("bob:pw-bob:campaign", "eve:pw-eve:observe", "root:pw-root:admin")
        nodes.ctl("--user", bob, "put", "k", "v")
        assert nodes.ctl("--user", eve, "get", "k").stdout == "k\nv\n"
        grant = nodes.ctl("--user", bob, "lease", "grant", "60").stdout.split()[1]
        nodes.ctl("--user", bob, "lease", "keep-alive", "--once", grant)
        assert nodes.ctl("--user", bob, "lock", "l", "echo", "held").stdout == "held\n"
        for words, error in ((("--user", eve, "put", "k", "w"), "permission denied"), (("get", "k"), "user name is empty"),
                             (("--user", eve, "lock", "l"), "permission denied"),
                             (("--user", "bob:wrong", "get", "k"), "authentication failed, invalid user ID or password"),
                             (("--user", "nobody:pw", "get", "k"), "authentication failed, invalid user ID or password"),
                             (("--user", bob, "compaction", "2"), "permission denied")):
            done = nodes.ctl(*words, check=False)
            assert done.returncode != 0 and "etcdserver: " + error in done.stderr, (words, done)
        nodes.ctl("--user", root, "compaction", "2")
        watching = subprocess.Popen(nodes.ctl_words("--user", eve, "watch", "k", "--rev", "2"), stdout=subprocess.PIPE, text=True,
                                    env=dict(os.environ, ETCDCTL_API="3"))
        assert watching.stdout.readline() == "PUT\n"
        watching.terminate()
        watching.wait(TIMEOUT_S)


@suite.test
def secrets_are_not_in_core_dumps_or_logs():
    """Neither a core dump nor the log contains them."""
    with Place("secrets") as place:
        users = users_file(place, "bob:campaign")
        nodes = Nodes(place, ["--users", users])
        token = token_of(nodes, "bob", "pw-bob:campaign")
        assert nodes.post("/v3/auth/authenticate", {"name": "bob", "password": "pw-wrong"})[0] == 400
        with open(f"/proc/{nodes.servers[0].process.pid}/limits", encoding="utf-8") as file:
            assert re.search(r"^Max core file size +0 ", file.read(), re.M)
        with open(users, encoding="utf-8") as file:
            line = file.read().splitlines()[-1]
        for secret in ("pw-bob", "pw-wrong", token, line.split("$")[-1]):
            assert secret not in nodes.log()


def made_token(place, nodes, name, ends_s):
    """A token forged from the users file, which only its owner may read."""
    with open(place.dir + "/users", encoding="utf-8") as file:
        salt, key = next(line for line in file if line.startswith(name + ":")).strip().split("$")[-2:]
    cluster = int(nodes.post("/v3/maintenance/status", {}, token=token_of(nodes, "bob", "pw-bob:campaign"))[1]["header"]["cluster_id"])
    text = b"bellwether token 1\0" + struct.pack("<QQ", cluster, ends_s) + name.encode().ljust(64, b"\0")
    return f"{name}.{ends_s:016x}." + hmac.new(base64.b64decode(key) + base64.b64decode(salt), text, "sha256").hexdigest()


@suite.test
def every_node_accepts_a_token_and_forged_ones_are_refused():
    with Place("token") as place:
        nodes = Nodes(place, ["--users", users_file(place, "bob:campaign", "eve:observe")], count=3)
        nodes.ctl("--user", "bob:pw-bob:campaign", "put", "k", "v")
        token = token_of(nodes, "bob", "pw-bob:campaign", which=0)
        for which in range(3):
            assert nodes.post("/v3/kv/range", K, token=token, which=which)[0] == 200
            assert nodes.post("/v3/kv/range", K, token="Bearer " + token, which=which)[0] == 200
        name, ends, mac = token.rsplit(".", 2)
        other = token_of(nodes, "eve", "pw-eve:observe")
        assert made_token(place, nodes, "bob", int(ends, 16)) == token
        longer, over = made_token(place, nodes, "bob", int(ends, 16) + 60), made_token(place, nodes, "bob", int(time.time()) - 1)
        assert nodes.post("/v3/kv/range", K, token=longer)[0] == 200
        for bad in (over, f"{name}.{int(ends, 16) + 1:016x}.{mac}", f"eve.{ends}.{mac}", f"{name}.{other.split('.', 1)[1]}", token[:-1], token + "0",
                    f"{name}.{0:016x}.{mac}", "." + ends + "." + mac, "x" * 3000):
            assert nodes.post("/v3/kv/range", K, token=bad) == \
                (401, {"error": "etcdserver: invalid auth token", "message": "etcdserver: invalid auth token", "code": 16}), bad


@suite.test
def users_file_is_imported_only_by_a_new_cluster():
    with Place("change") as place:
        nodes = Nodes(place, ["--users", users_file(place, "bob:campaign", "root:admin")])
        bob, root = token_of(nodes, "bob", "pw-bob:campaign"), token_of(nodes, "root", "pw-root:admin")
        assert nodes.post("/v3/auth/user/delete", {"name": "bob"}, token=root)[0] == 200
        assert nodes.post("/v3/kv/put", K, token=bob)[0] == 401
        nodes.servers[0].kill()
        place.file("users", user_line("eve:admin", "another"), 0o600)
        nodes.servers[0].start()
        wait_for(lambda: nodes.log().count("authentication is on") == 2, TIMEOUT_S, 0.05)
        assert nodes.post("/v3/kv/put", K, token=bob)[0] == 401
        assert nodes.post("/v3/auth/authenticate", {"name": "eve", "password": "another"})[0] == 400
        assert nodes.post("/v3/kv/put", K, token=root)[0] == 200


@suite.test
def certificate_identifies_its_user():
    with Place("names") as place:
        ca = Authority(place, "ca")
        users = place.file("users", "boss:admin:\nbob:campaign:\n" + user_line("eve:observe", "pw"), 0o600)
        nodes = Nodes(place, [*certificate_words(ca.sign("server")), "--client-ca", ca.crt, "--users", users])
        bob, eve, who = ca.sign("bob"), ca.sign("eve"), ca.sign("who")
        nodes.ctl("--cacert", ca.crt, *certificate_words(bob), "put", "k", "v")
        assert nodes.ctl("--cacert", ca.crt, *certificate_words(eve), "get", "k").stdout == "k\nv\n"
        for pair in (eve, who):
            done = nodes.ctl("--cacert", ca.crt, *certificate_words(pair), "put", "k", "w", check=False)
            assert "etcdserver: permission denied" in done.stderr, done
        assert nodes.post("/v3/kv/put", K, context_of(ca.crt, eve))[0] == 403
        assert nodes.post("/v3/kv/put", K, context_of(ca.crt, bob))[0] == 200
        # A token takes precedence over the certificate, and a user without a password gets none.
        assert nodes.post("/v3/kv/put", K, context_of(ca.crt, bob), token=token_of(nodes, "eve", "pw", context=context_of(ca.crt, bob)))[0] == 403
        for password in ("", "pw"):
            assert nodes.post("/v3/auth/authenticate", {"name": "bob", "password": password}, context_of(ca.crt, bob))[0] == 400


@suite.test
def python_client_authenticates():
    """It sends its token only on encrypted connections."""
    python = python_with("etcd3", "python3-etcd3")
    script = """
import sys, etcd3
port, ca, user, password, value = sys.argv[1:]
client = etcd3.client(host="127.0.0.1", port=int(port), ca_cert=ca, user=user, password=password, timeout=60)
if value:
    client.put("/p", value)
print(client.get("/p")[0].decode())
"""
    with Place("python") as place:
        ca = Authority(place, "ca")
        nodes = Nodes(place, [*certificate_words(ca.sign("server")), "--users", users_file(place, "bob:campaign", "eve:observe")])

        def run(who, value):
            return subprocess.run([python, "-c", script, str(nodes.ports[0]), ca.crt, who.split(":")[0], "pw-" + who, value], capture_output=True,
                                  text=True, timeout=90, check=False)
        done = run("bob:campaign", "x")
        assert done.stdout == "x\n", done
        assert run("eve:observe", "").stdout == "x\n"
        done = run("eve:observe", "y")
        assert done.returncode != 0 and "permission denied" in done.stderr, done


@suite.test
def many_wrong_passwords_do_not_stop_the_service():
    with Place("guess") as place:
        nodes = Nodes(place, ["--users", users_file(place, "bob:campaign")])
        token = token_of(nodes, "bob", "pw-bob:campaign")
        with concurrent.futures.ThreadPoolExecutor(48) as pool:
            guesses = [pool.submit(nodes.post, "/v3/auth/authenticate", {"name": "bob", "password": str(i)}) for i in range(96)]
            for _ in range(20):
                assert nodes.post("/v3/kv/put", K, token=token)[0] == 200
            seen = {guess.result()[0] for guess in guesses}
        assert 400 in seen and seen <= {400, 429}, seen


@suite.test
def login_fails_without_users():
    with Place("none") as place:
        nodes = Nodes(place)
        assert nodes.post("/v3/auth/authenticate", {"name": "a", "password": "b"})[1]["message"] == "etcdserver: authentication is not enabled"
        assert nodes.post("/v3/kv/put", K, token="anything")[0] == 200


@suite.test
def invalid_users_files_are_refused():
    with Place("files") as place:
        line = user_line("bob:admin", "pw")
        for text, mode, why in ((line, 0o644, "readable by other users"), ("", 0o600, "contains no users"), (line + line, 0o600, "duplicate user bob"), (line.replace(":admin:", ":campaign:"), 0o600, "at least one user must have the role admin"),
                                (line.replace(":admin:", ":king:"), 0o600, ", line 1: invalid role of bob: expected observe"), ("bob:admin\n", 0o600, "NAME:ROLE:HASH"),
                                ("# x\nb b:admin:\n", 0o600, ", line 2: invalid user name: expected"), (line[:-5] + "\n", 0o600, "--hash-password"),
                                (line.replace("ln=14", "ln=40"), 0o600, "--hash-password"), ("x" * 5000, 0o600, "too long")):
            assert why in refused("--users", place.file("users", text, mode), code=74), why
        assert "cannot read" in refused("--users", place.dir + "/none", code=74)
        for who in ("bob", "bob:king", ":admin", "bob:admin:secret"):
            done = subprocess.run([suite.bellwether, "serve", "--hash-password", who], input="pw\n", capture_output=True, text=True,
                                  timeout=60, check=False)
            assert done.returncode == 64 and "--hash-password: " in done.stderr and not done.stdout, (who, done)


# ---- our own commands ----

class Operated:
    """Three nodes with certificates for clients and for each other. They require client certificates and have
    users; and the operators who run `bellwether cluster` on them."""

    ROLES = {"root": "admin", "bob": "campaign", "eve": "observe"}

    def __init__(self, place):
        self.place, self.ca, self.clients, self.peers, self.other = place, *(Authority(place, n) for n in ("ca", "clients", "peers", "other"))
        users = users_file(place, *(f"{name}:{role}" for name, role in self.ROLES.items()))
        self.listens = [*certificate_words(self.ca.sign("server")), "--client-ca", self.clients.crt]
        each = [peer_words(self.peers, f"n{i}") for i in range(3)]
        self.nodes = Nodes(place, [*self.listens, "--users", users], 3, lambda i: each[i])
        self.secrets = {name: place.file(name, f"pw-{name}:{role}\n", 0o600) for name, role in self.ROLES.items()}
        self.shown = certificate_words(self.clients.sign("desk"))  # names no user: a password does
        self.fourth = [*free_ports(2)]
        wait_for(self.ready, TIMEOUT_S, 0.1)

    def cluster(self, who, *words, shown=None, ca=None):
        """(exit code, output, errors)"""
        asks = ["--user", who, "--password-file", self.secrets[who]] if who else []
        return suite.command("cluster", *words, "--endpoints", ",".join(f"https://127.0.0.1:{p}" for p in self.nodes.ports), "--ca",
                             ca or self.ca.crt, *(self.shown if shown is None else shown), *asks, "--timeout", "10s")

    def ready(self):
        """every member to respond, and one of them to lead"""
        code, out, _ = self.cluster("root", "status")
        return code == 0 and "all members respond" in out and re.search(r"^\d+ +n\d +leader ", out, re.M)

    def does(self, *words, over="$^", who="root"):
        """At the first attempt. `over` matches the message of a further attempt, after a stall of the machine, if the
        first one took effect."""
        def done(number):
            code, out, said = self.cluster(who, *words)
            assert said.count("\n") <= 1, said
            assert code == 0 or (number and re.search(over, said)), f"cluster {words}: {said or out}"
            return out
        return stall.judge(done, STALL_S, "cluster " + words[0])

    def shows(self, pattern):
        def shown():
            shown.text = self.cluster("root", "status")[1]  # fails while a member is not healthy
            return re.search(pattern, shown.text)
        shown.__doc__ = f"a status like {pattern}"
        wait_for(shown, TIMEOUT_S, 0.1)
        return shown.text

    def refuses(self, code, pattern, who, *words, **more):
        """In one line, at the first attempt."""
        def refused(_):
            reported = self.cluster(who, *words, **more)
            assert reported[0] == code and not reported[1], reported
            assert re.search(f"^bellwether cluster {words[0]}: {pattern}\n$", reported[2]), reported
        stall.judge(refused, STALL_S, "cluster " + words[0])

    def joiner(self, words):
        port, peer = self.fourth
        return Server(self.place, f"fourth-{len(self.place.servers)}", [
            suite.bellwether, "serve", "--node", "n3", "--join", ",".join(f"127.0.0.1:{p}" for p in self.nodes.peers), "--peer",
            f"127.0.0.1:{peer}", "--listen", f"127.0.0.1:{port}", "--data", self.place.dir + "/data-n3", *self.listens, *words], port=port)


def operator_commands(place):
    return (("add", "127.0.0.1:1"), ("promote", "n1"), ("transfer", "n1"), ("snapshot", place.dir + "/refused"), ("remove", "n1"))


@suite.test
def admin_operates_a_cluster_with_certificates_and_users():
    """From three nodes to four and back. A foreign node first asks for the place of the fourth."""
    with Place("operated") as place:
        here = Operated(place)
        here.does("add", f"127.0.0.1:{here.fourth[1]}", "--learner", over="already exists")
        pair = here.other.sign("stranger")
        outsider = here.joiner(["--peer-cert", pair[0], "--peer-key", pair[1], "--peer-ca", here.peers.crt]).start(wait=False)
        assert re.search(r" bytes, up to index \d+\n$", here.does("snapshot", place.dir + "/saved"))
        assert outsider.process.wait(TIMEOUT_S) == 74, outsider.tail()
        assert "no member answers at --join: TLS failed: the other side does not trust the authority of our certificate" in outsider.tail(), outsider.tail()
        assert not os.path.exists(place.dir + "/data-n3"), "nothing is made for a stranger"
        fourth = here.joiner(peer_words(here.peers, "n3")).start(wait=False)
        here.shows(r"n3 +learner .*applied")
        here.does("promote", "n3", over="can only promote a learner member$")
        here.does("transfer", "n3")
        here.shows(r"n3 +leader .*applied")
        here.does("remove", "n3", over="no member 'n3'")
        assert fourth.process.wait(TIMEOUT_S) == 0 and "was removed from the cluster" in fourth.tail(), fourth.tail()
        shown = here.shows(r"all members respond\n(\d+ +n[012] .*https://127.0.0.1:.*\n){3}$")
        assert shown.count("leader") == 1, shown


@suite.test
def unauthorized_operator_gets_a_one_line_error():
    with Place("strangers") as place:
        here = Operated(place)
        for who in ("bob", "eve", None):  # None: only a certificate, and it names no user
            for words in operator_commands(place) if who else (("status",), *operator_commands(place)):
                here.refuses(1, "permission denied", who, *words)
            if who:
                here.does("status", who=who)
        foreign, ended = here.other.sign("foreign"), here.clients.sign("ended", days=-1)
        for shown, why in (([], "requires a certificate, and none was sent"), (certificate_words(foreign), "does not trust the authority of our certificate"),
                           (certificate_words(ended), "reports that our certificate has expired")):
            for words in (("status",), ("remove", "n1")):
                here.refuses(69, f"no response: .*TLS failed: the other side {why}", "root", *words, shown=shown)
        here.refuses(69, "no response: .*the server's certificate is refused: .*", "root", "status", ca=here.other.crt)
        assert not [name for name in os.listdir(place.dir) if name.startswith("refused")], "no file is left of what was refused"
        here.shows(r"all members respond\n(\d+ +n[012] .*\n){3}$")


# ---- refusals ----

def refused(*words, code=64):
    with Place("refused") as place:
        status, _, errors = suite.command("serve", "--data", place.folder("data"), *words, timeout=60)
        assert status == code, (status, errors)
        assert errors.count("\n") == 1, errors
        return errors


@suite.test
def unprotected_network_listener_is_refused():
    with Place("door") as place:
        ca = Authority(place, "ca")
        pair = ca.sign("server")
        assert "--insecure" in refused("--listen", "0.0.0.0:0")
        assert "without TLS" in refused("--listen", "[::]:0")
        assert "without authentication" in refused("--listen", "0.0.0.0:0", *certificate_words(pair))
        assert "pose as nodes" in refused("--node", "a", "--cluster", "a=10.0.0.1:2380,b=10.0.0.2:2380")
        port = free_ports()[0]
        users = users_file(place, "bob:admin")
        assert "without TLS" in refused("--listen", "0.0.0.0:0", "--users", users)
        for words in (["--insecure"], [*certificate_words(pair), "--client-ca", ca.crt], [*certificate_words(pair), "--users", users]):
            server = Server(place, "open", [suite.bellwether, "serve", "--listen", f"0.0.0.0:{port}", "--data", place.folder("open"), *words],
                            port=port)
            server.start()
            server.kill()


@suite.test
def inconsistent_options_are_refused():
    with Place("pairs") as place:
        ca = Authority(place, "ca")
        crt, key = ca.sign("server")
        assert "--cert and --key must be given together" in refused("--cert", crt)
        assert "--client-ca needs" in refused("--client-ca", ca.crt)
        assert "--peer-cert, --peer-key and --peer-ca must be given together" in refused("--peer-cert", crt, "--peer-key", key)
        assert "missing.crt" in refused("--cert", place.dir + "/missing.crt", "--key", key, code=74)
        assert ca.key in refused("--cert", crt, "--key", ca.key, code=74)


suite.main(at_once=3)
