#!/usr/bin/env python3
"""The PostgreSQL store on a real cluster, with a real pooler, a real standby and a misbehaving proxy.

    store_postgres.py BELLWETHER WITNESS CONFORMANCE [NAME...] [--long]"""
import datetime
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from postgres_lib import Pgbouncer, Postgres, wait_until  # noqa: E402
from run_lib import install_script, lives, send  # noqa: E402
from store_lib import Place, Skip, Suite, free_ports, program  # noqa: E402

LONG = "--long" in sys.argv
if LONG:
    sys.argv.remove("--long")
TTL_S = 2.0
IN_TIME_TTL_S = 3.0
TIMEOUT_S = 60.0  # timeout of a hung test; no test asserts on it
suite = Suite()


def note(text):
    print("# " + text, flush=True)


def room_of(url, ttl_s=TTL_S, kill_after="200ms"):
    return suite.room(url, ttl=f"{ttl_s:.0f}s", kill_after=kill_after, retry="100ms")


def punctual(url):
    """A room of candidates whose work ends at once but has one second to do so. So a stalled machine does not make the work
    outlive its lease."""
    return room_of(url, IN_TIME_TTL_S, "1s")


def two(room):
    """A leads, B waits."""
    a = room.candidate("a")
    room.started(1, TIMEOUT_S)
    b = room.candidate("b")
    b.said("leader", TIMEOUT_S)
    return a, b


def ended(room, token):
    """When the work of a token ended: by its own last line, or when its process was seen to be gone."""
    start = next(x for x in room.starts() if x[1] == str(token))

    def line():
        found = [x for x in room.lines() if x[0] == "end" and x[1] == str(token)]
        if found:
            return int(found[0][3])
        return not lives(int(start[2])) and time.monotonic_ns()
    return wait_until(line, f"the end of work {token}", TIMEOUT_S)


def token_of(line):
    return int(line[1])


# ---- conformance ----

@suite.test
def conformance_direct():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        suite.run_conformance("direct", cluster.url())


@suite.test
def conformance_through_a_pooler():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        pooler = Pgbouncer(place, cluster)
        suite.run_conformance("pooler", cluster.url(port=pooler.port, more="&poll=50ms"))


# ---- the schema ----

@suite.test
def eight_concurrent_first_users_create_one_schema():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        for attempt in range(3):
            url = cluster.url(more=f"&schema=first{attempt}&table=one-two")
            users = [subprocess.Popen([suite.bellwether, "store", "init", url, "--timeout", "30s"], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True) for _ in range(8)]
            said = [user.communicate(timeout=120)[0] for user in users]
            assert all(user.returncode == 0 for user in users), said
        assert cluster.sql("SELECT count(*) FROM pg_class WHERE relname = 'one-two'") == "3"


@suite.test
def user_without_permissions_works_after_running_the_printed_schema():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        cluster.sql(f"CREATE ROLE app LOGIN PASSWORD '{cluster.PASSWORD}'")
        url = cluster.url(user="app")
        code, _, errors = suite.answer("store", "check", url, "--timeout", "2s")
        assert code == 69 and "store init URL --print" in errors and "permission denied" in errors, errors
        code, schema, _ = suite.command("store", "init", url, "--print")
        assert code == 0
        cluster.sql(schema)
        code, _, errors = suite.answer("store", "check", url, "--timeout", "2s")
        assert code == 69 and "permission denied" in errors, errors
        grants = [line[2:].replace(" TO role;", " TO app;") for line in schema.splitlines() if "GRANT" in line]
        assert len(grants) == 4
        cluster.sql("\n".join(grants))
        code, out, errors = suite.command("store", "check", url)
        assert code == 0 and "PostgreSQL" in out, errors


