#!/usr/bin/env python3
"""The Python package on the real library, with a real SQLite store and real processes.

    lib_python.py LIBRARY SOURCE

Verdicts depend on states, tokens and messages; times only end a test that hangs."""
import asyncio
import contextlib
import inspect
import logging
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import traceback

sys.dont_write_bytecode = True
LIBRARY, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
PYTHON = os.path.join(SOURCE, "python")
os.environ.update(BELLWETHER_LIBRARY=LIBRARY, PYTHONPATH=PYTHON)
sys.path[:0] = [PYTHON, os.path.join(SOURCE, "tests", "system", "kit")]
import bellwether  # noqa: E402
from run_lib import HANG_S, Tap, wait_for  # noqa: E402

TTL = 30  # long: a stalled machine loses no leadership by it
tap, TESTS = Tap(), []

# A candidate in its own process: prints its token when elected, then waits for a line.
OTHER = """
import sys, bellwether
with bellwether.Leader(sys.argv[1], "e", ttl=30, id=sys.argv[2], value="here:80") as lead:
    print("token", lead.token, flush=True)
    sys.stdin.readline()
"""


def test(function):
    TESTS.append(function)
    return function


class Skip(Exception):
    """This machine cannot run the test; the text says why."""


class Place:
    """A directory with a store, and the processes that a test started."""

    def __init__(self):
        self.dir, self.started = tempfile.mkdtemp(prefix="lib-python-"), []
        self.store = "sqlite:" + os.path.join(self.dir, "e.db")

    def path(self, name):
        return os.path.join(self.dir, name)

    def leader(self, **more):
        return bellwether.Leader(self.store, "e", **{"ttl": TTL, "timeout": HANG_S, **more})

    def start(self, *words, **more):
        process = subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
        self.started.append(process)
        return process

    def other(self, name):
        return self.start("-c", OTHER, self.store, name)

    def lists(self, name):
        """True if the store lists this candidate, so that it can be the target of a transfer."""
        with contextlib.closing(sqlite3.connect(self.path("e.db"), timeout=HANG_S)) as store:
            return store.execute("SELECT 1 FROM candidate WHERE id = ?", (name,)).fetchone()

    def close(self):
        for process in self.started:
            process.kill()
            process.communicate()
        shutil.rmtree(self.dir)


