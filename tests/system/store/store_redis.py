#!/usr/bin/env python3
"""The Redis store on real servers: one server, five (Redlock), one behind sentinels, TLS; faults, foreign clients, hostile
replies.

    store_redis.py BELLWETHER WITNESS CONFORMANCE [--long] [NAME...]"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import quote

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from run_lib import lives, send, wait_for  # noqa: E402
from store_lib import SANITIZED, Place, Server, Suite, free_ports, program  # noqa: E402

LONG = "--long" in sys.argv
sys.argv = [word for word in sys.argv if word != "--long"]
HAND_OVERS = 16  # turns are best effort: on a busy machine candidates sometimes race
suite = Suite()
TIMEOUT_S = 60.0  # timeout of a hung test; no test asserts on it
# As in docs/reference/stores/redis.md, for the prefix "locks:".
RIGHTS = ("~locks:* ~{locks:*}/* &{locks:*}/* &__keyspace@*__:locks:* +@read +@write +@scripting +@pubsub +@connection +time +wait "
          "+role +info +config|get")
COMPARE_AND_DELETE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
PASSWORD = "s3cret-and-only-in-a-file"


def redis(place, name="redis", port=None, more=()):
    """Starts a separate server without persistence."""
    port = port or free_ports()[0]
    words = [program("redis-server", "redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", "--dir", place.folder(name), "--daemonize", "no", *more]
    return Server(place, name, words, port=port)


def cli(port, *words, check=True):
    done = subprocess.run([program("redis-cli", "redis-tools"), "-h", "127.0.0.1", "-p", str(port), *map(str, words)],
                          capture_output=True, text=True, timeout=60, check=check)
    return done.stdout.strip()


def five(place, count=5):
    servers = [redis(place, f"redis{i}") for i in range(count)]
    for server in servers:
        server.start()
    return servers


def redlock_url(servers, settings="?restarts=durable"):
    return "redis://" + ",".join(f"127.0.0.1:{s.port}" for s in servers) + settings


def sentinels(place, replicas=1, count=3):
    """Starts a master with replicas and sentinels. Returns (master, replicas, sentinels, url)."""
    master = redis(place, "master").start()
    slaves = [redis(place, f"replica{i}", more=["--replicaof", "127.0.0.1", str(master.port)]).start()
              for i in range(replicas)]
    watchers = []
    for i, port in enumerate(free_ports(count)):
        text = (f"port {port}\nbind 127.0.0.1\ndir {place.folder(f'sentinel{i}')}\n"
                f"sentinel monitor lead 127.0.0.1 {master.port} 2\nsentinel down-after-milliseconds lead 700\n"
                "sentinel failover-timeout lead 3000\n")
        path = place.file(f"sentinel{i}.conf", text, 0o666)
        words = [program("redis-sentinel", "redis-sentinel"), path]
        watchers.append(Server(place, f"sentinel{i}", words, port=port).start())

    def ready():
        """the sentinels to know each other and the replicas"""
        seen = [cli(w.port, "SENTINEL", "MASTER", "lead").split("\n") for w in watchers]
        facts = [dict(zip(s[::2], s[1::2])) for s in seen]
        return all(int(f["num-other-sentinels"]) == count - 1 and int(f["num-slaves"]) == replicas for f in facts)
    wait_for(ready, 60, 0.1)

    def synced():
        """the replicas to be in sync"""
        return all("master_link_status:up" in cli(s.port, "INFO", "replication") for s in slaves)
    wait_for(synced, 60, 0.1)
    url = "redis+sentinel://" + ",".join(f"127.0.0.1:{w.port}" for w in watchers) + "/lead"
    return master, slaves, watchers, url


def certificates(place):
    """Creates a CA and a server certificate for 127.0.0.1. Returns (ca, cert, key)."""
    openssl, path = program("openssl", "openssl"), place.folder("tls")

    def run(*words):
        subprocess.run([openssl, *words], cwd=path, check=True, capture_output=True, timeout=120)
    run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "ca.key",
        "-out", "ca.crt", "-subj", "/CN=test authority", "-days", "2")
    run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "redis.key",
        "-out", "redis.csr", "-subj", "/CN=redis")
    with open(os.path.join(path, "ext"), "w", encoding="utf-8") as file:
        file.write("subjectAltName=IP:127.0.0.1\n")
    run("x509", "-req", "-in", "redis.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", "redis.crt",
        "-days", "2", "-extfile", "ext")
    return [os.path.join(path, name) for name in ("ca.crt", "redis.crt", "redis.key")]


def url_of(server, more=""):
    return f"redis://127.0.0.1:{server.port}{more}"


def status(url, election="e"):
    code, out, err = suite.command("status", "--store", url, "--election", election, "--json")
    assert code in (0, 1), (code, out, err)
    return json.loads(out)


def renewals(server, count):
    """Waits until the same lock was renewed this many times."""
    lock, left, seen = "", 0, 0

    def enough():
        """a lock to be renewed repeatedly"""
        nonlocal lock, left, seen
        now, before = cli(server.port, "GET", "e"), left
        left = int(cli(server.port, "PTTL", "e"))
        seen = seen + (left > before) if now == lock else 0
        lock = now
        return seen >= count
    wait_for(enough, TIMEOUT_S, 0.05)


def judge_overlap(room):
    """Checks what must hold without tokens."""
    stall.judge_overlaps(room.lines())


def quoted(text):
    """The text within double quotes, as redis-cli reads it."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def say(text):
    print("# " + text, flush=True)