@suite.test
def foreign_table_and_newer_layout_are_rejected_unchanged():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        cluster.sql("CREATE SCHEMA bellwether; CREATE TABLE bellwether.election (a int); INSERT INTO bellwether.election VALUES (7)")
        code, _, errors = suite.answer("store", "check", cluster.url(), "--timeout", "1s")
        assert code == 69 and "not Bellwether's" in errors and "?schema=" in errors, errors
        assert cluster.sql("SELECT a FROM bellwether.election") == "7"
        cluster.sql("COMMENT ON TABLE bellwether.election IS 'bellwether store, layout 2'")
        code, _, errors = suite.answer("store", "check", cluster.url(), "--timeout", "1s")
        assert code == 69 and "another version" in errors, errors
        code, _, errors = suite.command("store", "check", cluster.url(more="&schema=mine"))
        assert code == 0, errors


# ---- errors are reported ----

@suite.test
def invalid_urls_and_settings_are_rejected_with_a_reason():
    cases = [("postgres://h/d?poll=never", "poll"), ("postgres://h/d?schema=a;b", "schema"), ("postgres://h/d?tabel=x", "table"),
             ("postgres://h:0/d", "port"), ("postgres://h/d?password=x", "password-file"), ("postgres://h,/d", "host"),
             ("postgres://h/d?schema=" + "x" * 40, "schema"), ("postgres://h/d?password-file=/nowhere", "/nowhere"),
             ("postgres://a/d?host=b", "host"), ("postgres:d", "postgres://HOST")]
    for url, word in cases:
        code, _, errors = suite.command("store", "check", url)
        assert code == 64 and word in errors and errors.count("\n") == 1, f"{url}: {code} {errors}"


@suite.test
def server_errors_are_reported_in_one_line():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        port = free_ports()[0]
        wrong = place.file("wrong", "not this one\n")
        cases = [(cluster.url(database="nowhere"), 'database "nowhere" does not exist'),
                 (cluster.url(user="nobody"), "password authentication failed"),
                 (f"postgres://boss@127.0.0.1:{cluster.port}/postgres?password-file={wrong}", "password authentication failed"),
                 (cluster.url(port=port), "Connection refused"),
                 ("postgres://boss@name.invalid/postgres", "name.invalid"),
                 (cluster.url(more="&sslmode=require"), "does not support SSL"),
                 (cluster.url(more="&sslmode=maybe"), "sslmode")]
        with ThreadPoolExecutor(len(cases)) as pool:  # each command retries until its timeout
            answers = list(pool.map(lambda case: suite.answer("store", "check", case[0], "--timeout", "3s"), cases))
        for (url, word), (code, _, errors) in zip(cases, answers):
            assert code == 69 and word in errors and errors.count("\n") == 1, f"{url}: {code} {errors}"
            assert cluster.PASSWORD not in errors and "not this one" not in errors
        url = f"postgres://boss@127.0.0.1:{cluster.port}/postgres?password-file={wrong}"
        code, _, errors = suite.command("run", "--store", url, "--election", "e", "--wait", "60s", "--", "true")
        assert code == 64 and "password authentication failed" in errors and "not this one" not in errors, (code, errors)


@suite.test
def no_output_contains_the_password():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        secret = cluster.PASSWORD.replace(" ", "%20")
        plain = f"postgres://boss:{secret}@127.0.0.1:{cluster.port}/postgres"
        code, _, errors = suite.command("store", "check", plain)
        assert code == 64 and "--store-file" in errors and "battery" not in errors
        code, out, errors = suite.command("store", "check", "--store-file", place.file("url", plain + "\n", 0o600))
        assert code == 0 and "battery" not in out + errors, errors
        passfile = place.file("pgpass", f"127.0.0.1:*:*:boss:{cluster.PASSWORD}\n", 0o600)
        code, _, errors = suite.command("store", "check", f"postgres://boss@127.0.0.1:{cluster.port}/postgres",
                                        env={"PGPASSFILE": passfile})
        assert code == 0, errors
        code, out, errors = suite.command("store", "check", f"postgresql://boss@127.0.0.1:{cluster.port}/postgres",
                                          env={"PGPASSWORD": cluster.PASSWORD})
        assert code == 0 and "battery" not in out + errors, errors
        with room_of(cluster.url()) as room:
            a, _ = two(room)
            cluster.server.kill()
            a.said("store-unavailable", TIMEOUT_S)
            for candidate in room.candidates:
                with open(candidate.errors, encoding="utf-8") as file:
                    assert "battery" not in file.read()
                with open(f"/proc/{candidate.pid}/cmdline", encoding="utf-8") as file:
                    assert "battery" not in file.read()


