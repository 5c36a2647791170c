"""Real servers for store tests, a fault-injecting proxy in front of them, and the frame of a test program.

    store_NAME.py BELLWETHER WITNESS CONFORMANCE [NAME...]

A test program starts its servers in a Place, runs the conformance suite on their URL, and adds tests of this store only.
If a server is not installed, its tests are skipped by name, never silently."""
import asyncio
import concurrent.futures
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import stall
from run_lib import Room, Tap, free_ports, send, wait_for

SANITIZED = "ASAN_OPTIONS" in os.environ  # sanitizers multiply memory use: do not check bounds on it
SHARES = 3  # processes that share the conformance suite
TIMEOUT_S = 60.0  # timeout of waits; no result depends on it
STALL_S = 0.25  # a shorter stall does not let a command miss its --timeout of a second
# Tests that sanitizer builds run: the conformance suite, and hostile input.
SMALL = re.compile("^conformance|hostile|garbage|endless|that_lie")


class Skip(Exception):
    pass


def program(name, package, *places):
    """Path of a server's program. Skips the test, naming the package, if it is not installed."""
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *places]))
    if not found:
        raise Skip(f"{name} is not installed: install {package}")
    return found


def listens(port):
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """One server process. Killed by process group, with all its children, when the Place exits."""

    def __init__(self, place, name, words, port=None, env=None, cwd=None, ready=None, user=None):
        self.place, self.name, self.words, self.port = place, name, words, port
        self.env, self.cwd, self.user = dict(os.environ, **(env or {})), cwd or place.dir, user
        self.ready = ready or (lambda: port is None or listens(port))
        self.log = os.path.join(place.dir, name + ".log")
        self.process = None
        place.servers.append(self)

    def start(self, wait=True):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.env,
                                            cwd=self.cwd, user=self.user, start_new_session=True)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self):
        def is_ready():
            assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}:\n{self.tail()}"
            return self.ready()
        is_ready.__doc__ = f"{self.name} to be ready"
        wait_for(is_ready, TIMEOUT_S, 0.02)

    def tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-20:])

    def group(self, number):
        """Signals the whole process group of the server: some servers start helper processes."""
        if self.process and self.process.poll() is None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                pass

    def pause(self):
        self.group(signal.SIGSTOP)

    def resume(self):
        self.group(signal.SIGCONT)

    def kill(self):
        self.group(signal.SIGKILL)
        if self.process:
            self.process.wait()

    def restart(self, wait=True):
        self.kill()
        return self.start(wait)


class Place:
    """A directory, the servers in it and the proxies in front of them. All are removed on exit."""

    def __init__(self, name):
        self.name = name
        self.dir = tempfile.mkdtemp(prefix=f"bellwether-{name}-", dir=os.environ.get("TMPDIR", "/tmp"))
        os.chmod(self.dir, 0o755)  # servers may run as another user
        self.servers, self.proxies = [], []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for proxy in self.proxies:
            proxy.close()
        for server in self.servers:
            server.resume()
            server.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def folder(self, name):
        path = os.path.join(self.dir, name)
        os.makedirs(path, exist_ok=True)
        return path

    def file(self, name, text, mode=0o644):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def proxy(self, port):
        proxy = Proxy(port)
        self.proxies.append(proxy)
        return proxy


