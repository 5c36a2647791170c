#!/usr/bin/env python3
"""Checks that the tests catch every planted bug.

    mutants.py [--tap] BUILD [NAME...]

The bugs are the names in src/core/base/bugs.inc. For each bug the script compiles the file that contains
`BW_BUG(name)` again with the bug enabled, and links it with the unchanged objects of BUILD. Then it runs the catcher that
tests/mutants.txt names for the bug; the catcher must fail. The same catcher must pass on the correct tree, otherwise it
would prove nothing.

A line of mutants.txt is a name and one of
    unit NAME                    that unit test
    system NAME                  that test of tests/system
    storm ALGORITHM FROM..TO ... `bellwether sim storm` over these seeds, with the further options
    explore TARGET DEPTH         `bellwether sim explore`
    check NUMBER [SIZE]          `bellwether sim check`
    run ...                      `bellwether sim run` with these options
    scenario NAME...             these scenarios of tests/scenario
A result is kept until the mutant, the tree or the line changes.
"""
import concurrent.futures
import contextlib
import glob
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIMEOUT = 900  # seconds; generous, because other processes have priority
# A catcher that does not end catches the bug, too, but only if it could run: other processes have priority, and a catcher that gets
# no CPU does not end either. So the limits count the time in which no process of the catcher waited for a CPU.
LEAST_LIMIT = 60  # seconds that a catcher may take on a mutant (meson gives a unit test 30), and
LIMIT_FACTOR = 4  # how many times its time on the correct tree
LONGEST = 3600  # seconds after which a catcher that got too little CPU is given up
LOOK_S = 0.5  # interval of the measurement
STALL_S = 0.1  # a machine that stalls for so long may cost a peer its leadership
sys.path.insert(0, os.path.join(TOP, "tests/system/kit"))
import stall  # noqa: E402 pylint: disable=wrong-import-position


class Trouble(Exception):
    """The mutant could not be built or judged, so the test fails with this reason."""


def read_names():
    with open(os.path.join(TOP, "src/core/base/bugs.inc"), encoding="utf-8") as table:
        return re.findall(r"^X\((\w+)\)", table.read(), re.M)


def read_catchers():
    catchers = {}
    with open(os.path.join(TOP, "tests/mutants.txt"), encoding="utf-8") as lines:
        for line in lines:
            words = line.split("#")[0].split()
            if words:
                catchers.setdefault(words[0], []).append(words[1:])
    return catchers


def find_uses():
    """Maps each bug to the files that contain it."""
    uses = {}
    for folder in ("src", "sim"):
        for where, _, files in os.walk(os.path.join(TOP, folder)):
            for name in sorted(files):
                if not name.endswith((".c", ".h")):
                    continue
                path = os.path.join(where, name)
                with open(path, encoding="utf-8") as source:
                    for bug in set(re.findall(r"\bBW_BUG\((\w+)\)", source.read())):
                        uses.setdefault(bug, []).append(os.path.relpath(path, TOP))
    uses.pop("name", None)  # bug.h's own example
    return uses