@suite.test
def certificate_must_match_the_named_host():
    with Place("postgres") as place:
        openssl = program("openssl", "openssl")
        key, certificate = os.path.join(place.dir, "key.pem"), os.path.join(place.dir, "cert.pem")
        subprocess.run([openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate], check=True,
                       capture_output=True)
        os.chmod(key, 0o600)
        cluster = Postgres(place, ssl="on", ssl_key_file=key, ssl_cert_file=certificate).create()
        cluster.own(key)
        cluster.start()
        verified = f"&sslmode=verify-full&sslrootcert={certificate}"
        named = cluster.url(more=verified).replace("127.0.0.1", "localhost")
        code, _, errors = suite.command("store", "check", named)
        assert code == 0, errors
        code, _, errors = suite.answer("store", "check", cluster.url(more=verified), "--timeout", "3s")
        assert code == 69 and "does not match" in errors, errors


# ---- two candidates under the witness ----

def measured(url):
    code, out, errors = suite.command("store", "check", url, "--json")
    assert code == 0, errors
    return json.loads(out)


def instant(event):
    return datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00"))


def of_token(room, kind, token):
    """Finds what one of the candidates reported about a leadership."""
    def found():
        return next((e for c in room.candidates for e in c.events(kind) if e.get("token") == token), None)
    return wait_until(found, f"'{kind}' of token {token}", TIMEOUT_S)


@suite.test
def resignation_hands_leadership_over_at_once():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        with room_of(cluster.url()) as room:
            two(room)
            spans = []
            for count in range(2, 10):
                code, _, errors = suite.command("resign", "--store", cluster.url(), "--election", room.election)
                assert code == 0, errors
                token = token_of(room.started(count, TIMEOUT_S))
                started = of_token(room, "started", token)
                released = of_token(room, "released", token_of(room.starts()[count - 2]))
                spans.append((instant(started) - instant(released)).total_seconds() * 1e3)
            room.judge()
        check = measured(cluster.url())
        note(f"released to started: {sorted(spans)[len(spans) // 2]:.1f} ms median of {len(spans)}, {max(spans):.1f} ms at worst;"
             f" a read takes {check['latency_ms']['median']:.2f} ms, a renewal {check['election']['renew_ms']:.2f} ms")


@suite.test
def successor_leads_after_ttl_when_holder_is_killed():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        with room_of(cluster.url()) as room:
            a, b = two(room)
            guardian = a.guardian()
            killed = time.monotonic_ns()
            for pid in (a.pid, guardian):
                send(pid, signal.SIGSTOP)  # neither may see the other die
            for pid in (guardian, a.pid):
                send(pid, signal.SIGKILL)
            start = room.started(2, TIMEOUT_S)
            assert b.leads()
            note(f"both processes killed, next start after {(int(start[3]) - killed) / 1e9:.2f} s with a TTL of {TTL_S} s")
            room.judge()


