#!/usr/bin/env python3
"""Fails every allocation and every system call of a program in turn, and judges what the program does. The method is
curl's torture test.

    torture.py BUILD [SUBJECT...] [--list] [--all] [--stacks] [--limit N] [--seed N] [--jobs N] [--seconds N]
    torture.py BUILD SUBJECT --fail KIND:N[:CHOICE]       one failure, with all output

The driver runs a subject once and counts its calls. Then it runs the subject once per call: that call fails with an errno
that its manual page allows, and every other call works. By default the calls are grouped by the lines of Bellwether that
lead to them, and one call per group fails (--stacks: one per complete call stack; --all: every call). --limit takes a
random sample of that, drawn with --seed.

A run is judged by these rules; subjects.py has those of each subject:
- no process of the subject ends by a signal, except where the documentation says so
- no sanitizer reports an error or a leak
- the subject ends within HANG_S
- the subject either succeeds completely, or exits with a documented code and a message on standard error
- afterwards, without failures, the same data can be used, and no acknowledged or claimed change is lost
The last line is TAP's plan; a failed run prints the failed call with its stack, and the command that repeats it."""
import argparse
import collections
import concurrent.futures
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "system", part) for part in ("torture", "kit", "store")]
import subjects  # noqa: E402
from run_lib import Tap  # noqa: E402
from state import new_state, read_calls, read_state  # noqa: E402
import stores  # noqa: E402,F401 pylint: disable=unused-import; it adds subjects
import tls  # noqa: E402,F401 pylint: disable=unused-import; it adds subjects
from watcher import Watcher  # noqa: E402

SHORT_LIMIT = 20  # failures per subject in the short form

# What a run did, the state of the interposer, the counted calls, and whether it crashed in a library that may
Result = collections.namedtuple("Result", "problems story state calls excused")


class Bench:
    """The programs of one build directory, and the environment of a tortured program."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.watcher = Watcher()
        self.interposer = os.path.join(self.build, "tests", "torture.so")
        self.sanitized = b"libasan" in subprocess.run(["ldd", self.program("bellwether")], capture_output=True, check=True).stdout

    def program(self, name):
        return os.path.join(self.build, name)

    def missing_module(self, store):
        """Why the module of this store cannot be loaded; None if it can."""
        if store and not os.path.exists(self.program(f"src/store/bellwether-store-{store}.so")):
            return f"the module of the store {store} is not built"
        return None

    def environment(self, program, state, fail=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith("BELLWETHER_")}
        env.update(LD_PRELOAD=self.interposer, TORTURE_STATE=state, TORTURE_PROGRAM=os.path.basename(program))
        # glibc fills memory with this byte when it is freed, so that a use after free shows
        env.setdefault("GLIBC_TUNABLES", "glibc.malloc.perturb=165")
        # the interposer must be before the sanitizer's library; the loader cannot report an error of its own otherwise
        env["ASAN_OPTIONS"] = ("verify_asan_link_order=0:detect_leaks=1:allocator_may_return_null=1:handle_abort=0:"
                               "fast_unwind_on_malloc=0")
        env["LSAN_OPTIONS"] = f"print_suppressions=0:suppressions={os.path.join(HERE, 'system', 'torture', 'leaks.txt')}"
        env["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
        env["TORTURE_FAIL" if fail else "TORTURE_LOG"] = fail or "1"
        return env


def play(bench, subject, fail=None):
    """Runs the subject once."""
    with tempfile.TemporaryDirectory(prefix="bellwether-torture-") as folder:
        state = os.path.join(folder, "torture-state")
        new_state(state)
        place = os.path.join(folder, "place")
        os.mkdir(place)
        run = subject(bench, place, bench.environment(subject.program(bench), state, fail))
        try:
            problems = run.problems()
        finally:
            run.clean()
        return Result(problems, run.story(), read_state(state), read_calls(state) if not fail else [], run.excused)


def choose(calls, options, share):
    """The calls that shall fail, as TORTURE_FAIL's words."""
    if options.all:
        chosen = calls
    else:
        groups = collections.OrderedDict()
        for call in calls:
            groups.setdefault(call.stack if options.stacks else call.site, []).append(call)
        # one of a group, by chance: another seed takes another one
        dice = random.Random(options.seed)
        chosen = [dice.choice(group) for group in groups.values()]
    limit = options.limit or (len(chosen) if options.all or options.stacks else int(SHORT_LIMIT * share))
    if len(chosen) > limit:
        chosen = random.Random(options.seed).sample(chosen, limit)
    dice = random.Random(options.seed)
    return [f"{call.kind}:{call.index}:1:{dice.randrange(60)}" for call in chosen]


def lines_of(bench, frames):
    """The stack of the failed call as functions and lines."""
    shown = []
    for module, offset in frames[1:]:
        if module.startswith("torture"):
            continue
        path = find_module(bench, module)
        line = "?"
        if path:
            done = subprocess.run(["addr2line", "-Cfse", path, hex(offset - 1)], capture_output=True, text=True, check=False)
            line = " ".join(done.stdout.split("\n")[:2])
        shown.append(f"  {module or 'program'} {line if '?' not in line else hex(offset)}")
    return shown