# ---- the suite ----

@suite.test
def conformance_one():
    with Place("redis") as place:
        suite.run_conformance("one", url_of(redis(place).start()))


@suite.test
def conformance_redlock():
    with Place("redis") as place:
        suite.run_conformance("redlock", redlock_url(five(place)))


@suite.test
def conformance_redlock_when_an_instance_hangs():
    """Four of five instances decide: a candidate that loses is REFUSED, not UNKNOWN."""
    with Place("redis") as place:
        servers = five(place)
        servers[0].pause()
        suite.run_conformance("redlock, one hangs", redlock_url(servers), only="*refused_*")


def tls_server(place):
    """Starts a server that accepts only TLS and one user. Returns (port, the URL's tail)."""
    ca, cert, key = certificates(place)
    port = free_ports()[0]
    more = ["--port", "0", "--tls-port", str(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca,
            "--tls-auth-clients", "no", "--user", "lead", "on", f">{PASSWORD}", *RIGHTS.split(), "--user", "default", "off"]
    redis(place, port=port, more=more).start()
    return port, ca, place.file("secret", PASSWORD + "\n", 0o600)


if LONG:
    @suite.test
    def conformance_sentinel():
        with Place("redis") as place:
            suite.run_conformance("sentinel", sentinels(place)[3] + "?prefix=locks:&wait=1")

    @suite.test
    def conformance_tls_and_a_user():
        with Place("redis") as place:
            port, ca, secret = tls_server(place)
            suite.run_conformance("tls", f"rediss://lead@127.0.0.1:{port}/3?prefix=locks:&ca-file={ca}&password-file={secret}")


# ---- one server: hand-over and faults ----

@suite.alone
def release_message_hands_leadership_over():
    with Place("redis") as place:
        url = url_of(redis(place).start())
        with suite.room(url, ttl="10s", kill_after="1s") as room:
            gaps = []
            room.candidate("ada")
            room.started(1, TIMEOUT_S)
            room.candidate("ben")
            wait_for(lambda: len(status(url).get("candidates", [0, 0])) >= 2, TIMEOUT_S, 0.05)
            for i in range(1, 6):
                time.sleep(0.3)  # the waiting candidate has set its watch
                assert suite.command("resign", "--store", url, "--election", "e")[0] == 0
                start = room.started(i + 1, TIMEOUT_S)
                last = [line for line in room.lines() if line[0] in ("signal", "end")][-1]
                gaps.append((int(start[3]) - int(last[3])) / 1e6)
            room.judge()
            code, out, err = suite.command("store", "check", url, "--json")
            assert code == 0, err
            say(f"the work's end to the next one's start: {sorted(gaps)[len(gaps) // 2]:.2f} ms in the middle of {gaps}")
            say(f"a read takes {json.loads(out)['latency_ms']['median']:.3f} ms")


def leaders(candidates):
    """The leaders' names, in the order of their tokens."""
    return [name for _, name in sorted((event["token"], c.name) for c in candidates for event in c.events("elected"))]


def settled(room):
    """Waits until every candidate knows the leader and every waiting one has set its watch. A new candidate is not in the queue
    before."""
    token = room.starts()[-1][1]
    for candidate in room.candidates:
        def knows(c=candidate):
            return str(c.events("leader")[-1]["token"]) == token
        knows.__doc__ = f"{candidate.name} to know the leader with token {token}"
        wait_for(knows, TIMEOUT_S)
    time.sleep(0.3)


@suite.test
def candidates_lead_in_turn_and_a_dead_one_does_not_block_the_queue():
    with Place("redis") as place:
        server = redis(place, more=["--notify-keyspace-events", "KEA"]).start()  # the server reports each change twice then
        url = url_of(server)
        with suite.room(url, ttl="30s", kill_after="1s") as room:  # a silent candidate stays listed for three TTLs
            candidates = []
            for name in ("ada", "ben", "cleo"):
                candidates.append(room.candidate(name))
                candidates[-1].said("leader", TIMEOUT_S)
            room.started(1, TIMEOUT_S)
            kept = 0
            for i in range(2, HAND_OVERS + 2):
                settled(room)
                waited = list(dict.fromkeys(reversed(leaders(candidates))))  # the last leader comes last
                turn = next((c.name for c in candidates if c.name not in waited), waited[-1])
                assert suite.command("resign", "--store", url, "--election", "e")[0] == 0
                room.started(i, TIMEOUT_S)
                kept += room.leader(i, TIMEOUT_S).name == turn
            assert kept >= HAND_OVERS * 3 // 4, leaders(candidates)  # a random order would give half
            settled(room)
            leader, second, third = (next(c for c in candidates if c.name == name)
                                     for name in dict.fromkeys(reversed(leaders(candidates))))
            assert suite.command("transfer", "--store", url, "--election", "e", "--to", second.name)[0] == 0  # although it is the third one's turn
            assert room.leader(HAND_OVERS + 2, TIMEOUT_S) is second
            settled(room)
            for pid in (third.guardian(), third.pid):
                send(pid, signal.SIGKILL)
            for missed in range(4):  # each release names it and gives it more time; then it moves to the end
                assert suite.command("resign", "--store", url, "--election", "e")[0] == 0
                assert room.leader(HAND_OVERS + 3 + missed, TIMEOUT_S) in (leader, second)
                named = cli(server.port, "HMGET", "{e}/bellwether", "next", "missed").split()
                assert named == ([third.name, str(missed)] if missed < 3 else []), (missed, named)
            last = cli(server.port, "HGET", "{e}/candidates", "")
            assert cli(server.port, "HGET", "{e}/candidates", third.name).split()[0] == last
            room.judge()


@suite.test
def candidate_with_higher_priority_takes_over_leadership():
    with Place("redis") as place:
        suite.preferred_candidate_gets_the_lead(url_of(redis(place).start()))


@suite.test
def a_second_candidate_with_the_same_id_is_reported():
    with Place("redis") as place:
        with suite.room(url_of(redis(place).start()), ttl="1s", kill_after="100ms") as room:
            room.candidate("ada")
            room.started(1, TIMEOUT_S)
            room.candidate("twin", options=["--id", "ada"]).said("duplicate-id", TIMEOUT_S)
            assert len(room.starts()) == 1
            room.judge()


@suite.test
def a_candidate_that_is_killed_and_started_again_stays_listed():
    with Place("redis") as place:
        url = url_of(redis(place).start())
        with suite.room(url, ttl="2s", kill_after="100ms") as room:
            room.candidate("ada")
            room.started(1, TIMEOUT_S)
            ben = room.candidate("ben")
            wait_for(lambda: len(status(url)["candidates"]) == 2, TIMEOUT_S)
            send(ben.pid, signal.SIGKILL)
            again = room.candidate("again", options=["--id", "ben", "--priority", "7"])

            def is_new():
                """the entry of the new process"""
                listed = [c for c in status(url)["candidates"] if c["id"] == "ben"]
                assert listed, "the entry of the dead process expired before the new one took its place"
                return listed[0]["priority"] == 7
            wait_for(is_new, TIMEOUT_S, 0.05)
            assert not again.events("duplicate-id")


@suite.test
def successor_leads_after_ttl_when_holder_is_killed():
    with Place("redis") as place:
        url = url_of(redis(place).start())
        with suite.room(url) as room:
            ada = room.candidate("ada")
            room.started(1, TIMEOUT_S)
            ben = room.candidate("ben")
            ben.said("leader", TIMEOUT_S)
            guardian, work = ada.guardian(), int(room.starts()[0][2])
            for pid in (guardian, ada.pid):
                send(pid, signal.SIGKILL)
            room.started(2, TIMEOUT_S)
            assert not lives(work)
            room.judge()


@suite.test
def guardian_logs_the_death_of_its_supervisor_where_the_lease_must_expire():
    with Place("redis") as place:
        url = url_of(redis(place).start())
        with suite.room(url) as room:
            ada = room.candidate("ada")
            room.started(1, TIMEOUT_S)
            send(ada.pid, signal.SIGKILL)
            assert ada.said("supervisor-died", TIMEOUT_S)["level"] == "error"
            assert "until the lease expires" in ada.said("confirmed-dead", TIMEOUT_S)["message"]
            assert [event["event"] for event in ada.events()[-2:]] == ["supervisor-died", "confirmed-dead"]


@suite.test
def late_write_is_rejected_when_holder_was_stopped():
    with Place("redis") as place:
        server = redis(place).start()
        guard = place.file("guard.lua", suite.command("guard", "print", "redis")[1])

        def write(token, value):
            return cli(server.port, "--eval", guard, "{ledger}/guard", "{ledger}", ",", token, "SET", "{ledger}", value)
        with suite.room(url_of(server)) as room:
            ada = room.candidate("ada")
            first = room.started(1, TIMEOUT_S)
            assert write(first[1], "ada") == "OK"
            for pid in (ada.pid, ada.guardian(), int(first[2])):
                send(pid, signal.SIGSTOP)
            room.candidate("ben")
            second = room.started(2, TIMEOUT_S)
            assert write(second[1], "ben") == "OK"
            assert "ESTALE" in write(first[1], "ada, late")  # the write that a paused leader on another machine would send
            assert cli(server.port, "GET", "{ledger}") == "ben"
            room.judge()


@suite.test
def guard_rejects_stale_or_missing_token():
    with Place("redis") as place:
        server = redis(place).start()
        guard = place.file("guard.lua", suite.command("guard", "print", "redis")[1])

        def write(token, *words):
            return cli(server.port, "--eval", guard, "k/guard", "k", ",", token, *words)
        assert write(9, "SET", "k", "a") == "OK"
        assert write(10, "SET", "k", "b") == "OK"
        assert "ESTALE" in write(9, "SET", "k", "c")
        assert "ESTALE" in write("9") and write("10") == "OK"
        assert "ENOTOKEN" in write("", "SET", "k", "d") and "ENOTOKEN" in write("0", "SET", "k", "d")
        assert write(18446744073709551615, "APPEND", "k", "e") == "2"
        assert "ESTALE" in write(18446744073709551614, "SET", "k", "f")
        assert cli(server.port, "GET", "k") == "be"


@suite.test
def unreachable_server_stops_the_work_in_time_and_tokens_grow_after_data_loss():
    with Place("redis") as place:
        server = redis(place).start()
        with suite.room(url_of(server), retry="200ms") as room:
            candidates = [room.candidate("ada"), room.candidate("ben")]
            room.started(1, TIMEOUT_S)
            for c in candidates:
                c.said("leader", TIMEOUT_S)  # both have seen the token
            for i, away in enumerate((server.kill, server.pause)):
                leader = room.leading()
                lost = len(leader.events("step-down"))
                away()
                assert leader.said("step-down", TIMEOUT_S, lost + 1)["reason"] == "unreachable"
                leader.said("confirmed-dead", TIMEOUT_S, lost + 1)
                if away == server.kill:
                    server.start()  # without persistence: lock, token and record are lost
                else:
                    server.resume()
                room.started(i + 2, TIMEOUT_S)
            room.judge()


@suite.test
def errors_or_delays_for_a_whole_ttl_stop_the_work_in_time():
    with Place("redis") as place:
        server = redis(place).start()
        proxy = place.proxy(server.port)
        with suite.room(f"redis://127.0.0.1:{proxy.port}", retry="200ms") as room:
            ada = room.candidate("ada")
            room.started(1, TIMEOUT_S)
            cli(server.port, "CONFIG", "SET", "maxmemory", "1")
            assert ada.said("step-down", TIMEOUT_S)["reason"] == "unreachable"
            assert "OOM" in ada.said("store-unavailable", TIMEOUT_S)["message"]
            cli(server.port, "CONFIG", "SET", "maxmemory", "0")
            room.started(2, TIMEOUT_S)
            proxy.delay(3)
            ada.said("step-down", TIMEOUT_S, 2)
            proxy.heal()
            room.started(3, TIMEOUT_S)
            room.judge()


@suite.test
def lost_acquire_reply_is_recognised():
    with Place("redis") as place:
        server = redis(place).start()
        proxy = place.proxy(server.port)
        swallowed = []

        def swallow(data):
            if b"\r\ndone\r\n" in data and not swallowed:
                swallowed.append(data)
                proxy.loop.call_soon(proxy.close_all)
                return b""
            return data
        proxy.replace(swallow)
        with suite.room(f"redis://127.0.0.1:{proxy.port}", ttl="6s") as room:
            room.candidate("ada")
            start = room.started(1, TIMEOUT_S)
            assert swallowed and start[1] == "1", (swallowed, start)
            assert status(url_of(server))["token"] == 1
            room.judge()


@suite.test
def foreign_clients_and_bellwether_exclude_each_other():
    for events in ("", "Kgx"):
        with Place("redis") as place:
            server = redis(place, more=["--notify-keyspace-events", events]).start()
            url = url_of(server, "?prefix=locks:")
            assert cli(server.port, "SET", "locks:e", "foreign-1", "NX", "PX", 60000) == "OK"
            with suite.room(url, retry="1s") as room:
                ada = room.candidate("ada")
                assert ada.said("leader", TIMEOUT_S)["leader"] == "foreign-1"
                assert status(url)["leader"] == "foreign-1" and not room.starts()
                assert cli(server.port, "EVAL", COMPARE_AND_DELETE, 1, "locks:e", "foreign-1") == "1"
                room.started(1, TIMEOUT_S)
                assert cli(server.port, "SET", "locks:e", "foreign-2", "NX", "PX", 60000) == ""
                resigns = subprocess.Popen([suite.bellwether, "resign", "--store", url, "--election", "e"],
                                           stdout=subprocess.DEVNULL)
                with socket.create_connection(("127.0.0.1", server.port)) as foreign:
                    def taken():
                        """the foreign client to acquire the lock that ada releases"""
                        foreign.sendall(b"SET locks:e foreign-3 NX PX 700\r\n")
                        return foreign.recv(64) == b"+OK\r\n"
                    wait_for(taken, TIMEOUT_S, 0.0005)
                assert resigns.wait(TIMEOUT_S) == 0
                room.started(2, TIMEOUT_S)  # the foreign client's lease expired
                room.judge()


@suite.test
def status_lists_the_elections_below_the_prefix():
    with Place("redis") as place:
        server = redis(place).start()
        prefix = "a[b]*?^-\\\\"  # characters that a pattern of SCAN gives a meaning
        url = url_of(server, "?prefix=" + quote(prefix))
        with suite.room(url, ttl="10s", kill_after="1s") as room:
            assert suite.elections_of(url) == {}
            names = [f"foreign {i:02}" for i in range(40)]
            further = [f"other-{i}" for i in range(3000)]  # more than a page
            lines = [f'SET "{quoted(prefix + name)}" them PX 600000' for name in names] + [f"SET {key} x" for key in further]
            lines += [f'SET "{quoted(prefix)}data" x', f'RPUSH "{quoted(prefix)}list" x', f'PEXPIRE "{quoted(prefix)}list" 600000',
                      f'SET "{quoted(prefix)}a/b" x PX 600000',
                      f'SET "{quoted(prefix)}{"x" * 200}" x PX 600000', f'HSET "{{{quoted(prefix)}}}/candidates" x x',
                      'SET "ab" x PX 600000', 'HSET "{abe}/bellwether" n 1']  # none of them is an election below the prefix
            script = subprocess.run([program("redis-cli", "redis-tools"), "-p", str(server.port)], input="\n".join(lines), text=True,
                                    capture_output=True, timeout=TIMEOUT_S, check=True)
            assert "ERR" not in script.stdout, script.stdout
            suite.status_lists_two_elections(url, room)
            found = suite.elections_of(url)
            assert sorted(found) == sorted([*names, "led", "left"]), sorted(found)
            assert found["foreign 07"]["leader"] == "them" and found["foreign 07"]["held"], found["foreign 07"]
            calls = cli(server.port, "INFO", "commandstats")
            pages = int(re.search(r"cmdstat_scan:calls=(\d+)", calls)[1])
            assert pages >= 4 * 3000 // 1000 and "cmdstat_keys:" not in calls, calls
            # without a prefix, locks of foreign clients look like any other key
            plain = suite.elections_of(url_of(server))
            assert sorted(plain) == sorted(["abe", prefix + "led", prefix + "left"]), sorted(plain)


@suite.test
def status_lists_elections_only_with_the_right_to_scan():
    with Place("redis") as place:
        users = ["--user", "all", "on", ">x", *RIGHTS.split(), "--user", "some", "on", ">x", *RIGHTS.split(), "-scan"]
        server = redis(place, more=users).start()
        secret = place.file("secret", "x\n", 0o600)
        cli(server.port, "SET", "other", "x", "PX", 600000)

        def url(user):
            return f"redis://{user}@127.0.0.1:{server.port}?prefix=locks:&password-file={secret}"
        with suite.room(url("all"), ttl="10s", kill_after="1s") as room:
            suite.status_lists_two_elections(url("all"), room)
            begun = time.monotonic()
            code, out, err = suite.command("status", "--store", url("some"), "--timeout", "1h")
            assert code == 69 and "add +scan to its ACL rules" in err and "--election NAME" in err and not out, (code, out, err)
            assert time.monotonic() - begun < TIMEOUT_S, "a retry does not help"
            assert suite.command("status", "--store", url("some"), "--election", "led")[0] == 0


@suite.test
def redlock_lists_the_elections_of_a_majority():
    with Place("redis") as place:
        servers = five(place)
        url = redlock_url(servers)
        with suite.room(url, ttl="10s", kill_after="1s") as room:
            room.election = "left"
            assert room.candidate("first", command=["true"], options=["--accept-no-token"]).wait() == 0
            room.election = "led"
            room.candidate("second", options=["--accept-no-token"])
            room.started(1, TIMEOUT_S)
            assert set(suite.elections_of(url)) == {"left", "led"}
            servers[0].kill()
            servers[1].pause()
            found = suite.elections_of(url)
            assert set(found) == {"left", "led"} and found["led"]["leader"] == "second", found
            servers[2].kill()
            code, _, err = suite.command("status", "--store", url, "--timeout", "1s")
            assert code == 69 and err, (code, err)
            servers[1].resume()


@suite.test
def key_of_another_type_is_reported_and_not_changed():
    with Place("redis") as place:
        server = redis(place).start()
        cli(server.port, "RPUSH", "e", "list")
        code, _, err = suite.command("run", "--store", url_of(server), "--election", "e", "--wait", "1s", "--", "true")
        assert code in (69, 75) and "WRONGTYPE" in err, (code, err)
        assert cli(server.port, "LRANGE", "e", 0, -1) == "list"


# ---- hostile servers, bad URLs, secrets ----

def liar(answer):
    """Starts a server that sends `answer` repeatedly to every client. Yields the listener."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                peer = server.accept()[0]
            except OSError:
                return
            threading.Thread(target=talk, args=(peer,), daemon=True).start()

    def talk(peer):
        try:
            peer.recv(65536)
            for part in answer():
                peer.sendall(part)
            peer.recv(65536)
        except OSError:
            pass
        peer.close()
    threading.Thread(target=serve, daemon=True).start()
    return server


@suite.test
def hostile_replies_end_in_a_clear_line_and_little_memory():
    def endless():
        yield b"$500000000\r\n"
        while True:
            yield b"x" * 65536

    def headers():
        while True:
            yield b"+" + b"h" * 65535

    replies = {"garbage": lambda: [b"HTTP/1.1 200 OK\r\n\r\n<html>"], "endless": endless, "one line": headers,
            "huge array": lambda: [b"*2000000000\r\n"], "negative": lambda: [b"$-7\r\n", b"*-9\r\n"],
            "deep": lambda: [b"*1\r\n" * 100], "unasked": lambda: [b"+PONG\r\n+OK\r\n" * 50],
            "wrong types": lambda: [b"*0\r\n", b":5\r\n", b"*8\r\n" + b":1\r\n" * 8] * 20}
    for name, answer in replies.items():
        with liar(answer) as server:
            url = f"redis://127.0.0.1:{server.getsockname()[1]}"
            words = [suite.bellwether, "run", "--store", url, "--election", "e", "--wait", "700ms", "--log", "human", "--", "true"]
            process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
            err = process.stderr.read().decode(errors="replace")
            _, code, usage = os.wait4(process.pid, 0)
            assert os.waitstatus_to_exitcode(code) in (69, 75) and "no response from the store" in err, (name, code, err)
            assert SANITIZED or usage.ru_maxrss < 80 * 1024, (name, usage.ru_maxrss)


@suite.test
def invalid_redis_urls_are_rejected_with_a_reason():
    bad = {"redis://": "no host", "redis://h1,h2": "three", "redis://h/x": "expected a number", "redis://h?prefx=a": "prefix",
           "redis://h:0": "port '0'", "redis+sentinel://h1,h2,h3": "missing master name", "redis://h?wait=x": "wait",
           "redis://h1,h2,h3?wait=1": "wait", "redis://h?ca-file=/x": "rediss://", "redis://user@h": "password",
           "redis://h?password-file=/does/not/exist": "cannot read", "redis://h,h,h": "duplicate host h:6379", "redis://h?restarts=no": "durable",
           "rediss://h?ca-file=/does/not/exist": "authorities"}
    for url, words in bad.items():
        code, _, err = suite.command("run", "--store", url, "--election", "e", "--", "true")
        assert code == 64 and words in err, (url, code, err)


@suite.test
def tls_is_verified_and_no_output_contains_secrets():
    with Place("redis") as place:
        port, ca, secret = tls_server(place)
        wrong = place.file("wrong", "not-" + PASSWORD, 0o600)
        good = f"rediss://lead@127.0.0.1:{port}?prefix=locks:&ca-file={ca}&password-file={secret}"
        code, out, err = suite.command("store", "check", good)
        assert code == 0 and PASSWORD not in out + err, (code, out, err)
        cases = {f"rediss://lead@127.0.0.1:{port}?password-file={secret}": "certificate",
                 f"rediss://lead@localhost:{port}?ca-file={ca}&password-file={secret}": "mismatch",
                 f"rediss://lead@127.0.0.1:{port}?ca-file={ca}&password-file={wrong}": "WRONGPASS",
                 f"rediss://127.0.0.1:{port}?ca-file={ca}": "NOAUTH",
                 f"redis://127.0.0.1:{port}": "no response from the store"}
        for url, words in cases.items():
            code, out, err = suite.command("run", "--store", url, "--election", "e", "--wait", "1s", "--log", "human", "--", "true")
            denied = words in ("WRONGPASS", "NOAUTH")  # and a retry would not help
            assert code == (64 if denied else 69) and words in err and PASSWORD not in out + err, (url, code, err)
        with suite.room(good) as room:
            ada = room.candidate("ada", "for=300")
            assert ada.wait(TIMEOUT_S) == 0
            with open(ada.errors, encoding="utf-8") as file:
                assert PASSWORD not in file.read()


@suite.test
def a_password_in_a_store_file_is_used_and_not_shown():
    with Place("redis") as place:
        port = redis(place, more=["--requirepass", PASSWORD]).start().port
        url = place.file("url", f"redis://:{PASSWORD}@127.0.0.1:{port}\n", 0o600)
        code, out, err = suite.command("run", "--store-file", url, "--election", "e", "--", "sh", "-c", "echo $BELLWETHER_STORE")
        assert code == 0 and out.strip() == f"redis://127.0.0.1:{port}" and PASSWORD not in err, (code, out, err)
        look = f"cd / && {suite.bellwether} status --json && {suite.bellwether} status --store redis://127.0.0.1:1 --timeout 100ms"
        code, out, err = suite.command("run", "--store-file", os.path.relpath(url), "--election", "e", "--id", "ada", "--", "sh",
                                       "-c", look.replace(suite.bellwether, os.path.abspath(suite.bellwether)))
        shown = json.loads(out.splitlines()[0])
        assert shown["leader"] == "ada" and shown["held"] and PASSWORD not in out + err, (code, out, err)
        assert code == 69, "--store overrides BELLWETHER_STORE"


# ---- Redlock ----

@suite.test
def unreachable_instances_are_not_reported_as_back():
    url = "redis://" + ",".join(f"127.0.0.1:{port}" for port in free_ports(3))
    code, _, err = suite.command("run", "--store", url, "--election", "e", "--accept-no-token", "-n", "--", "true")
    assert code == 69 and "store-unavailable" in err and "gave-up" in err, (code, err)
    assert "store-available" not in err, err


@suite.test
def redlock_works_with_two_of_five_down_and_stops_with_three():
    with Place("redis") as place:
        servers = five(place)
        with suite.room(redlock_url(servers), retry="200ms") as room:
            for name in ("ada", "ben"):
                room.candidate(name, options=["--accept-no-token"])
            room.started(1, TIMEOUT_S)
            servers[0].kill()
            servers[1].pause()
            suite.resign(room)
            room.started(2, TIMEOUT_S)
            renewals(servers[2], 4)  # longer than a TTL: three of five instances renew the lease
            leader = room.leader(len(room.starts()), TIMEOUT_S)
            lost = len(leader.events("step-down"))
            begun = len(room.starts())
            servers[2].kill()
            assert leader.said("step-down", TIMEOUT_S, lost + 1)["reason"] == "unreachable"
            leader.said("confirmed-dead", TIMEOUT_S, lost + 1)
            servers[2].start()
            room.started(begun + 1, TIMEOUT_S)
            judge_overlap(room)


@suite.test
def redlock_recognises_a_leader_when_two_of_its_three_voters_are_unreachable():
    with Place("redis") as place:
        servers = five(place)
        with suite.room(redlock_url(servers), ttl="30s", retry="200ms") as room:
            ada = room.candidate("ada", options=["--accept-no-token", "--renew", "9s"])
            room.started(1, TIMEOUT_S)
            for server in servers[3:]:  # as if these two had voted for another candidate, which then gave up
                assert cli(server.port, "DEL", "e") == "1"
            servers[0].kill()
            servers[1].pause()
            assert suite.resign(room)["leader"] == "ada", "she was the only candidate"
            ada.said("step-down", TIMEOUT_S)
            room.started(2, TIMEOUT_S)
            judge_overlap(room)


@suite.test
def redlock_requires_consent_because_it_issues_no_token():
    with Place("redis") as place:
        url = redlock_url(five(place, 3))
        words = ["run", "--store", url, "--election", "e", "--log", "human"]
        code, _, err = suite.command(*words, "--", "true")
        assert code == 64 and "provides no tokens" in err and "--accept-no-token" in err, (code, err)
        check = f"test -z \"${{BELLWETHER_TOKEN+set}}\" && {suite.bellwether} guard file {place.dir}/f -- true"
        code, _, err = suite.command(*words, "--accept-no-token", "--", "sh", "-c", check)
        assert code == 64 and "ENOTOKEN" in err and "gives no token" in err, (code, err)
        code, _, err = suite.command(*words, "--stonith", "true", "--", "true")
        assert code == 0, (code, err)


@suite.test
def redlock_ignores_restarted_instances_for_a_ttl():
    with Place("redis") as place:
        servers = five(place, 3)
        url = redlock_url(servers, "")
        with suite.room(url, ttl="3s", retry="100ms") as room:
            ada = room.candidate("ada", options=["--accept-no-token"])
            assert "restarted" in ada.said("store-unavailable", TIMEOUT_S)["message"]
            assert not room.starts()
            room.started(1, TIMEOUT_S)


# ---- Sentinel ----

def cut_off(master, replica):
    """Cuts the replica off from its master; the replica keeps its data."""
    cli(replica.port, "CONFIG", "SET", "masteruser", "nobody")
    cli(replica.port, "CONFIG", "SET", "masterauth", "nothing")
    cli(master.port, "CLIENT", "KILL", "TYPE", "replica")

    def alone():
        """the replica to be cut off"""
        return "master_link_status:down" in cli(replica.port, "INFO", "replication")
    wait_for(alone, TIMEOUT_S, 0.02)


@suite.test
def tokens_grow_after_a_failover_to_a_replica_that_lost_writes():
    with Place("redis") as place:
        master, replicas, _, url = sentinels(place)
        with suite.room(url, ttl="3s", retry="200ms") as room:
            candidates = [room.candidate("ada"), room.candidate("ben")]
            room.started(1, TIMEOUT_S)
            for c in candidates:
                c.said("leader", TIMEOUT_S)
            cut_off(master, replicas[0])  # the replica does not receive the next leadership
            assert suite.command("resign", "--store", url, "--election", "e")[0] == 0
            second = int(room.started(2, TIMEOUT_S)[1])
            wait_for(lambda: all(e[-1]["token"] == second for e in (c.events("leader") for c in candidates) if e), TIMEOUT_S)
            master.kill()
            third = int(room.started(3, TIMEOUT_S)[1])
            assert third > second, room.starts()
            room.judge()  # candidates that saw the lost leadership wait until its TTL expires
            port = int(cli(int(url.split(":")[2].split(",")[0]), "SENTINEL", "get-master-addr-by-name", "lead").split()[1])
            assert port == replicas[0].port


@suite.test
def acquire_fails_when_too_few_replicas_confirm_it():
    with Place("redis") as place:
        master, replicas, _, url = sentinels(place)
        replicas[0].pause()
        code, _, err = suite.command("run", "--store", url_of(master, "?wait=1"), "--election", "e", "--wait", "3s", "--log",
                                     "human", "--", "true")
        assert code in (69, 75) and "too few replicas" in err, (code, err)
        assert cli(master.port, "EXISTS", "e") == "0"
        replicas[0].resume()
        code, _, err = suite.command("run", "--store", url_of(master, "?wait=1"), "--election", "e", "--wait", "60s", "--", "true")
        assert code == 0, (code, err)


if __name__ == "__main__":
    suite.main(at_once=3)