@suite.test
def a_stopped_holder_is_fenced_by_the_guard_in_the_database():
    """The old leader resumes after another took over and writes with its token: the database rejects it."""
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        cluster.sql("CREATE TABLE orders (id serial, what text, bw_token bigint)")
        code, guard, _ = suite.command("guard", "print", "postgres", "--table", "orders")
        assert code == 0
        cluster.sql(guard)
        writer = install_script(os.path.join(place.dir, "writer.sh"),
                            "echo \"INSERT INTO orders (what, bw_token) VALUES ('$BELLWETHER_ID', $BELLWETHER_TOKEN)\" |\n"
                            f"PGPASSWORD='{cluster.PASSWORD}' psql -X -q -h 127.0.0.1 -p {cluster.port} -U boss -d postgres\n"
                            "exec sleep 3600\n")
        with room_of(cluster.url()) as room:
            a = room.candidate("a", command=[writer])
            wait_until(lambda: cluster.sql("SELECT count(*) FROM orders") == "1", "a's order", TIMEOUT_S)
            old = a.said("started", TIMEOUT_S)["token"]
            guardian = a.guardian()
            a.signal(signal.SIGSTOP)
            send(guardian, signal.SIGSTOP)
            b = room.candidate("b", command=[writer])
            wait_until(lambda: cluster.sql("SELECT count(*) FROM orders WHERE what = 'b'") == "1", "b's order", TIMEOUT_S)
            assert b.said("started", TIMEOUT_S)["token"] > old
            late = cluster.error(f"INSERT INTO orders (what, bw_token) VALUES ('a, late', {old})")
            assert "ESTALE" in late and "BW077" in late, late
            assert cluster.sql("SELECT count(*) FROM orders") == "2"
            send(guardian, signal.SIGCONT)
            a.signal(signal.SIGCONT)


# ---- the server's faults ----

def steps_down_in_time(cluster, room, fault, heal, grows=True):
    """The fault lasts longer than the TTL. The holder's work ends before its lease expires; afterwards a candidate leads again."""
    a, _ = two(room)
    first = token_of(room.starts()[0])
    watch = stall.Watch([a.pid, a.guardian()])
    fault()
    at = time.monotonic_ns()  # requests sent from now on renew nothing
    took = (ended(room, first) - at) / 1e9
    assert took < IN_TIME_TTL_S + watch.longest(), f"the work ended {took:.2f} s after the fault; the TTL is {IN_TIME_TTL_S} s"
    lost = a.said("step-down", TIMEOUT_S)
    assert lost["reason"] in ("expired", "unreachable"), lost
    time.sleep(max(0.0, IN_TIME_TTL_S * 1.2 - took))
    heal()
    start = room.started(2, TIMEOUT_S)
    assert not grows or token_of(start) > first
    room.judge()
    return took, lost


@suite.test
def killed_server_ends_the_work_in_time_and_its_return_elects_a_leader():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        with punctual(cluster.url()) as room:
            took, _ = steps_down_in_time(cluster, room, cluster.server.kill, cluster.start)
            note(f"server killed: work over after {took:.2f} s, TTL {IN_TIME_TTL_S} s")


@suite.test
def a_paused_server_ends_the_work_in_time():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        pids = lambda: cluster.sql("SELECT string_agg(pid::text, ' ') FROM pg_stat_activity").split()  # noqa: E731
        with punctual(cluster.url()) as room:
            stopped = []

            def pause():
                stopped.extend(int(pid) for pid in pids())
                for pid in [*stopped, cluster.server.process.pid]:
                    send(pid, signal.SIGSTOP)

            def resume():
                for pid in [*stopped, cluster.server.process.pid]:
                    send(pid, signal.SIGCONT)
            try:
                steps_down_in_time(cluster, room, pause, resume)
            finally:
                resume()


@suite.test
def answers_later_than_the_deadline_end_the_work_in_time():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        proxy = place.proxy(cluster.port)
        with punctual(cluster.url(port=proxy.port)) as room:
            steps_down_in_time(cluster, room, lambda: proxy.delay(IN_TIME_TTL_S), proxy.heal)


@suite.test
def a_half_open_connection_ends_the_work_in_time():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        proxy = place.proxy(cluster.port)
        with punctual(cluster.url(port=proxy.port)) as room:
            steps_down_in_time(cluster, room, proxy.drop, proxy.heal)