def run(command, cwd=None):
    """Runs a compiler or a linker. Returns the exit code and the output."""
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=LONGEST, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def family_of(pid):
    """A process and its descendants."""
    parents, found = {}, {pid}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                parents[int(entry)] = int(file.read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            pass  # it has just ended
    before = 0
    while len(found) > before:
        before = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found


def ran_of(pids):
    """For each thread of these processes: whether it runs or waits for a CPU now, and its CPU time."""
    found = {}
    for pid in pids:
        for task in glob.glob(f"/proc/{pid}/task/*"):
            try:
                with open(task + "/stat", encoding="utf-8", errors="replace") as stat, open(task + "/schedstat", encoding="utf-8") as times:
                    found[task] = (stat.read().rsplit(")", 1)[1].split()[0] == "R", int(times.read().split()[0]))
            except (OSError, IndexError):
                pass  # it has just ended
    return found


class Chance:
    """Measures for how long a catcher could run: the time in which the machine did not stall and none of its processes waited for
    a CPU. That is at least the CPU time of a single busy process, and nearly all the time of one that sleeps."""

    def __init__(self, pid):
        self.pid, self.seconds, self.since = pid, 0.0, time.monotonic()
        self.watch, self.waited, self.ran = stall.Watch(), {}, {}

    def look(self):
        now, family = time.monotonic(), family_of(self.pid)
        waited, ran = stall.waited(family), ran_of(family)
        waits = sum(seconds - self.waited.get(task, 0.0) for task, seconds in waited.items())
        # the kernel counts a wait when it ends
        waiting = any(runnable and seconds == self.ran.get(task, (False, None))[1] for task, (runnable, seconds) in ran.items())
        if not waiting:
            self.seconds += max(0.0, now - self.since - max(waits, self.watch.longest()))
        self.since, self.waited, self.ran, self.watch = now, waited, ran, stall.Watch()
        return self.seconds


def run_catcher(command, limit, longest=LONGEST):
    """Returns the exit code, the output and the seconds in which the catcher could run. The code is None if it had `limit` seconds
    and did not end. It stays in this session: a new one would not have its low priority (low.sh)."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        chance, begun, status = Chance(process.pid), time.monotonic(), None
        while status is None and chance.look() < limit and time.monotonic() - begun < longest:
            try:
                status = process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                pass
        if status is None:
            for pid in family_of(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        said = out.read().decode(errors="replace")
    if status is None and chance.seconds < limit:
        raise Trouble(f"could run for only {chance.seconds:.0f} s of {longest:.0f} s: " + " ".join(command))
    return status, said, chance.seconds


class Tree:
    """The build directory, with the compile and link commands of its files."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.work = os.path.join(self.build, "mutants")
        os.makedirs(self.work, exist_ok=True)
        with open(os.path.join(self.build, "compile_commands.json"), encoding="utf-8") as commands:
            self.compile = {}
            for entry in json.load(commands):
                path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), TOP)
                self.compile.setdefault(path, []).append(entry)
        self.links = {}
        self.controls = {}  # catcher: (seconds in which it could run, output), the output is None if the catcher passed
        self.control_locks = {}
        self.lock = threading.Lock()

    def link_command(self, target):
        with self.lock:
            if target not in self.links:
                status, said = run(["ninja", "-C", self.build, "-t", "commands", "-s", target])
                lines = [l for l in said.splitlines() if l and not l.startswith("ninja:")]
                if status != 0 or not lines:
                    raise Trouble(f"the build has no {target}")
                self.links[target] = shlex.split(lines[-1].split(" && ")[0])
            return list(self.links[target])

    def command_of_object(self, source, link):
        """The compile command of the object, or of the member of an archive, that the target links: some sources are compiled
        several times, for example with crash points."""
        entries = self.compile.get(source)
        if entries is None:
            raise Trouble(f"{source} is not in the build")
        for entry in entries:
            words = shlex.split(entry["command"])
            made = words[words.index("-o") + 1]
            if made in link or os.path.dirname(made).removesuffix(".p") in link:
                return entry
        return entries[0]

    def compile_mutant(self, name, source, link):
        entry = self.command_of_object(source, link)
        made = os.path.join(self.work, name + "." + source.replace("/", "_") + ".o")
        words = shlex.split(entry["command"])
        original = words[words.index("-o") + 1]
        for option in ("-MQ", "-MF", "-o"):
            words[words.index(option) + 1] = made + (".d" if option == "-MF" else "")
        status, said = run(words + [f"-DBW_MUTANT=BW_BUG_{name}"], cwd=entry["directory"])
        if status != 0:
            raise Trouble("does not compile:\n" + said)
        return original, made

    def units_of(self, sources):
        """Returns the files to compile: for a header all files that include it."""
        units = [s for s in sources if not s.endswith(".h")]
        for header in (s for s in sources if s.endswith(".h")):
            wanted = re.compile('^#include "' + re.escape(header.removeprefix("src/")) + '"', re.M)
            for path in self.compile:
                with open(os.path.join(TOP, path), encoding="utf-8") as unit:
                    if path not in units and not path.startswith("tests/") and wanted.search(unit.read()):
                        units.append(path)
        return units

    def link_mutant(self, name, sources, target):
        """Links a program with the mutated objects before the archives with the correct ones."""
        words = self.link_command(target)
        objects = []
        for source in self.units_of(sources):
            original, made = self.compile_mutant(name, source, words)
            if original in words:
                words[words.index(original)] = made
            else:
                objects.append(made)
        program = os.path.join(self.work, name + "." + os.path.basename(target))
        at = words.index("-o")
        words[at + 1] = program
        words[at + 2:at + 2] = objects
        status, said = run(words, cwd=self.build)
        if status != 0:
            raise Trouble("does not link:\n" + said)
        return program


