"""Candidates of `bellwether run` as real processes, and the log of their witness.

A Room is a directory with a database, a witness log and its lock; a Candidate is a supervisor with its guardian.
Where possible, checks rely on the witness (run_witness.c) or the kernel, not on the output of Bellwether."""
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import traceback

import stall

# The tested programs start with no ignored signals, however this program was started (nohup, a background job).
for _number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

ELECTION = "e"
HANG_S = 60.0  # only detects a hang; the witness measures what must be fast
STORY_LINES = 60  # lines per log that are shown when a test fails


def wait_for(what, seconds=HANG_S, pause=0.002):
    """Waits for the first true value of what() and returns it; raises an AssertionError that names it otherwise."""
    until = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError("waited in vain for " + (what.__doc__ or getattr(what, "__name__", "it")))
        time.sleep(pause)


def text_of(path):
    """The current content of a file; empty if it does not exist yet."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def stat_of(pid):
    """State letter, parent and start tick of a process; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            rest = file.read().rsplit(")", 1)[1].split()
        return rest[0], int(rest[1]), int(rest[19])
    except (OSError, IndexError):
        return None


def lives(pid):
    stat = stat_of(pid)
    return stat is not None and stat[0] not in "ZX"


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def private_dirty_kb(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))


def cpu_seconds(pid):
    """CPU time of a process, from the scheduler's nanoseconds, not from ticks."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as file:
            total += int(file.read().split()[0])
    return total / 1e9


BROKEN = []  # exceptions that ended a thread of the test: without this, the test would not notice


def keep_exception(broken):
    if broken.exc_type is not SystemExit:
        BROKEN.append("".join(traceback.format_exception(broken.exc_type, broken.exc_value, broken.exc_traceback)))


threading.excepthook = keep_exception
HELD = []  # sockets that reserve the ports of this program; released when it ends


def is_free(port, host):
    """True if the port is free for TCP and UDP and not reserved by another test program."""
    name, family = socket.socket(socket.AF_UNIX), socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as tcp, socket.socket(family, socket.SOCK_DGRAM) as udp:
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # an inherited descriptor must not block the port
        try:
            name.bind(f"\0bellwether-test-port-{port}")
            tcp.bind((host, port))
            udp.bind((host, port))
        except OSError:
            name.close()
            return False
    HELD.append(name)
    return True


def free_ports(count=1, host="127.0.0.1"):
    """Reserves ports below the range that the kernel gives to connections: a port stays reserved while its server is down."""
    ports = []
    for port in random.SystemRandom().sample(range(15000, 32000), 2000):
        if is_free(port, host):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise AssertionError(f"no free port on {host}")


def install(source, path, text=None):
    """Writes a program to be executed. Another process writes it: if this one had the file open for writing, a child that another
    thread forks at that moment would inherit the descriptor, and until the child execs, the file could not be executed
    ("Text file busy")."""
    subprocess.run(["install", "-m", "755", source, path], input=text, check=True, encoding="utf-8", timeout=60)
    return path


def install_script(path, text):
    return install("/dev/stdin", path, "#!/bin/sh\n" + text)


def why_not_contained(kind):
    """Why this machine does not permit this containment; empty if it does. Bellwether itself has no say in it."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "containment.sh")
    done = subprocess.run([script, kind], capture_output=True, text=True, check=False, timeout=HANG_S)
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip() or f"{script} {kind} failed"


class Room:
    """The environment of one test. The programs come from the test's command line."""

    def __init__(self, bellwether, witness, containment="auto", ttl="1500ms", kill_after="200ms", retry=None,
                 store=None, env=None):
        base = os.environ.get("TMPDIR", "/tmp")
        self.dir = tempfile.mkdtemp(prefix="bellwether-run-", dir=base)
        self.db = os.path.join(self.dir, "elections.db")
        self.given_store, self.env = store, env or {}
        self.bellwether, self.witness, self.containment = bellwether, witness, containment
        self.options = [*(["--ttl", ttl] if ttl else []), "--kill-after", kill_after, "--containment", containment, "--log", "json"]
        if retry:
            self.options += ["--retry", retry]
        self.candidates = []
        self.epochs = []  # numbers of starts when the store lost its state, so that tokens begin again
        self.election = ELECTION

    @property
    def store(self):
        """The store URL: the given one, or the database, which a test may move."""
        return self.given_store or "sqlite:" + self.db

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None and hasattr(error, "add_note"):
            error.add_note(self.story())
        for candidate in self.candidates:
            candidate.destroy()
        self.kill_the_rest()
        shutil.rmtree(self.dir, ignore_errors=True)

    def kill_the_rest(self):
        """Kills processes whose command lines contain the directory of this test: if a test killed both supervisor and guardian,
        nothing else ends their work."""
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    if self.dir.encode() in file.read() and int(entry) != os.getpid():
                        send(int(entry), signal.SIGKILL)
            except OSError:
                pass

    def story(self):
        """The logs of the witness and the candidates, to explain a failure."""
        parts = ["witness:"] + [" ".join(line) for line in self.lines()[-STORY_LINES:]]
        for candidate in self.candidates:
            parts += [candidate.name + ":"] + candidate.text().splitlines()[-STORY_LINES:]
        return "\n".join(parts)

    def words(self, name):
        """The command line of a candidate."""
        return [self.bellwether, "run", "--store", self.store, "--election", self.election, "--id", name]

    def candidate(self, name, *modes, options=(), command=None, env=None, shim=None):
        c = Candidate(self, name, list(modes), list(options), command, env, shim)
        self.candidates.append(c)
        return c

    def lines(self):
        """The witness log as lists of words."""
        return [line.split() for line in text_of(os.path.join(self.dir, "log")).splitlines()]

    def starts(self):
        return [line for line in self.lines() if line[0] == "start"]

    def started(self, count=1, seconds=HANG_S):
        """Waits until `count` commands have started. Returns the line of the last one."""
        def enough():
            return len(self.starts()) >= count
        enough.__doc__ = f"start number {count}; the witness saw {self.starts()}"
        wait_for(enough, seconds)
        return self.starts()[count - 1]

    def leader(self, count=1, seconds=HANG_S):
        """The candidate that runs command number `count`, the last one so far. Its own log may lag behind the witness log."""
        self.started(count, seconds)

        def reported():
            """the candidates to log what they started"""
            return sum(len(c.events("started")) for c in self.candidates) >= count
        wait_for(reported, seconds)
        return max((c for c in self.candidates if c.events("started")), key=lambda c: c.events("started")[-1]["time"])

    def leading(self):
        """Waits until one of the candidates leads, and returns it."""
        def led():
            """a candidate that leads"""
            return next((c for c in self.candidates if c.leads_now()), None)
        return wait_for(led)

    def judge(self):
        """Checks what must always hold: never two commands at once, and tokens only grow."""
        stall.judge_overlaps(self.lines())
        tokens = [int(line[1]) for line in self.starts()]
        for begin, end in zip([0, *self.epochs], [*self.epochs, len(tokens)]):
            stall.judge_tokens(tokens[begin:end])