def raises(kind, action):
    try:
        action()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def in_child(action):
    """Runs action() in a forked child; returns its text."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, str(action()).encode())
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return text


@test
def block_leads_and_releases(place):
    tokens = []
    for _ in range(2):
        with place.leader() as lead:
            lead.check()
            assert lead.is_leader and not lead.lost.is_set() and 0 < lead.valid <= TTL and lead.reason is bellwether.Loss.NONE
            tokens.append(lead.token)
        assert not lead.is_leader and lead.lost.is_set() and lead.valid == 0
        raises(bellwether.LeadershipLost, lead.check)
    assert tokens == [1, 2], tokens
    assert bellwether.library_version() == "0.2.0"


@test
def error_inside_the_block_releases_and_is_raised(place):
    def fail():
        with place.leader():
            raise KeyError("ours")
    raises(KeyError, fail)
    with place.leader() as lead:
        assert lead.token == 2


@test
def second_process_takes_over_when_the_leader_is_killed(place):
    first = place.other("first")
    assert first.stdout.readline() == "token 1\n"
    why = raises(bellwether.NotElected, place.leader(timeout=0).__enter__)
    assert "led by first" in str(why), why
    second = place.other("second")
    first.kill()
    assert second.stdout.readline() == "token 2\n"
    second.stdin.write("\n")
    second.stdin.flush()
    assert second.wait(HANG_S) == 0


@test
def loss_is_an_exception_and_an_event(place):
    def lose():
        with place.leader() as lead:
            lead.healthy(False)
            assert lead.lost.wait(HANG_S) and not lead.is_leader
            assert raises(bellwether.LeadershipLost, lead.check).reason is bellwether.Loss.UNHEALTHY
    assert raises(bellwether.LeadershipLost, lose).reason is bellwether.Loss.UNHEALTHY
    with place.leader() as lead:
        assert lead.token == 2


@test
def leadership_is_transferred_to_another_process(place):
    def hand_over():
        with place.leader() as lead:
            place.other("successor")
            wait_for(lambda: place.lists("successor"), HANG_S)
            lead.transfer("successor")
            assert lead.lost.wait(HANG_S) and lead.reason is bellwether.Loss.TRANSFERRED, lead.reason
    raises(bellwether.LeadershipLost, hand_over)
    assert place.started[-1].stdout.readline() == "token 2\n"


@test
def forked_child_does_not_lead(place):
    with place.leader() as lead:
        def look():
            return lead.is_leader, lead.valid, lead.lost.is_set(), lead.lost.wait(0)
        assert in_child(look) == "(False, 0.0, True, True)"
        for action in (lambda: lead.token, lead.check, lambda: lead.healthy(False)):
            assert in_child(action).startswith("Forked("), in_child(action)
        assert in_child(place.leader(timeout=0).__enter__).startswith("Forked(")
        assert lead.is_leader and lead.token == 1, "a child changed the leadership of its parent"

    def leave():
        with place.leader() as lead:
            pid = os.fork()
            if pid:
                os.waitpid(pid, 0)
                assert lead.is_leader, "the end of the block in the child ended the leadership of the parent"
        if pid == 0:
            os._exit(0)
    leave()


@test
def threads_share_a_leadership_until_it_is_closed(place):
    wrong, over, ended = [], threading.Event(), threading.Event()

    def ask():
        while not over.is_set():
            after = ended.is_set()
            if (lead.is_leader or lead.valid > 0 or not lead.lost.is_set()) and after:
                wrong.append("it leads after the end of the block")
    with place.leader() as lead:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        lead.lost.wait(0.2)
    ended.set()
    for _ in range(1000):
        assert not lead.is_leader
    over.set()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


@test
def one_thread_of_two_leads_at_a_time(place):
    seen, inside = [], threading.Lock()

    def work():
        with place.leader() as lead:
            assert inside.acquire(blocking=False), "two leaders"
            seen.append(lead.token)
            inside.release()
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1, 2, 3], seen


@test
def async_block_is_cancelled_by_the_loss(place):
    async def lose(suppress):
        async with place.leader() as lead:
            lead.healthy(False)
            try:
                await asyncio.sleep(HANG_S)
            except asyncio.CancelledError:
                if not suppress:
                    raise

    async def both():
        for suppress in (False, True):
            try:
                await lose(suppress)
                raise AssertionError("no LeadershipLost")
            except bellwether.LeadershipLost as lost:
                assert lost.reason is bellwether.Loss.UNHEALTHY
            assert asyncio.current_task().cancelling() == 0, "the task is still being cancelled"
        async with place.leader() as lead:
            assert lead.token == 3
            await asyncio.sleep(0)
    asyncio.run(both())


@test
def cancelled_async_candidate_leaves(place):
    async def waits():
        async with place.leader():
            raise AssertionError("elected beside another leader")

    async def both():
        async with place.leader() as lead:
            task = asyncio.create_task(waits())
            done, _ = await asyncio.wait([task], timeout=0.3)
            assert not done
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=HANG_S)
            assert done and task.cancelled() and lead.is_leader

            async def outer():
                async with bellwether.Leader(place.store, "other", ttl=TTL):
                    await asyncio.sleep(HANG_S)
            task = asyncio.create_task(outer())
            await asyncio.sleep(0.3)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=HANG_S)
            assert done and task.cancelled(), "a cancellation from outside became something else"
    asyncio.run(both())


@test
def async_observer_ends_when_another_task_closes_it(place):
    async def both():
        observer, seen = bellwether.Observer(place.store, "e", ttl=TTL), []
        await observer.__aenter__()

        async def iterate():
            async for leader in observer:
                seen.append(leader and leader.token)
        task = asyncio.create_task(iterate())
        async with place.leader():
            while 1 not in seen:
                await asyncio.sleep(0.01)
        await observer.__aexit__(None, None, None)
        await asyncio.wait_for(task, HANG_S)
    asyncio.run(both())


@test
def reason_of_a_loss_is_known_at_once(place):
    """check() may see the loss before the thread has noted its reason."""
    def lose():
        with place.leader() as lead:
            lead.healthy(False)
            while True:
                lead.check()
    error = raises(bellwether.LeadershipLost, lose)
    assert error.reason is bellwether.Loss.UNHEALTHY, error.reason


@test
def decorator_runs_functions_as_leader(place):
    @place.leader()
    def plain(lead, a, *, b):
        """what it does"""
        return lead.token, a, b

    @place.leader()
    async def coroutine(lead, a):
        return lead.token, a
    assert (plain(1, b=2), plain(3, b=4), plain.__doc__) == ((1, 1, 2), (2, 3, 4), "what it does")
    assert asyncio.run(coroutine(5)) == (3, 5)


@test
def decorator_passes_the_leadership_to_a_method_after_self(place):
    leader = place.leader()

    class Job:
        name = "class"

        def __init__(self, name):
            self.name = name

        @leader
        def plain(self, lead, a, *, b=0):
            """what it does"""
            return self.name, lead.is_leader, a, b

        @leader
        async def coroutine(self, lead, a):
            return self.name, lead.is_leader, a

        @classmethod
        @leader
        def of_class(cls, lead, a):
            return cls.name, lead.is_leader, a

        @staticmethod
        @leader
        def static(lead, a):
            return lead.is_leader, a

        @leader
        def any_arguments(self, *arguments):
            return self.name, arguments[0].is_leader, arguments[1:]

    job = Job("job")
    assert job.plain(1, b=2) == Job.plain(job, 1, b=2) == ("job", True, 1, 2)
    assert asyncio.run(job.coroutine(3)) == ("job", True, 3)
    assert job.of_class(4) == Job.of_class(4) == ("class", True, 4)
    assert job.static(5) == Job.static(5) == (True, 5)
    assert job.any_arguments(6, 7) == ("job", True, (6, 7))


@test
def decorated_function_keeps_its_name_and_tells_its_callers_parameters(place):
    @place.leader()
    def report(lead: bellwether.Leadership, day: int, *, dry: bool = False) -> str:
        """what it does"""

    class Job:
        @place.leader()
        async def run(self, lead, day):
            """what it does"""

    for function, name, shown in ((report, "report", "(day: int, *, dry: bool = False) -> str"), (Job.run, "run", "(self, day)"), (Job().run, "run", "(day)")):
        assert (function.__name__, function.__doc__, function.__module__) == (name, "what it does", __name__), function
        assert str(inspect.signature(function)) == shown, inspect.signature(function)
    assert Job.run.__qualname__.endswith("<locals>.Job.run")
    assert inspect.iscoroutinefunction(Job.run) and inspect.iscoroutinefunction(Job().run) and not inspect.iscoroutinefunction(report)


@test
def decorator_refuses_what_would_run_without_leadership(place):
    leader = place.leader()

    def generator(lead):
        yield lead

    async def async_generator(lead):
        yield lead

    class Class:
        def method(self):
            return self

        def method_by_name(self, *, lead):
            return self, lead

        @staticmethod
        def function(lead):
            return lead.token

        @classmethod
        def of_class(cls, lead):
            return cls, lead

        def bound(this, lead):
            return this, lead
    for function, words in ((generator, "after the leadership has ended"), (async_generator, "after the leadership has ended"),
                            (Class.method, "a parameter for the leadership after self"), (Class.method_by_name, "after self"),
                            (lambda: None, "a parameter for the leadership in the first place"), (None, "got NoneType"),
                            (Class.__dict__["function"], "write @staticmethod above"), (Class.__dict__["of_class"], "write @classmethod above")):
        assert words in str(raises(TypeError, lambda function=function: leader(function))), function
    assert leader(Class.function)() == 1
    job = Class()
    assert leader(job.bound)()[0] is job


@test
def reason_names_an_unreachable_store(place):
    def lose():
        with place.leader(ttl=2) as lead:
            lock = sqlite3.connect(place.path("e.db"), timeout=HANG_S, isolation_level=None)
            lock.execute("BEGIN IMMEDIATE")
            assert lead.lost.wait(HANG_S)
            found = lead.reason
            lock.execute("ROLLBACK")
            lock.close()
            assert found is bellwether.Loss.UNREACHABLE, found
    assert raises(bellwether.LeadershipLost, lose).reason is bellwether.Loss.UNREACHABLE


@test
def unreachable_store_is_a_warning_when_the_wait_has_no_limit(place):
    class Collect(logging.Handler):
        lines = []

        def emit(self, record):
            self.lines.append(record.getMessage())

    library, collect = bellwether._library.library(), Collect()
    logging.getLogger("bellwether").addHandler(collect)
    real = library.bw_leader
    try:
        for answer in (None, -15):  # a store that answers, and EIO
            library.bw_leader = (lambda *arguments: -15) if answer else real
            for timeout in (None, HANG_S):
                with place.leader(timeout=timeout):
                    pass
    finally:
        library.bw_leader = real
        logging.getLogger("bellwether").removeHandler(collect)
    assert len(collect.lines) == 1 and collect.lines[0].startswith("cannot reach the store: "), collect.lines


@test
def signal_interrupts_the_wait_for_election(place):
    first = place.other("first")
    first.stdout.readline()
    # The handler comes after the import: Python may lose an exception that a handler raises during an import.
    second = place.start("-c", "import bellwether, signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\nprint('ready', flush=True)\n" + OTHER,
                         place.store, "second")
    assert second.stdout.readline() == "ready\n"
    second.send_signal(signal.SIGTERM)
    assert second.wait(HANG_S) == 5
    assert first.poll() is None


@test
def observer_follows_the_leader(place):
    with bellwether.Observer(place.store, "e", ttl=TTL) as observer:
        assert observer.leader() is None
        other = place.other("one")
        leaders = (leader for leader in observer if leader)
        assert next(leaders) == bellwether.LeaderInfo("one", 1, "here:80") == observer.leader()
        other.kill()
        other.wait()
        place.other("two")
        assert next(leader for leader in leaders if leader.id == "two").token == 2
        ended = threading.Thread(target=lambda: list(observer))
        ended.start()
        observer.close()
        ended.join()
    raises(bellwether.Error, observer.leader)

    async def follow():
        async with bellwether.Observer(place.store, "e", ttl=TTL) as observer:
            async for leader in observer:
                if leader:
                    return leader.id
    assert asyncio.run(asyncio.wait_for(follow(), HANG_S)) == "two"


@test
def guards_reject_older_tokens(place):
    with bellwether.Guard(place.path("data")) as guard:
        guard.check(7)
        guard.check(7)
        raises(bellwether.StaleToken, lambda: guard.check(6))
        raises(bellwether.InvalidArgument, lambda: guard.check(0))
        raises(bellwether.InvalidArgument, lambda: guard.check(-1))
    raises(bellwether.InvalidArgument, lambda: guard.check(8))
    raises(bellwether.Error, lambda: bellwether.Guard(place.path("none/data")))
    db = sqlite3.connect(place.path("data.db"))
    bellwether.create_sqlite_guard(db)
    raises(bellwether.InvalidArgument, lambda: bellwether.check_sqlite(db, "t", 1))  # no transaction
    for token, kind in ((7, None), (6, bellwether.StaleToken), (0, bellwether.InvalidArgument), (8, None)):
        db.execute("BEGIN IMMEDIATE")
        if kind:
            raises(kind, lambda token=token: bellwether.check_sqlite(db, "t", token))
            db.rollback()
        else:
            bellwether.check_sqlite(db, "t", token)
            db.commit()
    assert db.execute("SELECT * FROM bellwether_guard").fetchall() == [("t", 8)]
    db.close()


HOLDER = """
import sys, bellwether
with bellwether.Guard(sys.argv[1]) as guard, guard.hold(int(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@test
def held_guard_makes_a_newer_leader_wait_for_the_write(place):
    path = place.path("data")
    old = place.start("-c", HOLDER, path, "5")
    assert old.stdout.readline() == "held\n"
    old.send_signal(signal.SIGSTOP)
    with bellwether.Guard(path) as guard:
        def hold(token, timeout=None):
            with guard.hold(token, timeout):
                raises(bellwether.InvalidArgument, guard.hold(token).__enter__)  # nested
        for timeout in (0, 0.3):
            assert raises(bellwether.Error, lambda timeout=timeout: hold(6, timeout)).code == -9
        waiting = threading.Thread(target=lambda: hold(6))
        waiting.start()
        old.send_signal(signal.SIGCONT)
        old.communicate("\n")
        waiting.join()
        hold(7, 0)
        raises(bellwether.StaleToken, lambda: hold(6))
        with guard.hold(8):
            other = threading.Thread(target=lambda: raises(bellwether.Error, lambda: hold(8, 0)))
            other.start()
            other.join()
    raises(bellwether.InvalidArgument, lambda: hold(9))


@test
def invalid_arguments_are_named(place):
    for kind, word, make in (
            (bellwether.InvalidArgument, "foo", lambda: bellwether.Leader("foo://x", "e").__enter__()),
            (bellwether.InvalidArgument, "name", lambda: bellwether.Leader(place.store, "").__enter__()),
            (bellwether.InvalidArgument, "zero byte", lambda: bellwether.Leader(place.store, "a\0b")),
            (bellwether.InvalidArgument, "ttl", lambda: bellwether.Leader(place.store, "e", ttl=0)),
            (bellwether.InvalidArgument, "timeout", lambda: bellwether.Leader(place.store, "e", timeout=-1)),
            (bellwether.InvalidArgument, "overdue", lambda: bellwether.Leader(place.store, "e", overdue="no")),
            (bellwether.InvalidArgument, "do not fit", lambda: bellwether.Leader(place.store, "e", ttl=1, kill_after=5).__enter__())):
        assert word in str(raises(kind, make)), word
    for word, make in (("store: expected a string, got NoneType", lambda: bellwether.Leader(None, "e")),
                       ("election: expected a string, got int", lambda: bellwether.Leader(place.store, 1))):
        assert word in str(raises(TypeError, make)), word
    leader = place.leader()
    with leader:
        assert "already entered" in str(raises(bellwether.InvalidArgument, leader.__enter__))
    done = subprocess.run([sys.executable, "-c", "import bellwether; bellwether.library_version()"], text=True, capture_output=True,
                          env=dict(os.environ, BELLWETHER_LIBRARY="/none.so"), check=False, timeout=HANG_S)
    assert "cannot load /none.so" in done.stderr and "libbellwether0" in done.stderr, done.stderr


@test
def example_takes_turns(place):
    script, lines = os.path.join(SOURCE, "examples", "nightly.py"), place.path("lines")
    for process in [place.start(script, place.store, lines, "5") for _ in range(3)]:
        assert process.wait(HANG_S) == 0
    with open(lines, encoding="utf-8") as file:
        found = re.findall(r"^token (\d+) round (\d+)$", file.read(), re.M)
    assert found == [(str(t), str(r)) for t in (1, 2, 3) for r in (1, 2, 3, 4, 5)], found
    endless = place.start(script, place.store, lines, "1000000")
    wait_for(lambda: "token 4 " in open(lines, encoding="utf-8").read())
    endless.terminate()
    assert endless.wait(HANG_S) == 0


def tool(*words):
    """Runs a program of Debian; None if it is not installed."""
    if not os.path.exists(words[0]):
        return None
    return subprocess.run(words, text=True, capture_output=True, check=False, timeout=10 * HANG_S)


@test
def types_are_complete(place):
    program = place.path("program.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write('''import bellwether

@bellwether.Leader("s", "e")
def job(lead: bellwether.Leadership, number: int) -> str:
    return f"{lead.token} {number}"

def use() -> str:
    with bellwether.Leader("s", "e", ttl=5) as lead:
        lead.check()
    return job(1)

class Jobs:
    @bellwether.Leader("s", "e")
    def job(self, lead: bellwether.Leadership, number: int) -> str:
        return f"{lead.token} {number}"

    @bellwether.Leader("s", "e")
    async def later(self, lead: bellwether.Leadership, number: int) -> str:
        return f"{lead.token} {number}"

    @classmethod
    @bellwether.Leader("s", "e")
    def of_class(cls, lead: bellwether.Leadership, number: int) -> int:
        return number

async def use_methods() -> list[str]:
    return [Jobs().job(1), Jobs.job(Jobs(), 1), await Jobs().later(number=1), str(Jobs.of_class(1) + 1)]

use().no_method()
job("a")
Jobs().job("a")
Jobs().later(1).no_method()
''')
    done = tool("/usr/bin/mypy", "--strict", "--cache-dir", place.path("cache"), PYTHON + "/bellwether", program)
    if not done:
        raise Skip("no mypy")
    wrong = re.findall(r"^(\S+?):(\d+): error", done.stdout, re.M)
    assert [(os.path.basename(name), line) for name, line in wrong] == [("program.py", line) for line in ("29", "30", "31", "32")], done.stdout


@test
def wheel_installs_offline_and_has_the_types(place):
    """The wheel of the source, built and installed without a network by Debian's pip, and used from there."""
    python, source, wheels, target = "/usr/bin/python3", place.path("source"), place.path("wheels"), place.path("installed")
    found = tool(python, "-c", "import setuptools, wheel, pip")
    if not found or found.returncode != 0:
        raise Skip("Debian's python3-pip, python3-setuptools or python3-wheel is not installed")
    shutil.copytree(PYTHON, source, ignore=shutil.ignore_patterns("__pycache__"))  # the build writes beside the source
    pip = [python, "-m", "pip", "--isolated", "--no-input", "--disable-pip-version-check", "--no-cache-dir"]
    for words in (["wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, source],
                  ["install", "--no-index", "--no-deps", "--find-links", wheels, "--target", target, "bellwether"]):
        done = tool(*pip, *words)
        assert done.returncode == 0, done.stdout + done.stderr
    names = sorted(name for name in os.listdir(os.path.join(PYTHON, "bellwether")) if name != "__pycache__")
    assert sorted(name for name in os.listdir(os.path.join(target, "bellwether")) if name != "__pycache__") == names
    assert "py.typed" in names
    script = """
import bellwether, importlib.metadata
with bellwether.Leader(%r, "wheel") as lead:
    print(bellwether.__file__, importlib.metadata.version("bellwether"), lead.token)
""" % place.store
    done = subprocess.run([python, "-c", script], text=True, capture_output=True, check=False, timeout=HANG_S, cwd=place.dir,
                          env={**os.environ, "PYTHONPATH": target})
    assert done.stdout.split() == [os.path.join(target, "bellwether", "__init__.py"), bellwether.library_version(), "1"], done


@test
def versions_of_package_and_library_are_equal(_):
    with open(os.path.join(PYTHON, "pyproject.toml"), encoding="utf-8") as file:
        version = re.search(r'^version = "(.*)"$', file.read(), re.M).group(1)
    assert version == bellwether.library_version()


def main():
    wanted = sys.argv[3:]
    for function in TESTS:
        if wanted and function.__name__ not in wanted:
            continue
        place = Place()
        try:
            function(place)
            tap.result(True, function.__name__)
        except Skip as why:
            tap.skip(function.__name__, str(why))
        except Exception as error:  # a test that breaks must not hide the others
            tap.result(False, function.__name__, "".join(traceback.format_exception(error)))
        finally:
            place.close()
    sys.exit(tap.end())


main()