class Proxy:
    """A TCP relay to a loopback port that injects faults. Settings take effect immediately, also on open connections.

    cut()      closes every connection and refuses new ones     drop()     drops all bytes, both ways; connections stay open
    mute()     drops the server's responses only                heal()     works normally again (dropped bytes stay lost)
    delay(s)   delays every byte by s seconds, both ways        limit(n)   closes a connection after n response bytes
    replace(f) passes each chunk of a response through f"""

    def __init__(self, target):
        self.target, self.seconds, self.mode, self.bytes, self.change = target, 0.0, "pass", None, None
        self.writers, self.accepted = set(), 0
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(ready,), daemon=True)
        self.thread.start()
        ready.wait()

    def run(self, ready):
        asyncio.set_event_loop(self.loop)
        self.server = self.loop.run_until_complete(asyncio.start_server(self.accept, "127.0.0.1", 0))
        self.port = self.server.sockets[0].getsockname()[1]
        ready.set()
        self.loop.run_forever()

    def close(self):
        def end():
            self.server.close()
            self.close_all()
            self.loop.stop()
        self.loop.call_soon_threadsafe(end)
        self.thread.join(5)

    def close_all(self):
        for writer in list(self.writers):
            writer.transport.abort()

    def set_mode(self, mode):
        self.mode = mode

    def cut(self):
        self.mode = "cut"
        self.loop.call_soon_threadsafe(self.close_all)

    def drop(self):
        self.mode = "drop"

    def mute(self):
        self.mode = "mute"

    def heal(self):
        self.mode, self.seconds, self.bytes, self.change = "pass", 0.0, None, None

    def delay(self, seconds):
        self.seconds = seconds

    def limit(self, count):
        self.bytes = count

    def replace(self, function):
        self.change = function

    async def accept(self, reader, writer):
        self.accepted += 1
        if self.mode == "cut":
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        if self.mode == "cut":  # cut() came while this connection was opened, and did not see it
            writer.transport.abort()
            up_writer.transport.abort()
            return
        self.writers |= {writer, up_writer}
        await asyncio.gather(self.pump(reader, up_writer, False), self.pump(up_reader, writer, True))
        self.writers -= {writer, up_writer}

    async def pump(self, reader, writer, answers):
        passed = 0
        try:
            while True:
                data = await reader.read(65536)
                if not data:
                    break
                if self.seconds:
                    await asyncio.sleep(self.seconds)
                if self.mode == "drop" or (self.mode == "mute" and answers):
                    continue
                if answers and self.change:
                    data = self.change(data)
                passed += len(data)
                writer.write(data)
                await writer.drain()
                if answers and self.bytes is not None and passed > self.bytes:
                    break
        except (OSError, asyncio.CancelledError):
            pass
        writer.transport.abort()


