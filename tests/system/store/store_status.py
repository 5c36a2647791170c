#!/usr/bin/env python3
"""`bellwether status` without --election, and with the majority of the nodes away.

    store_status.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from postgres_lib import Postgres  # noqa: E402
from run_lib import text_of, wait_for  # noqa: E402
from serve_lib import Cluster  # noqa: E402
from store_lib import TIMEOUT_S, Place, Skip, Suite, free_ports  # noqa: E402

suite = Suite()


def command(*words):
    done = subprocess.run([os.path.abspath(suite.bellwether), *words], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    return done.returncode, done.stdout, done.stderr


@suite.test
def status_lists_all_elections_of_sqlite():
    with Place("status") as place:
        url = "sqlite:" + os.path.join(place.dir, "e.db")
        assert command("status", "--store", url)[0] == 66, "a store that does not exist"
        assert command("store", "init", "--store", url)[0] == 0
        assert command("status", "--store", url)[:2] == (0, f"no elections in {url}\n")
        with suite.room(url, ttl="10s", kill_after="200ms", retry="100ms") as room:
            suite.status_lists_two_elections(url, room)


@suite.test
def status_lists_all_elections_of_postgres():
    with Place("status") as place:
        url = Postgres(place).create().start().url()
        assert command("store", "init", "--store", url)[0] == 0
        with suite.room(url, ttl="10s", kill_after="200ms", retry="100ms") as room:
            suite.status_lists_two_elections(url, room)


@suite.test
def status_of_serve_lists_elections_and_reports_a_lost_quorum():
    with Place("status") as place:
        cluster = Cluster(place, suite.bellwether)
        hosts = ",".join(map(cluster.at, "abc"))
        url = f"bellwether://{hosts}/jobs"
        cluster.ctl("put", "jobs/foreign/62", "a client of another program", endpoints=cluster.at("a"))
        cluster.ctl("put", "other/hidden/62", "below another prefix", endpoints=cluster.at("a"))
        for name in ("a\x01b", "a\tb", "a\x7fb"):  # no election can have such a name
            cluster.ctl("put", f"jobs/{name}/62", "a client of another program", endpoints=cluster.at("a"))
        with suite.room(url, ttl="10s", kill_after="200ms", retry="100ms") as room:
            suite.status_lists_two_elections(url, room)
        assert "foreign" in suite.elections_of(url) and "hidden" not in suite.elections_of(url)
        for name, count in (("a", None), ("b", "1 of 3 nodes answers"), ("c", "0 of 3 nodes answer")):
            cluster.nodes[name].kill()
            for words in (["status"], ["status", "--election", "led"], ["observe", "--election", "led"]) if count else ():
                # the timeout is longer than the test's own, so an answer means that the command did not wait for it
                code, out, errors = command(*words, "--store", url, "--timeout", "1h")
                assert code == 69 and "no quorum: " + count in errors, (words, code, out, errors)


class Reader:
    """A room on SQLite, and commands of a user who may read the database and not write it."""

    def __init__(self, ttl):
        if os.geteuid() != 0:
            raise Skip("needs root to become another user")
        self.ttl, self.stack, self.watchers = ttl, contextlib.ExitStack(), []

    def __enter__(self):
        place = self.stack.enter_context(Place("status"))
        path = os.path.join(place.dir, "e.db")
        self.store, self.program = "sqlite:" + path, os.path.join(place.dir, "bellwether")
        shutil.copy2(suite.bellwether, self.program)  # the other user may not be able to reach the build directory
        modules = os.path.dirname(os.path.abspath(suite.bellwether)) + "/src/store"
        self.user = {"user": "nobody", "group": "nogroup", "extra_groups": [], "cwd": "/", "env": {"BELLWETHER_MODULES": modules}}
        self.stack.callback(os.umask, os.umask(0o022))  # readable for all, writable for the owner
        self.room = self.stack.enter_context(suite.room(self.store, ttl=self.ttl, kill_after="200ms", retry="100ms"))
        os.chmod(self.room.dir, 0o755)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        return self

    def __exit__(self, *exception):
        for watcher in self.watchers:
            watcher.kill()
            watcher.communicate()
        return self.stack.__exit__(*exception)

    def read(self, *words):
        return subprocess.run([self.program, *words, "--store", self.store], capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
                              **self.user)

    def observe(self, *words, leader=True):
        """Starts `observe` and waits until it has found the leader, or that there is none."""
        watcher = subprocess.Popen([self.program, "observe", "--json", "--election", self.room.election, "--store", self.store, *words],
                                   stdout=subprocess.PIPE, text=True, **self.user)
        self.watchers.append(watcher)
        found = json.loads(watcher.stdout.readline())
        assert found["event"] == "found" and bool(found["leader"]) == leader, found
        return watcher


@suite.test
def status_and_observe_need_no_write_permission_on_sqlite():
    with Reader(ttl="10s") as reader:
        room = reader.room
        room.candidate("one")
        room.started(1)
        done = reader.read("status")
        assert done.returncode == 0 and "one" in done.stdout, done
        done = reader.read("status", "--election", room.election)
        assert done.returncode == 0 and "candidates  1: one*" in done.stdout, done
        done = reader.read("resign", "--election", room.election)
        assert done.returncode in (64, 69) and "cannot write" in done.stderr, done
        watcher = reader.observe("--once")
        assert command("resign", "--store", reader.store, "--election", room.election)[0] == 0
        assert watcher.wait(TIMEOUT_S) == 0 and json.loads(watcher.stdout.readline())["event"] in ("note", "lost")


@suite.test
def reader_without_write_permission_needs_no_candidate_that_has_the_database_open():
    """The last process that closes the database removes the side files, and a reader cannot create them."""
    with Reader(ttl="10s") as reader:
        room, path = reader.room, reader.store.partition(":")[2]
        assert room.candidate("one", command=["true"]).wait() == 0
        assert not os.path.exists(path + "-wal"), "a process has the database open"
        done = reader.read("status", "--election", room.election, "--json")
        assert done.returncode == 1 and json.loads(done.stdout)["token"] == 1, done
        assert room.election in reader.read("status").stdout
        watcher = reader.observe(leader=False)

        def event(kind, leader):
            found = json.loads(watcher.stdout.readline())
            assert (found["event"], found["leader"]) == (kind, leader), found
            return found["token"]
        for token, name in enumerate(("two", "three"), 2):  # the database is opened and closed under the observer, twice
            candidate = room.candidate(name)
            assert event("elected", name) == token
            candidate.signal(signal.SIGTERM)
            assert event("lost", name) == token
            candidate.wait()
        done = reader.read("status", "--election", room.election, "--json")
        assert done.returncode == 1 and json.loads(done.stdout)["token"] == 3, done
        room.candidate("four")
        assert event("elected", "four") == 4
        assert json.loads(reader.read("status", "--election", room.election, "--json").stdout)["leader"] == "four"


@suite.test
def reader_without_write_permission_refuses_a_database_whose_log_it_cannot_read():
    with Reader(ttl="10s") as reader:
        path = reader.store.partition(":")[2]
        leader = reader.room.candidate("one")
        reader.room.started(1)
        leader.signal(signal.SIGKILL)  # leaves the log, with the leadership that is not in the database
        leader.wait()
        for side in ("-wal", "-shm"):
            assert os.path.exists(path + side), side
        done = reader.read("status", "--election", reader.room.election, "--json")
        assert json.loads(done.stdout)["token"] == 1, done
        os.remove(path + "-shm")
        done = reader.read("status", "--election", reader.room.election, "--timeout", "1s")
        assert done.returncode == 64 and "its write-ahead log cannot be read; start a candidate" in done.stderr, done


@suite.test
def observe_without_write_permission_reports_a_release_by_the_guardian():
    """The only candidate is killed. Its guardian marks the release in the lock file, and nobody saves it in the database."""
    with Reader(ttl="60s") as reader:  # long: a stalled machine must not report the leader as silent
        room = reader.room
        leader = room.candidate("one")
        room.started(1)
        watcher = reader.observe()
        leader.signal(signal.SIGKILL)
        lost = json.loads(watcher.stdout.readline())
        assert (lost["event"], lost["reason"], lost["leader"]) == ("lost", "released", "one"), lost
        done = reader.read("status", "--json", "--election", room.election)
        assert done.returncode == 1 and json.loads(done.stdout)["version"] > 0, done
        room.candidate("two")
        elected = json.loads(watcher.stdout.readline())
        assert (elected["event"], elected["leader"]) == ("elected", "two"), elected


@suite.test
def status_says_which_stores_cannot_list_elections():
    with Place("status") as place:
        url = f"peer:///e?id=1&listen=127.0.0.1:{free_ports()[0]}&expect=1&data={place.dir}"
        code, out, errors = command("status", "--store", url)
        assert code == 64 and "store peer keeps no list of them; give --election NAME" in errors, (code, out, errors)


@suite.test
def age_is_that_of_the_present_leadership_as_this_host_saw_it():
    with Place("status") as place, suite.room("sqlite:" + os.path.join(place.dir, "e.db"), ttl="10s") as room:
        def status(directory):
            code, out, errors = command("status", "--store", room.store, "--election", room.election, "--json", "--history-dir", directory)
            assert code == 0, (code, out, errors)
            return json.loads(out)

        room.candidate("one")
        room.started(1)
        late = os.path.join(place.dir, "late")  # the history of a candidate that found the leader
        room.candidate("two", env={"BELLWETHER_HISTORY_DIR": late})
        wait_for(lambda: status(late)["age_ms"] is not None)
        assert status(late)["age_is_minimum"] and not status(os.path.join(room.dir, "history"))["age_is_minimum"]
        out = command("status", "--store", room.store, "--election", room.election, "--history-dir", late)[1]
        assert re.search(r"^age         at least \d", out, re.M), out
        out = command("status", "--store", room.store, "--history-dir", late)[1]
        assert re.search(r"  >\d\S*$", out, re.M), out
        # the same leader and token in another store; and a leadership that is over
        other = place.folder("other")
        line = {"time": "2020-01-01T00:00:00Z", "event": "elected", "election": room.election, "leader": "one", "seen_by": "x"}
        with open(os.path.join(other, "leaderships.jsonl"), "w", encoding="utf-8") as file:
            file.write(json.dumps({**line, "token": 1, "request": "5f1c"}) + "\n" + json.dumps({**line, "token": 7, "request": ""}) + "\n")
        assert status(other)["age_ms"] is None, status(other)
        out = command("status", "--store", room.store, "--election", room.election, "--history-dir", other)[1]
        assert "age" not in out, out


@suite.test
def observe_reports_changes_after_its_node_refused_a_read():
    """A node refuses the reads that it has sent to a leader which is then replaced. The connection of the observer stays."""
    with Place("observe") as place:
        cluster = Cluster(place, suite.bellwether, options=["--detect", "1s"])
        url, seen = "bellwether://" + ",".join(map(cluster.at, "abc")), os.path.join(place.dir, "seen")
        node = "a" if cluster.leads() != "a" else "b"
        proxy = place.proxy(cluster.client[node])

        def refused():
            text = cluster.ask("GET", "/metrics", port=cluster.client[node])[1]
            return sum(map(int, re.findall(rb'^grpc_server_handled_total\{grpc_code="Unavailable".*"Txn"[^}]*\} (\d+)$', text, re.M)))

        def sees(kind):
            wait_for(lambda: f'"event":"{kind}"' in text_of(seen), TIMEOUT_S, 0.02)

        def interrupt_a_read():
            before, leader = refused(), cluster.nodes[cluster.leads()]
            leader.pause()
            proxy.cut()
            proxy.heal()
            wait_for(lambda: refused() > before or "unreachable" in text_of(seen), TIMEOUT_S, 0.02)  # the latter on a slow machine
            leader.resume()
        with suite.room(url, ttl="1h", kill_after="200ms") as room, open(seen, "w", encoding="utf-8") as output:
            room.candidate("one")
            room.started(1)
            watcher = subprocess.Popen([os.path.abspath(suite.bellwether), "observe", "--json", "--election", room.election, "--store",
                                        f"bellwether://127.0.0.1:{proxy.port}"], stdout=output)
            try:
                sees("found")
                interrupt_a_read()
                wait_for(lambda: command("resign", "--store", url, "--election", room.election)[0] == 0, TIMEOUT_S, 0.1)
                sees("lost")
            finally:
                watcher.kill()
                watcher.wait()


suite.main(4)