def target_of(catcher):
    return f"tests/{catcher[0]}-{catcher[1]}" if catcher[0] in ("unit", "system") else "bellwether"


def command_of(catcher, program):
    kind, words = catcher[0], catcher[1:]
    if kind in ("unit", "system"):
        return [program, *(os.path.join(TOP, word) for word in words[1:])]
    if kind == "storm":
        return [program, "sim", "storm", "--jobs", "1", "--algorithm", words[0], "--seeds", words[1], *words[2:]]
    if kind == "explore":
        return [program, "sim", "explore", words[0], "--depth", words[1], "--jobs", "1"]
    if kind == "check":
        return [program, "sim", "check", words[0], "--size", words[1] if len(words) > 1 else "0.05"]
    if kind == "run":
        return [program, "sim", "run", *words]
    if kind == "scenario":
        scenarios = os.path.join(TOP, "tests/scenario")
        return [os.path.join(scenarios, "run.sh"), program, *(glob.glob(os.path.join(scenarios, "*", w + ".txt"))[0] for w in words)]
    raise Trouble(f"mutants.txt: unknown catcher '{kind}'")


def attempts(catcher):
    """Splits a storm into growing portions, so that it ends soon after the first failing seed."""
    first, last = (int(n) for n in catcher[2].split(".."))
    portions, size = [], 25
    while first <= last:
        portions.append([*catcher[:2], f"{first}..{min(last, first + size - 1)}", *catcher[3:]])
        first, size = first + size, size * 2
    return portions


def caught_by(status, said, limit):
    """Returns what caught the bug, or None. Exit code 1 is a violation or failed test; a signal is a failed assertion.
    A catcher that does not end would fail in the suite as well; the limit is a multiple of its time on the correct tree."""
    if status == 0:
        return None
    if status is None:
        return f"no end after {limit:.0f} s in which it could run"
    seed = re.search(r"\bseed[ =:]+(\d+)", said)
    if status < 0 or status >= 128:
        return f"crash{', seed ' + seed.group(1) if seed else ''}"
    if status == 64:
        raise Trouble("invalid catcher command:\n" + said)
    return f"seed {seed.group(1)}" if seed else "failed"


def measure_control(tree, catcher):
    """Runs a catcher on the correct tree; returns the seconds in which it could run, and its output if it failed."""
    took, said = 0.0, ""
    for _ in range(stall.ATTEMPTS):  # this script has a low priority, so a test may get no CPU for some time
        watch = stall.Watch()
        status, said, took = run_catcher(command_of(catcher, os.path.join(tree.build, target_of(catcher))), TIMEOUT)
        if status == 0:
            return took, None
        if watch.longest() < STALL_S:
            break
    return took, said


def control(tree, catcher):
    """Checks once that the correct tree passes. Returns for how many seconds the catcher could run there."""
    key = " ".join(catcher)
    with tree.lock:
        own = tree.control_locks.setdefault(key, threading.Lock())
    with own:
        if key not in tree.controls:
            tree.controls[key] = measure_control(tree, catcher)
        took, said = tree.controls[key]
    if said is not None:
        raise Trouble(f"`{key}` fails on the correct tree as well:\n" + said)
    return took


