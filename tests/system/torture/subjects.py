"""What torture.py tortures: one class per subject. A subject runs the real program with the given environment, and then
the same program without failures on the same data. stores.py has `run` on the other stores."""
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import time

from run_lib import free_ports, text_of
from serve_lib import b64
from state import read_state

HANG_S = 60  # a run that takes longer hangs; nothing here waits longer than one TTL
TTL = "2s"
WAIT = "-w 30s"
WORK_CODE = 7
REPORT = re.compile(r"(ERROR: \w+Sanitizer|runtime error:|WARNING: ThreadSanitizer|double free|corrupted|Assertion|BW_ASSERT)")
SUBJECTS = []


def subject(kind):
    SUBJECTS.append(kind)
    return kind


class Subject:
    """The frame: processes, their output, and the rules that every subject obeys."""

    name, codes = "", ()
    share = 1.0  # of the failures in the short form: less for subjects that take long
    excused = False  # it crashed in a library that may crash
    module = None  # name of the store whose module it needs

    @staticmethod
    def program(bench):
        return bench.program("bellwether")

    @staticmethod
    def missing():
        """Why the subject cannot run here; None if it can."""

    @staticmethod
    def shared(bench):
        """Context manager of a server that all runs of the subject share."""
        return contextlib.nullcontext(bench)

    def __init__(self, bench, place, env):
        self.bench, self.place, self.env = bench, place, env
        self.calm = {k: v for k, v in env.items() if k != "LD_PRELOAD" and not k.startswith("TORTURE_")}
        self.started, self.steps = [], []

    def path(self, name):
        return os.path.join(self.place, name)

    def start(self, words, env, name):
        """Starts a process in a session of its own; its output goes to files."""
        with open(self.path(name + ".out"), "ab") as out, open(self.path(name + ".err"), "ab") as err:
            process = self.bench.watcher.start(words, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self.started.append(process)
        return process

    def run(self, words, env, name):
        """Exit code of a process; None if it hangs."""
        return self.end_of(self.start(words, env, name))

    @staticmethod
    def end_of(process):
        try:
            return process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            return None

    def ours(self, *words):
        return [self.bench.program("bellwether"), *words]

    def said(self, name):
        return text_of(self.path(name + ".err"))

    def story(self):
        parts = list(self.steps)
        for entry in sorted(os.listdir(self.place)) if os.path.isdir(self.place) else []:
            if entry.endswith((".err", ".out")) or entry == "log":
                parts += [f"{entry}:"] + text_of(self.path(entry)).splitlines()[-25:]
        return "\n".join(parts)

    def clean(self):
        self.kept = self.story()
        self.story = lambda: self.kept
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
            self.bench.watcher.remove(process.pid)

    @staticmethod
    def may_crash(state):
        """True if a library cannot do without this failed call: the process may crash in it, and the library may lose memory. All other
        rules apply."""
        del state
        return False

    def crashed(self, code, name):
        """A crash, also as a sanitizer reports it, and a leak; no other report."""
        said = self.said(name)
        if "ERROR: AddressSanitizer" in said:
            return "ERROR: AddressSanitizer: SEGV" in said
        return code < 0 or "ERROR: LeakSanitizer" in said

    def judge_end(self, code, name, success):
        """Rules for the end of a tortured process: None or the problem."""
        if code is None:
            return "hangs"
        if self.crashed(code, name) and self.may_crash(read_state(self.env["TORTURE_STATE"])):
            self.excused = True
            return None
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        if REPORT.search(self.said(name)):
            return "reports an error of a sanitizer or an assertion: " + REPORT.search(self.said(name)).group(0)
        if code not in (*success, *self.codes):
            return f"exit code {code}; documented are {(*success, *self.codes)}"
        if code not in success and not (self.said(name) + text_of(self.path(name + ".out"))).strip():
            return f"exit code {code} without a message"
        if code not in success and re.search(r": *$", self.said(name), re.M):
            return f"exit code {code} with a message that lacks its cause"
        return None


class Command(Subject):
    """One command that does its work and ends."""

    success = (0,)

    def words(self):
        raise NotImplementedError

    def prepare(self):
        pass

    def problems(self):
        self.prepare()
        code = self.run(self.words(), self.env, "tortured")
        self.steps.append(f"exit code {code}")
        problem = self.judge_end(code, "tortured", self.success)
        return [problem] if problem else self.afterwards(code)

    def afterwards(self, code):
        """The same command without failures must succeed on the same data."""
        del code
        again = self.run(self.words(), self.calm, "again")
        return [] if again in self.success else [f"afterwards, without failures, it exits with {again}"]


class Run(Command):
    """`run`: acquires the lease, runs a command, releases; a successor leads with a higher token"""

    codes, success = (64, 69, 71, 75, 76, 126), (WORK_CODE,)
    # A candidate that waits may fail at its start. After that it must be elected: only one call fails, and it can try again.
    waiting_codes = (64, 71, 126)
    store, ttl = None, TTL

    def work(self):
        """The witness, after a check of its environment."""
        variables = "$BELLWETHER_TOKEN $BELLWETHER_ELECTION $BELLWETHER_ID $BELLWETHER_STORE"
        return ["sh", "-c", f"set -- {variables}; [ $# -eq 4 ] || echo incomplete environment: $* >>'{self.path('log')}'; "
                f"exec '{self.bench.program('tests/run-witness')}' '{self.place}' for=5 exit={WORK_CODE}"]

    def words(self, wait="-n"):
        return self.ours("run", "--store", self.store or "sqlite:" + self.path("e.db"), "--election", "e", "--ttl", self.ttl,
                         "--kill-after", "200ms", "--log", "json", *wait.split(), "--", *self.work())

    def run_once(self):
        assert self.run(self.words(), self.calm, "before") == WORK_CODE, self.said("before")

    def log(self):
        return [line.split() for line in text_of(self.path("log")).splitlines()]

    def tokens(self):
        return [int(line[1]) for line in self.log() if line[0] == "start"]

    def elected(self, name):
        """Tokens of the event `elected` in a candidate's log."""
        found = []
        for line in self.said(name).splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event.get("event") == "elected":
                found.append(event["token"])
        return found

    def afterwards(self, code):
        problems = []
        if code == WORK_CODE and not [line for line in self.log() if line[0] == "end"]:
            problems.append("the exit code is the command's, but the command did not end by itself")
        claimed = self.elected("tortured")
        again = self.run(self.words("-w 50s"), self.calm, "again")
        if again != WORK_CODE:
            problems.append(f"a successor without failures exits with {again}")
        if any(line[0] == "overlap" for line in self.log()):
            problems.append("two commands at once")
        tokens = self.tokens()
        if tokens != sorted(set(tokens)) or (claimed and tokens and tokens[-1] <= max(claimed)):
            problems.append(f"tokens do not grow: {tokens}, claimed {claimed}")
        if any(line[0] == "incomplete" for line in self.log()):
            problems.append("the command ran without all variables of its environment")
        return problems


@subject
class RunOnSqlite(Run):
    __doc__, name = Run.__doc__, "run-sqlite"


@subject
class StoreCheck(Command):
    """`store check` on SQLite"""

    name, codes = "store-check", (1, 64, 69, 71, 74, 75)

    def words(self):
        return self.ours("store", "check", "sqlite:" + self.path("e.db"))

    def afterwards(self, code):
        """A check that could not release its trial election holds it for a TTL."""
        until = time.monotonic() + HANG_S
        while True:
            problems = super().afterwards(code)
            if not problems or time.monotonic() > until:
                return problems
            time.sleep(0.5)


@subject
class Status(Command):
    """`status` of an election that has had a leader"""

    name, codes, success = "status", (64, 66, 69, 71, 74), (1,)

    def prepare(self):
        Run(self.bench, self.place, self.calm).run_once()

    def words(self):
        return self.ours("status", "--store", "sqlite:" + self.path("e.db"), "--election", "e")


@subject
class GuardFile(Command):
    """`guard file`: runs a command that writes a file if the token is not stale"""

    name, codes, success = "guard-file", (64, 65, 71, 74, 75), (WORK_CODE,)
    token = 5

    def words(self):
        return ["env", f"BELLWETHER_TOKEN={self.token}",
                *self.ours("guard", "file", self.path("data"), "--", "sh", "-c", f"echo written >>'{self.path('data')}'; exit {WORK_CODE}")]

    def afterwards(self, code):
        written = text_of(self.path("data")).count("written")
        problems = [] if written == (code == WORK_CODE) else [f"exit code {code}, but the command ran {written} times"]
        show = self.run(self.ours("guard", "show", self.path("data")), self.calm, "show")
        register = text_of(self.path("show.out"))
        if written and "5" not in register:
            problems.append(f"the command ran with token 5, but the register shows {register!r} (exit code {show})")
        self.token = 6
        if super().afterwards(code):
            problems.append("a newer token is refused afterwards")
        self.token = 5
        if written and self.run(self.words(), self.calm, "stale") != 77:
            problems.append("an older token is accepted afterwards")
        return problems


@subject
class Library(Command):
    """the C library: open, campaign, run a task, resign, close; each again if it failed"""

    name, codes = "library", (1,)

    @staticmethod
    def program(bench):
        return bench.program("tests/torture-library")

    def words(self):
        return [self.program(self.bench), "sqlite:" + self.path("e.db")]


class Service(Subject):
    """A subject that serves until it gets SIGTERM."""

    def wait_end(self, process):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        return self.end_of(process)


@subject
class Serve(Service):
    """`serve`, one node: start, write, lease, campaign, watch, stop; every acknowledged write is there after a restart"""

    # 134 is documented: a node that may lose acknowledged data aborts, with a message
    name, codes = "serve", (64, 65, 71, 74)
    KEYS = 6

    def __init__(self, bench, place, env):
        super().__init__(bench, place, env)
        self.port = free_ports(1)[0]
        self.acknowledged, self.trouble = {}, []

    def words(self):
        return self.ours("serve", "--data", self.path("data"), "--listen", f"127.0.0.1:{self.port}")

    def link(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_S / 3)

    def post(self, path, body):
        """(status, body) of a request; None if the connection failed. A request without response is a hang."""
        link = self.link()
        try:
            link.request("POST" if body is not None else "GET", path, json.dumps(body) if body is not None else None)
            answer = link.getresponse()
            raw = answer.read()
            return answer.status, json.loads(raw) if raw.startswith(b"{") else raw
        except TimeoutError:
            self.trouble.append(f"{path} gets no response")
            return None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            link.close()

    def healthy(self, process):
        until = time.monotonic() + HANG_S
        while process.poll() is None and time.monotonic() < until:
            answer = self.post("/health", None)
            if answer and answer[0] == 200:
                return True
            time.sleep(0.02)
        return False

    def ask(self, process, path, body, done=()):
        """Repeats a request that failed: only one call fails, so the second or third attempt succeeds. `done` are statuses
        that say that an earlier attempt without response was carried out."""
        for attempt in range(4):
            answer = self.post(path, body)
            if answer and (answer[0] == 200 or attempt > 0 and answer[0] in done):
                return answer[1]
            self.steps.append(f"{path}: {answer}")
            if process.poll() is not None:
                return None
        self.trouble.append(f"{path} fails four times: {answer}")
        return None

    def use(self, process):
        for i in range(self.KEYS):
            key, value = f"k{i}", f"v{i}" * (1 + 3000 * (i == 3))
            if self.ask(process, "/v3/kv/put", {"key": b64(key), "value": b64(value)}):
                self.acknowledged[key] = value
        self.ask(process, "/v3/kv/range", {"key": b64("k"), "range_end": b64("l")})
        self.ask(process, "/v3/kv/txn", {"compare": [{"key": b64("k0"), "target": "VERSION", "result": "GREATER", "version": 0}],
                                         "success": [{"requestRange": {"key": b64("k1")}}]})
        lease = self.ask(process, "/v3/lease/grant", {"TTL": 60})
        if lease:
            self.ask(process, "/v3/lease/keepalive", {"ID": lease["ID"]})
            led = self.ask(process, "/v3/election/campaign", {"name": b64("e"), "lease": lease["ID"], "value": b64("me")})
            self.ask(process, "/v3/election/leader", {"name": b64("e")})
            if led:
                self.ask(process, "/v3/election/resign", {"leader": led["leader"]})
            self.ask(process, "/v3/lease/revoke", {"ID": lease["ID"]}, done=(404,))
        self.ask(process, "/v3/maintenance/status", {})

    def problems(self):
        process = self.start(self.words(), self.env, "tortured")
        if self.healthy(process):
            self.use(process)
        elif process.poll() is None:
            self.trouble.append("does not become healthy")
        asked = process.poll() is None
        code = self.wait_end(process)
        self.steps.append(f"exit code {code}" + (" after SIGTERM" if asked else " by itself"))
        if self.documented_abort(code):  # requests that met the node while it ended may have failed
            return self.restart()
        problem = self.judge_end(code, "tortured", (0,) if asked else ())
        return self.trouble + ([problem] if problem else []) + self.restart()

    def documented_abort(self, code):
        """A node that cannot make data durable says so and aborts."""
        return code == -signal.SIGABRT and re.search(r"(cannot write|cannot sync|out of memory|cannot )", self.said("tortured"))

    def restart(self):
        """Without failures: every acknowledged write is there."""
        process = self.start(self.words(), self.calm, "again")
        try:
            if not self.healthy(process):
                return [f"does not start again: exit code {process.poll()}"]
            status, found = self.post("/v3/kv/range", {"key": b64("k"), "range_end": b64("l")})
            have = {kv["key"]: kv["value"] for kv in found.get("kvs", [])} if status == 200 else {}
            lost = [k for k, v in self.acknowledged.items() if have.get(b64(k)) != b64(v)]
            return [f"acknowledged writes are lost: {lost}"] if lost else []
        finally:
            self.wait_end(process)


@subject
class ServeInCluster(Serve):
    """`serve`, one of three nodes: the same requests, while two other nodes run without failures"""

    name, share = "serve-cluster", 0.5

    def __init__(self, bench, place, env):
        super().__init__(bench, place, env)
        self.clients, self.peers = free_ports(2), free_ports(3)
        self.others = [self.start(self.node_words(name, port), self.calm, "node-" + name) for name, port in zip("ab", self.clients)]

    def node_words(self, name, port):
        cluster = ",".join(f"{n}=127.0.0.1:{p}" for n, p in zip("abc", self.peers))
        return self.ours("serve", "--node", name, "--cluster", cluster, "--data", self.path("data-" + name), "--listen", f"127.0.0.1:{port}")

    def words(self):
        return self.node_words("c", self.port)


@subject
class Peer(Run):
    """`peer`, a cluster of one: found, elect, run a command, exit; again with a higher token"""

    name, share, codes = "peer", 0.2, (64, 65, 69, 71, 74, 75, 76, 126)

    def __init__(self, bench, place, env):
        super().__init__(bench, place, env)
        self.port = free_ports(1)[0]

    def words(self, wait="-w 20s"):
        address = f"127.0.0.1:{self.port}"
        return self.ours("peer", "--id", "1", "--listen", address, "--join", address, "--expect", "1", "--data", self.path("data"),
                         "--ttl", TTL, "--period", "30ms", "--detect", "100ms", "--kill-after", "200ms", "--log", "json", *wait.split(),
                         "--", *self.work())


class OnService(Command):
    """A command whose store is a node of `serve` without failures."""

    service = Serve

    def prepare(self):
        self.node = self.service(self.bench, self.place, self.calm)
        self.server = self.start(self.node.words(), self.calm, "server")
        assert self.node.healthy(self.server), "the service does not start"
        self.store = f"bellwether://127.0.0.1:{self.node.port}"


@subject
class RunOnService(OnService, Run):
    """`run` with `serve` as its store"""

    name = "run-serve"


@subject
class CheckOnService(OnService, StoreCheck):
    """`store check` of `serve`"""

    name, share = "store-check-serve", 0.5

    def words(self):
        return self.ours("store", "check", self.store)


@subject
class ClusterStatus(OnService):
    """`cluster status` of `serve`"""

    name, codes = "cluster-status", (1, 64, 69, 71, 74)

    def words(self):
        return self.ours("cluster", "status", "--endpoints", f"127.0.0.1:{self.node.port}")