@suite.test
def errors_for_a_whole_ttl_end_the_work_in_time_with_their_reason():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        cluster.sql(f"CREATE ROLE app LOGIN PASSWORD '{cluster.PASSWORD}' IN ROLE pg_read_all_data")
        suite.command("store", "init", cluster.url())
        tables = "ALL TABLES IN SCHEMA bellwether"
        cluster.sql(f"GRANT USAGE ON SCHEMA bellwether TO app; GRANT ALL ON {tables} TO app;"
                    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA bellwether TO app")
        with punctual(cluster.url(user="app")) as room:
            steps_down_in_time(cluster, room, lambda: cluster.sql(f"REVOKE UPDATE ON {tables} FROM app"),
                               lambda: cluster.sql(f"GRANT UPDATE ON {tables} TO app"))
            away = room.candidates[0].events("store-unavailable")  # on a busy machine the first may precede the fault
            assert any("permission denied" in event["message"] for event in away), away


def recover_a_lost_reply(_number):
    """The server executes the acquisition, but the reply is lost: no second token is issued, and no candidate waits forever."""
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        suite.command("store", "init", cluster.url())
        proxy = place.proxy(cluster.port)
        with room_of(cluster.url(port=proxy.port)) as room:
            other = suite.room(cluster.url())
            with other:
                holder = other.candidate("x")
                other.started(1, TIMEOUT_S)
                a = room.candidate("a")
                a.said("leader", TIMEOUT_S)
                before = int(cluster.sql("SELECT last_value FROM bellwether.election_token"))
                # A's requests still arrive; of the server's messages only the notification of the release does.
                seen = {"news": False}

                def swallow(data):
                    if seen["news"] and b"held" in data and b'"a"' in data:
                        return b""
                    seen["news"] = True
                    return data
                proxy.replace(swallow)
                holder.signal(signal.SIGTERM)
                taken = "SELECT record ->> 'holder' = 'a' AND (record -> 'held')::boolean FROM bellwether.election"
                wait_until(lambda: cluster.sql(taken) == "t", "a's acquisition at the server", TIMEOUT_S)
                proxy.heal()
                wait_until(lambda: a.events("started"), "a's start", TIMEOUT_S)
                token = a.events("started")[0]["token"]
                now = int(cluster.sql("SELECT last_value FROM bellwether.election_token"))
                note(f"token {token}, sequence {before} then {now}")
                assert cluster.sql("SELECT token FROM bellwether.election") == str(token)
                other.judge()
                room.judge()


@suite.test
def lost_reply_to_an_acquisition_is_recovered():
    stall.judge(recover_a_lost_reply, TTL_S / 5)  # a candidate without a CPU loses the lease that it has just acquired


@suite.test
def restored_backup_never_lets_two_candidates_lead():
    """Lost state: a backup from before the leadership is restored. The holder stops; candidates that saw its token continue above
    it."""
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        suite.command("store", "init", cluster.url())
        cluster.stop()
        copy = cluster.copy("older")
        cluster.start()
        cluster.sql("SELECT setval('bellwether.election_token', 1000)")  # the backup does not contain this
        with room_of(cluster.url()) as room:
            a, _ = two(room)
            first = token_of(room.starts()[0])
            cluster.stop()
            cluster.restore(copy)
            cluster.start()
            ended(room, first)
            room.started(2, TIMEOUT_S)
            assert a.said("step-down", TIMEOUT_S)["reason"] in ("expired", "unreachable", "taken")
            assert int(cluster.sql("SELECT last_value FROM bellwether.election_token")) < 1000, "the copy was not put back"
            room.judge()


@suite.test
def standby_is_rejected_until_it_is_promoted():
    with Place("postgres") as place:
        primary = Postgres(place, wal_level="replica").create().start()
        standby = primary.standby("standby").start()
        code, _, errors = suite.answer("store", "check", standby.url(), "--timeout", "1s")
        assert code == 69 and "read-only" in errors, errors
        both = primary.url().replace(f":{primary.port}/", f":{standby.port},127.0.0.1:{primary.port}/")
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf()")
        with room_of(both) as room:
            two(room)
            first = token_of(room.starts()[0])
            primary.server.kill()
            standby.promote()
            # The row was copied, so the leadership may continue; the next leader has a higher token.
            words = ("--store", both, "--election", room.election)
            wait_until(lambda: suite.command("status", *words)[0] in (0, 1), "the promoted server to answer", TIMEOUT_S)
            code, _, errors = suite.command("resign", *words)
            assert code == 0, errors
            start = room.started(2, TIMEOUT_S)
            assert token_of(start) > first, "the standby had all, and the token went back"
            room.judge()


@suite.test
def candidates_are_listed_again_after_a_server_was_unreachable_or_lost_data():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        cluster.server.kill()
        with room_of(cluster.url()) as room:
            first = room.candidate("early")  # the server is down, so it cannot enter
            first.said("store-unavailable", TIMEOUT_S)
            cluster.start()

            def listed():
                return suite.command("candidates", "--store", cluster.url(), "--election", room.election)[1]
            wait_until(lambda: "early" in listed(), "the candidate in the list", TIMEOUT_S)
            cluster.sql("DELETE FROM bellwether.election_candidate")
            wait_until(lambda: "early" in listed(), "the candidate in the list again", TIMEOUT_S)


# ---- poolers ----

@suite.test
def leadership_survives_a_pooler_that_switches_sessions():
    """Fault 20: the lease row decides, not the connection."""
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        pooler = Pgbouncer(place, cluster, pool=2)
        url = cluster.url(port=pooler.port, more="&poll=50ms")
        code, out, errors = suite.command("store", "check", url)
        assert code == 0 and "behind a pooler" in out, errors
        with room_of(url) as room:
            two(room)
            for count in range(2, 5):
                cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bellwether'")
                code, _, errors = suite.command("resign", "--store", url, "--election", room.election)
                assert code == 0, errors
                room.started(count, TIMEOUT_S)
            pooler.server.restart()
            time.sleep(TTL_S / 4)
            assert len(room.starts()) == 4, "a pooler's restart cost a leadership"
            room.judge()


# ---- hostile servers ----

@suite.test
def garbage_and_endless_answers_fail_safe():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        suite.command("store", "init", cluster.url())
        proxy = place.proxy(cluster.port)
        url = cluster.url(port=proxy.port)
        endless = b"D" + (0x7ffffff0).to_bytes(4, "big") + b"\0" * (1 << 20)
        for name, change in (("noise", lambda data: os.urandom(len(data))), ("nothing", lambda data: b"\0" * len(data)),
                             ("another protocol", lambda data: b"HTTP/1.1 400 Bad Request\r\n\r\n"),
                             ("cut", lambda data: data[:len(data) // 2]), ("endless", lambda data: endless * 4),
                             ("numbers", lambda data: data.replace(b"PostgreSQL", b"\xff" * 10))):
            proxy.replace(change)
            code, out, errors = suite.command("store", "check", url, "--timeout", "2s")
            assert code == 69 or (code == 0 and name == "numbers"), f"{name}: {code} {out} {errors}"
            assert all(sign.isprintable() for sign in errors.rstrip("\n")), repr(errors)
        proxy.heal()
        code, _, errors = suite.command("store", "check", url)
        assert code == 0, errors


@suite.test
def an_endless_answer_costs_bounded_memory_and_the_work_stops_in_time():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        proxy = place.proxy(cluster.port)
        with punctual(cluster.url(port=proxy.port)) as room:
            chunk = b"D" + (0x7ffffff0).to_bytes(4, "big") + b"\0" * (8 << 20)
            peak = [0]

            def memory():
                for candidate in room.candidates:
                    with open(f"/proc/{candidate.pid}/status", encoding="utf-8") as file:
                        kilobytes = [int(line.split()[1]) for line in file if line.startswith("VmHWM")]
                    peak[0] = max(peak[0], *kilobytes)
            took, _ = steps_down_in_time(cluster, room, lambda: proxy.replace(lambda data: chunk), lambda: (memory(), proxy.heal()))
            assert peak[0] < 200 * 1024, f"{peak[0]} KiB"
            note(f"endless answers: at most {peak[0] / 1024:.0f} MiB, work over after {took:.2f} s")


@suite.test
def row_of_another_program_is_rejected():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        suite.command("store", "init", cluster.url())
        for number, record in enumerate(('{"holder": 7}', '[]', '{"held": "yes"}', '{"ttl_ns": "-1"}', '{"token": "x"}')):
            cluster.sql(f"INSERT INTO bellwether.election VALUES ('odd{number}', 1, 1, '{record}', '{{}}')")
            code, _, errors = suite.answer("status", "--store", cluster.url(), "--election", f"odd{number}", "--timeout", "1s")
            assert code == 69 and "not a valid record" in errors, f"{record}: {code} {errors}"


# ---- the guard ----

@suite.test
def guard_rejects_older_tokens_and_lets_one_leader_write_in_parallel():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        code, guard, _ = suite.command("guard", "print", "postgres")
        assert code == 0
        cluster.sql(guard)
        cluster.sql(guard)  # running it twice changes nothing
        cluster.sql("SELECT bellwether_guard('ledger', 5)")
        cluster.sql("SELECT bellwether_guard('ledger', 5)")
        assert "BW077" in cluster.error("SELECT bellwether_guard('ledger', 4)")
        assert "BW064" in cluster.error("SELECT bellwether_guard('ledger', 0)")
        assert "BW064" in cluster.error("SELECT bellwether_guard('ledger', NULL)")
        cluster.sql("SELECT bellwether_guard('other', 1)")
        for theft in ("DELETE FROM bellwether_guard", "UPDATE bellwether_guard SET token = 1", "TRUNCATE bellwether_guard"):
            assert "EDENIED" in cluster.error(theft)
        assert cluster.sql("SELECT token FROM bellwether_guard WHERE resource = 'ledger'") == "5"
        parallel_writers(cluster)


def session(cluster):
    env = dict(os.environ, PGPASSWORD=cluster.PASSWORD, PGAPPNAME="writer")
    return subprocess.Popen([cluster.psql_program, "-X", "-A", "-t", "-q", "-h", "127.0.0.1", "-p", str(cluster.port), "-U",
                             "boss", "-d", "postgres"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env=env, text=True, bufsize=1)


def ask(process, text):
    process.stdin.write(text + "\n\\echo done\n")
    process.stdin.flush()
    said = []
    while True:
        line = process.stdout.readline()
        assert line, "psql ended"
        if line.strip() == "done":
            return "".join(said)
        said.append(line)


def parallel_writers(cluster):
    """Two transactions of token 5 run at once; one of token 6 waits for both; then token 5 is rejected."""
    one, two_, newer = session(cluster), session(cluster), session(cluster)
    try:
        for writer in (one, two_):
            assert "ERROR" not in ask(writer, "BEGIN; SELECT bellwether_guard('ledger', 5);")
        newer.stdin.write("SELECT bellwether_guard('ledger', 6);\n\\echo raised\n")
        newer.stdin.flush()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'writer'"
        wait_until(lambda: cluster.sql(waits) == "1", "the newer leader to wait", TIMEOUT_S)
        assert "ERROR" not in ask(one, "SELECT bellwether_guard('ledger', 5); COMMIT;")
        assert cluster.sql(waits) == "1"
        assert "ERROR" not in ask(two_, "COMMIT;")
        while newer.stdout.readline().strip() != "raised":
            pass
        assert "ESTALE" in ask(one, "SELECT bellwether_guard('ledger', 5);")
    finally:
        for writer in (one, two_, newer):
            writer.stdin.close()
            writer.wait(20)


# ---- cost of waiting ----

@suite.test
def one_of_many_waiting_candidates_takes_over():
    if not LONG:
        raise Skip("with --long")
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        with room_of(cluster.url()) as room:
            room.candidate("c0")
            room.started(1, TIMEOUT_S)
            for number in range(1, 50):
                room.candidate(f"c{number}")
            for candidate in room.candidates[1:]:
                candidate.said("leader", TIMEOUT_S * 5)
            before = int(cluster.sql("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'"))
            suite.command("resign", "--store", cluster.url(), "--election", room.election)
            room.started(2, TIMEOUT_S)
            time.sleep(2)
            after = int(cluster.sql("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'"))
            note(f"50 candidates, one resignation: {after - before} transactions in 2 s")
            room.judge()


suite.main(at_once=4)