class Candidate:
    def __init__(self, room, name, modes, options, command, env, shim):
        self.room, self.name = room, name
        self.errors = os.path.join(room.dir, name + ".err")
        words = room.words(name) + room.options + options + ["--"]
        words += command if command is not None else [room.witness, room.dir] + modes
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BELLWETHER_")}
        environment["BELLWETHER_HISTORY_DIR"] = os.path.join(room.dir, "history")
        environment.update({**room.env, **(env or {})})
        environment = {k: v for k, v in environment.items() if v is not None}  # None: without this variable
        if shim:
            environment["LD_PRELOAD"] = shim
        self.err = open(self.errors, "ab")
        self.process = subprocess.Popen(words, stderr=self.err, stdin=subprocess.DEVNULL, env=environment,
                                        start_new_session=True)
        self.pid = self.process.pid

    def events(self, kind=None):
        """Events of its own log, for reasons; proofs come from the witness."""
        found = []
        with open(self.errors, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if kind is None or event.get("event") == kind:
                    found.append(event)
        return found

    def text(self):
        """All it wrote to standard error."""
        with open(self.errors, encoding="utf-8", errors="replace") as file:
            return file.read()

    def said(self, kind, seconds=HANG_S, count=1):
        def enough():
            return len(self.events(kind)) >= count
        enough.__doc__ = f"'{kind}' of {self.name}; it said {[e['event'] for e in self.events()]}"
        wait_for(enough, seconds)
        return self.events(kind)[count - 1]

    def guardian(self):
        """Its guardian's pid, or None."""
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            stat = stat_of(int(entry))
            if stat and stat[1] == self.pid:
                try:
                    with open(f"/proc/{entry}/comm", encoding="utf-8") as file:
                        if file.read().strip() == "bw-guardian":
                            return int(entry)
                except OSError:
                    pass
        return None

    def signal(self, number):
        send(self.pid, number)

    def wait(self, seconds=HANG_S):
        return self.process.wait(seconds)

    def leads_now(self):
        """True if the last command it started is the last one the witness saw, as far as its log shows at this moment."""
        started = self.events("started")
        starts = self.room.starts()
        return bool(started and starts) and str(started[-1]["token"]) == starts[-1][1]

    def leads(self):
        """Like leads_now, but waits: the witness may be faster than the log. If any of several may lead, use Room.leading."""
        until = time.monotonic() + HANG_S
        while not self.leads_now():
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    def destroy(self):
        guardian = self.guardian()
        for pid in (self.pid, guardian):
            if pid:
                send(pid, signal.SIGCONT)
        send(self.pid, signal.SIGTERM)
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            if guardian:
                until = time.monotonic() + 2
                while lives(guardian) and time.monotonic() < until:
                    time.sleep(0.01)
        self.err.close()


def lose(knob, kind):
    """The next message of this kind to or from a guardian is lost, or stops it: see run_shim.c."""
    with open(knob + ".new", "w", encoding="utf-8") as file:
        file.write(kind)
    os.rename(knob + ".new", knob)


class Tap:
    """Results in the Test Anything Protocol."""

    def __init__(self):
        self.count = self.failed = 0
        self.lock = threading.Lock()  # tests may run at the same time

    def result(self, good, name, details=""):
        with self.lock:
            self.count += 1
            self.failed += not good
            print(f"{'ok' if good else 'not ok'} {self.count} - {name}", flush=True)
            for line in details.splitlines():
                print("# " + line, flush=True)

    def comment(self, text):
        with self.lock:
            print("# " + text, flush=True)

    def skip(self, name, why):
        with self.lock:
            self.count += 1
            print(f"ok {self.count} - {name} # SKIP {why}", flush=True)

    def end(self):
        """Prints the plan and returns the exit code. A thread that an exception ended fails the test program."""
        if BROKEN:
            self.result(False, "every thread of the test ends without an exception", "\n".join(BROKEN))
        print(f"1..{self.count}")
        return 1 if self.failed else 0
