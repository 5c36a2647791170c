"""Real servers for the tests of stores, a proxy that misbehaves in front of them, and the frame of such a test.

    store_NAME.py BELLWETHER WITNESS CONFORMANCE [NAME...]

A test program makes its servers in a Place, hands their URL to the conformance suite, and adds what only this store must
show. A server that is not on the machine skips its tests by name, never silently."""
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

from run_lib import Room, Tap, free_ports, send, wait_for

SANITIZED = "ASAN_OPTIONS" in os.environ  # memory then costs several times as much: bounds on it mean nothing
SHARES = 3  # processes that share the conformance suite
PATIENCE_S = 60.0  # until a server must answer; nothing is judged by it
# What builds with sanitizers run of a store: its code from end to end, and what strangers send it.
SMALL = re.compile("^conformance|hostile|garbage|endless|that_lie")


class Skip(Exception):
    pass


def program(name, package, *places):
    """The path of a server's program; skips the test, naming the package, where there is none."""
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *places]))
    if not found:
        raise Skip(f"{name} is not here: install {package}")
    return found


def listens(port):
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """One process of a server. Killed by pid, with all it started, when the place is left."""

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
        wait_for(is_ready, PATIENCE_S, 0.02)

    def tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-20:])

    def group(self, number):
        """The whole session of the server: Java and others start helpers."""
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
    """A directory, the servers in it and the proxies before them; all gone when it is left."""

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
    """A TCP relay to a port of loopback with a will of its own. Settings take effect at once, on open connections too.

    cut()      closes every connection and refuses new ones     drop()     swallows all bytes, both ways; connections stay open
    mute()     swallows the server's answers only               heal()     behaves again (what was swallowed stays lost)
    delay(s)   holds every byte for s seconds, both ways        limit(n)   closes a connection after n bytes of answers
    replace(f) passes each chunk of an answer through f"""

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
    """Tests of one store, run one after the other; a test that raises Skip is skipped by name. With TEST_SIZE=small in the
    environment only those that SMALL names, unless they are asked for by name or there are none."""

    def __init__(self):
        self.tests, self.lanes, self.quiet = [], {}, set()
        self.bellwether, self.witness, self.conformance = sys.argv[1:4]
        self.wanted = sys.argv[4:]
        self.small = os.environ.get("TEST_SIZE") == "small"
        self.tap = Tap()

    def test(self, function):
        self.tests.append(function)
        return function

    def alone(self, function):
        """A test that measures: before the others, beside nobody."""
        self.quiet.add(function.__name__)
        return self.test(function)

    def lane(self, name):
        """For tests that share what they hurt: those of a lane one after the other, beside the other lanes."""
        def add(function):
            self.lanes[function.__name__] = name
            return self.test(function)
        return add

    def wants(self, name):
        if self.wanted:
            return any(word in name for word in self.wanted)
        return not self.small or SMALL.search(name) is not None

    def run_conformance(self, label, url, env=None, only=None):
        """The whole suite on a URL (or those that a pattern names; with a '-', all others), each of its tests under the label's name.
        Several processes share it: most of its tests wait."""
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
                self.tap.skip(f"{label}: {skipped}", "not a trait of this store")
            else:
                self.tap.result(verdict == "ok", f"{label}: {name}", "" if verdict == "ok" else text[-6000:])
        if not results or (done.returncode and all(v == "ok" for v, _, s in results if not s)):
            self.tap.result(False, f"{label}: the suite ended with {done.returncode}", text[-6000:])

    def room(self, url, **more):
        return Room(self.bellwether, self.witness, store=url, **more)

    def command(self, *words, env=None, timeout=120):
        """A bellwether command; (status, output, errors)."""
        done = subprocess.run([self.bellwether, *words], env=dict(os.environ, **(env or {})), capture_output=True, text=True,
                              timeout=timeout, check=False)
        return done.returncode, done.stdout, done.stderr

    def answer(self, *words, env=None):
        """As `command`, of a server that answers: one that has not in the time given is asked again, for that says nothing but how slow
        the machine is."""
        until = time.monotonic() + PATIENCE_S
        while True:
            code, out, err = self.command(*words, env=env)
            if code != 69 or not re.search("no answer from .* in time", err) or time.monotonic() > until:
                return code, out, err

    def resign(self, room, *words):
        """Asks the leader to step down; what came of it."""
        code, out, err = self.command("resign", "--store", room.store, "--election", room.election, "--json", *words)
        assert code == 0, (code, out, err)
        told = json.loads(out)
        assert told["outcome"] == "resigned", told
        return told

    def preferred_candidate_gets_the_lead(self, url, ttl="2s"):
        """A candidate with --preferred that comes second leads in the end, though the first one stays alive and well."""
        with self.room(url, ttl=ttl, kill_after="200ms") as room:
            first = room.candidate("first")
            room.started(1, PATIENCE_S)
            second = room.candidate("second", options=["--preferred"])
            assert room.leader(2, PATIENCE_S) is second
            first.said("step-down", PATIENCE_S)
            assert first.events("step-down")[0]["reason"] == "transferred", first.events("step-down")
            room.judge()

    def run(self, function):
        name, before, begun = function.__name__, self.tap.count, time.monotonic()
        try:
            function()
            if self.tap.count == before or name[:11] != "conformance":
                self.tap.result(True, name)
            self.tap.comment(f"{name}: {time.monotonic() - begun:.1f} s")
        except Skip as why:
            self.tap.skip(name, str(why))
        except Exception:  # noqa: BLE001 a test that breaks is a test that failed
            self.tap.result(False, name, traceback.format_exc())

    def main(self, at_once=1):
        """First, alone, conformance and what measures; then the others, which mostly wait, so many at once."""
        self.small = self.small and any(SMALL.search(f.__name__) for f in self.tests)
        chosen = [f for f in self.tests if self.wants(f.__name__)]
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
        sys.exit(self.tap.end())