def catch(tree, catcher, program):
    """Returns how the catcher caught the mutant, or None. Of a storm, only the seed that caught it runs on the correct tree."""
    if catcher[0] != "storm":
        limit = max(LEAST_LIMIT, LIMIT_FACTOR * control(tree, catcher))
        return caught_by(*run_catcher(command_of(catcher, program), limit)[:2], limit)
    for portion in attempts(catcher):
        how = caught_by(*run_catcher(command_of(portion, program), TIMEOUT)[:2], TIMEOUT)
        if how:
            seed = re.search(r"seed (\d+)", how)
            control(tree, [*catcher[:2], f"{seed.group(1)}..{seed.group(1)}", *catcher[3:]] if seed else catcher)
            return how
    return None


def fingerprint(tree, program, catcher):
    """Returns a key that changes when the mutant, the correct program or the catcher changes."""
    total = hashlib.sha256(b"2 " + " ".join(catcher).encode())  # 1: a catcher without CPU time was able to "catch" a bug
    for path in (program, os.path.join(tree.build, target_of(catcher))):
        with open(path, "rb") as binary:
            total.update(binary.read())
    return total.hexdigest()


def judge(tree, name, sources, catchers):
    """Returns the first catcher that catches the bug, as (catcher, how)."""
    for catcher in catchers:
        program = tree.link_mutant(name, sources, target_of(catcher))
        cache = os.path.join(tree.work, name + "." + catcher[0] + ".caught")
        key = fingerprint(tree, program, catcher)
        if os.path.exists(cache):
            with open(cache, encoding="utf-8") as kept:
                known, how = kept.read().split("\n", 1)
            if known == key:
                os.unlink(program)
                return catcher, how
        how = catch(tree, catcher, program)
        if how:
            with open(cache, "w", encoding="utf-8") as kept:
                kept.write(key + "\n" + how)
            os.unlink(program)
            return catcher, how
    raise Trouble("not caught by " + " or ".join("`" + " ".join(c) + "`" for c in catchers))


def judge_all(tree, names):
    catchers, uses = read_catchers(), find_uses()

    def one(name):
        sources = uses.get(name, [])
        try:
            if not sources:
                raise Trouble("is in bugs.inc, but no file contains it")
            if name not in catchers:
                raise Trouble("missing in tests/mutants.txt")
            return name, sources, judge(tree, name, sources, catchers[name]), None
        except Trouble as trouble:
            return name, sources, None, str(trouble)

    for name in sorted(set(uses) - set(read_names())):
        yield name, uses[name], None, "is planted but not in bugs.inc"
    for name in sorted(set(catchers) - set(read_names())):
        yield name, [], None, "is in mutants.txt but not in bugs.inc"
    cpus = os.cpu_count() or 1
    with concurrent.futures.ThreadPoolExecutor(cpus + cpus // 2) as pool:  # most catchers wait for some of their time
        yield from pool.map(one, names)


def main():
    arguments = sys.argv[1:]
    tap = "--tap" in arguments
    arguments = [a for a in arguments if a != "--tap"]
    if not arguments:
        sys.exit("usage: mutants.py [--tap] BUILD [NAME...]")
    names = arguments[1:] or read_names()
    count = failed = 0
    if not tap:
        print(f"{'bug':40} {'planted in':34} caught by")
    for name, sources, caught, trouble in judge_all(Tree(arguments[0]), names):
        count += 1
        failed += trouble is not None
        line = f"{name:40} {', '.join(sources):34} "
        line += trouble.split("\n")[0] if trouble else f"{' '.join(caught[0])}: {caught[1]}"
        print(f"{'not ok' if trouble else 'ok'} {count} - {line}" if tap else line, flush=True)
        if trouble and "\n" in trouble:
            print("\n".join("# " + rest for rest in trouble.split("\n")[1:20]))
    print(f"1..{count}" if tap else f"{count - failed} of {count} planted bugs caught")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