class Suite:
    """Tests of one store. A test that raises Skip is skipped by name. With TEST_SIZE=small in the environment only tests that
    match SMALL run, unless tests are requested by name or none matches."""

    def __init__(self):
        self.tests, self.lanes, self.quiet, self.sleepers = [], {}, set(), set()
        self.bellwether, self.witness, self.conformance = sys.argv[1:4]
        self.wanted = sys.argv[4:]
        self.small = os.environ.get("TEST_SIZE") == "small"
        self.tap = Tap()

    def test(self, function):
        self.tests.append(function)
        return function

    def alone(self, function):
        """A test that measures: runs before the others, with no other test in parallel."""
        self.quiet.add(function.__name__)
        return self.test(function)

    def beside(self, function):
        """A test that waits for a minute or more and does little meanwhile: runs beside all others, from the start."""
        self.sleepers.add(function.__name__)
        return self.test(function)

    def lane(self, name):
        """For tests that damage something they share: tests of one lane run one after the other, in parallel to other lanes."""
        def add(function):
            self.lanes[function.__name__] = name
            return self.test(function)
        return add

    def wants(self, name):
        if self.wanted:
            return any(word in name for word in self.wanted)
        return not self.small or SMALL.search(name) is not None

    def run_conformance(self, label, url, env=None, only=None):
        """Runs the conformance suite on a URL and reports each test under the label. `only`: a pattern; with a leading '-', all others.
        Several processes share the suite, because most of its tests wait."""
        shares = [[f"{i}/{SHARES}"] for i in range(SHARES)] if only is None or only[0] == "-" else [[]]
        with concurrent.futures.ThreadPoolExecutor(len(shares)) as pool:
            for _ in pool.map(lambda share: self.run_share(label, url, env, share + ([only] if only else [])), shares):
                pass

    def run_share(self, label, url, env, words):
        environment = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", **(env or {}))
        done = subprocess.run([self.conformance, url, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=1200, check=False)
        text = done.stdout.decode(errors="replace")
        results = re.findall(r"^(not ok|ok) \d+ (?:- (.*)|# SKIP (.*))$", text, re.M)
        for verdict, name, skipped in results:
            if skipped:
                self.tap.comment(f"{label}: {skipped} does not apply: the store lacks the trait")
            else:
                self.tap.result(verdict == "ok", f"{label}: {name}", "" if verdict == "ok" else text[-6000:])
        for line in re.findall(r"^# (the machine stalled .*)$", text, re.M):
            self.tap.comment(f"{label}: {line}")
        if not results or (done.returncode and all(v == "ok" for v, _, s in results if not s)):
            self.tap.result(False, f"{label}: the suite ended with {done.returncode}", text[-6000:])

    def room(self, url, **more):
        return Room(self.bellwether, self.witness, store=url, **more)

    def command(self, *words, env=None, timeout=120):
        """Runs a bellwether command; returns (exit code, stdout, stderr)."""
        done = subprocess.run([self.bellwether, *words], env=dict(os.environ, **(env or {})), capture_output=True, text=True,
                              timeout=timeout, check=False)
        return done.returncode, done.stdout, done.stderr

    def answer(self, *words, env=None):
        """Like `command`, but repeats a command that timed out waiting for the server, if the machine stalled meanwhile."""
        for _ in range(stall.ATTEMPTS):
            watch = stall.Watch()
            code, out, err = self.command(*words, env=env)
            if code != 69 or not re.search("no response from .* in time", err) or not watch.excuses(STALL_S, " ".join(words[:2])):
                break
        return code, out, err

    def resign(self, room, *words):
        """Asks the leader to step down; returns the outcome."""
        code, out, err = self.command("resign", "--store", room.store, "--election", room.election, "--json", *words)
        assert code == 0, (code, out, err)
        result = json.loads(out)
        assert result["outcome"] == "resigned", result
        return result

    def preferred_candidate_gets_the_lead(self, url, ttl="2s"):
        """A candidate with --preferred that arrives second becomes the leader, although the first one stays healthy."""
        with self.room(url, ttl=ttl, kill_after="200ms") as room:
            first = room.candidate("first")
            room.started(1, TIMEOUT_S)
            second = room.candidate("second", options=["--preferred"])
            assert room.leader(2, TIMEOUT_S) is second
            first.said("step-down", TIMEOUT_S)
            assert first.events("step-down")[0]["reason"] == "transferred", first.events("step-down")
            room.judge()

    def elections_of(self, url, *words, env=None):
        """What `status` lists, by the name of the election."""
        code, out, err = self.command("status", "--store", url, "--json", "--timeout", "30s", *words, env=env)
        assert code == 0, (code, out, err)
        return {found["election"]: found for found in json.loads(out)}

    def status_lists_two_elections(self, url, room, candidates=True):
        """Two elections: one is led, the other was left. `candidates`: the store lists them too."""
        env, begun = room.env, time.monotonic()
        before = set(self.elections_of(url, env=env))
        room.election = "left"
        assert room.candidate("first", command=["true"]).wait() == 0
        room.election = "led"
        room.candidate("second")
        room.started(1)
        history = ["--history-dir", os.path.join(room.dir, "history")]
        wait_for(lambda: self.elections_of(url, *history, env=env)["led"]["age_ms"] is not None)  # the history is written in the background
        found = self.elections_of(url, *history, env=env)
        assert set(found) - before == {"left", "led"}, found
        led, left = found["led"], found["left"]
        assert led["leader"] == "second" and led["token"] > 0 and not left["held"], found
        assert 0 <= led["age_ms"] <= 1000 * (time.monotonic() - begun) and not led["age_is_minimum"] and left["age_ms"] is None, found
        assert [c["id"] for c in led.get("candidates", [])] == (["second"] if candidates else []), led
        code, out, _ = self.command("status", "--store", url, *history, env=env)
        rows = {line.split()[0]: line.split() for line in out.splitlines()}
        assert code == 0 and rows["led"][1] == "second" and rows["left"][1] == "none", out
        assert rows["led"][4] == ("1" if candidates else "-") and rows["left"][5] == "-" and re.match(r"\d", rows["led"][5]), out

    def run(self, function):
        name, before, begun = function.__name__, self.tap.count, time.monotonic()
        try:
            function()
            if self.tap.count == before or name[:11] != "conformance":
                self.tap.result(True, name)
            self.tap.comment(f"{name}: {time.monotonic() - begun:.1f} s")
        except Skip as why:
            self.tap.skip(name, str(why))
        except Exception:  # noqa: BLE001 any exception fails the test
            self.tap.result(False, name, traceback.format_exc())

    def main(self, at_once=1):
        """Runs conformance and measuring tests first, one at a time; then the others, `at_once` in parallel, as they mostly wait."""
        self.small = self.small and any(SMALL.search(f.__name__) for f in self.tests)
        chosen = [f for f in self.tests if self.wants(f.__name__)]
        sleepers = [threading.Thread(target=self.run, args=(f,)) for f in chosen if f.__name__ in self.sleepers]
        for sleeper in sleepers:
            sleeper.start()
        chosen = [f for f in chosen if f.__name__ not in self.sleepers]
        alone = [f for f in chosen if f.__name__ in self.quiet or
                 (f.__name__[:11] == "conformance" and f.__name__ not in self.lanes)]
        queues = {}
        for function in chosen:
            if function not in alone:
                queues.setdefault(self.lanes.get(function.__name__, function.__name__ if at_once > 1 else ""), []).append(function)
        for function in alone:
            self.run(function)
        with concurrent.futures.ThreadPoolExecutor(max(at_once, len(set(self.lanes.values())) + 1)) as pool:
            list(pool.map(lambda queue: [self.run(f) for f in queue], queues.values()))
        for sleeper in sleepers:
            sleeper.join()
        sys.exit(self.tap.end())