def find_module(bench, module):
    for path in ([bench.current] if not module else [os.path.join(bench.build, "src", part, module) for part in ("store", "lib")]):
        if os.path.exists(path):
            return path
    return None


class Campaign:
    """All failures of one subject."""

    def __init__(self, bench, subject, options, tap):
        self.bench, self.subject, self.options, self.tap = bench, subject, options, tap
        self.lock, self.until = threading.Lock(), time.monotonic() + options.seconds
        self.failed = self.unreached = self.runs = self.excused = 0
        self.wrong = []  # what is judged wrong
        self.causes = collections.Counter()

    def one(self, fail):
        if time.monotonic() > self.until:
            return
        try:
            result = play(self.bench, self.subject, fail)
        except Exception as error:  # pylint: disable=broad-except; the other failures are still worth a run
            result = Result([f"the test itself failed: {error!r}"], "", None, [], False)
        with self.lock:
            self.runs += 1
            self.excused += result.excused
            if result.state and not result.state.failed:
                self.unreached += 1
            if result.problems:
                self.failed += 1
                self.report(fail, result)

    def report(self, fail, result):
        state = result.state
        print(f"# {self.subject.name} --fail {fail}: {'; '.join(result.problems)}")
        self.wrong.append(f"--fail {fail}: {'; '.join(result.problems)}\n{result.story}")
        if state and state.failed:
            print(f"#   failed: {state.name} with {os.strerror(state.error)} in process {state.pid}")
            self.bench.current = self.subject.program(self.bench)
            print("".join(f"#   {line}\n" for line in lines_of(self.bench, state.frames)), end="")
        print("".join(f"#   | {line}\n" for line in result.story.splitlines()[-40:]), end="", flush=True)

    def run(self):
        with self.subject.shared(self.bench):
            self.run_all()

    def run_all(self):
        name, began = self.subject.name, time.monotonic()
        result = play(self.bench, self.subject)
        if result.problems:
            self.tap.result(False, f"{name} works when nothing fails", "\n".join(result.problems + [result.story]))
            return
        wanted = choose(result.calls, self.options, self.subject.share)
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            list(pool.map(self.one, wanted))
        crashes = f"{self.excused} crashed in a library, " if self.excused else ""
        self.tap.comment(f"{name}: {result.state.allocs} allocations and {result.state.calls} system calls; {self.runs} failures "
                         f"injected, {self.unreached} not reached, {crashes}{self.failed} judged wrong, {time.monotonic() - began:.0f} s")
        self.tap.result(self.failed == 0 and self.runs > self.unreached, f"{name} survives each failed call", "\n".join(self.wrong))


def show_one(bench, subject, fail):
    kind, index, *choice = fail.split(":")
    words = [kind, index, *(choice if len(choice) == 2 else ["1", *(choice or ["0"])])]
    with subject.shared(bench):
        problems, story, state, _, _ = play(bench, subject, ":".join(words))
    bench.current = subject.program(bench)
    print(story)
    print(f"failed calls: {state.failed}; {state.name}: {os.strerror(state.error)}")
    print("\n".join(lines_of(bench, state.frames)))
    print("\n".join(problems) or "judged right")
    return 1 if problems else 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="build directory")
    parser.add_argument("subjects", nargs="*", help="names of subjects (default: all)")
    parser.add_argument("--list", action="store_true", help="list the subjects")
    parser.add_argument("--all", action="store_true", help="fail every call")
    parser.add_argument("--stacks", action="store_true", help="fail one call per call stack")
    parser.add_argument("--limit", type=int, default=0, help=f"maximum failures per subject (default: {SHORT_LIMIT}, or all)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default: 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at the same time (default: one per core)")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no more runs of a subject after this time")
    parser.add_argument("--fail", help="fail this one call and show everything")
    return parser.parse_intermixed_args()


def main():
    options = parse()
    bench = Bench(options.build)
    wanted = [s for s in subjects.SUBJECTS if not options.subjects or s.name in options.subjects]
    unknown = set(options.subjects) - {s.name for s in subjects.SUBJECTS}
    if unknown:
        sys.exit(f"torture.py: unknown subject {', '.join(sorted(unknown))}; see --list")
    if options.list:
        print("\n".join(f"{s.name:20} {s.__doc__.splitlines()[0]}" for s in subjects.SUBJECTS))
        return 0
    if options.fail:
        return show_one(bench, wanted[0], options.fail)
    tap = Tap()
    for subject in wanted:
        missing = bench.missing_module(subject.module) or subject.missing()
        if missing:
            tap.skip(f"{subject.name} survives each failed call", missing)
            continue
        Campaign(bench, subject, options, tap).run()
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
