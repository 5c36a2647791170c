#!/usr/bin/env python3
"""Measures the branch coverage of src/core from its own unit tests (tests/unit/core).

    branches.py [--tap] [--missing] BUILD     print the coverage per file and in total; with --missing also every branch
                                              that no test takes
    branches.py --negate BUILD FILE[:LINE]... negate each covered condition of the file, or of that line, one at a time:
                                              a unit test must fail

clang counts how often every condition in the source was true and how often it was false (source-based coverage). Each
direction is one branch, and so is each case of a switch. The script compiles src/core with these counters into a shared library
and links the object files of the unit tests in BUILD with it. It exits with 1 if the total is below the figure in
tests/branches.txt or if a unit test fails.

Not counted:
- conditions inside BW_ASSERT(...), BW_ALWAYS(...) and BW_NEVER(...): they go the other way only if the code has a bug.
  Then BW_ASSERT ends the program; the other two are defences, which end it in builds with sanitizers (base/assert.h).
- BW_BUG(name), which is the constant 0, and what matters only if it is 1: `c` in `BW_BUG(name) && c` and in
  `!BW_BUG(name) || c`; the whole condition and the body of `if (BW_BUG(name) && c)`. The other conditions of such a line
  count. tests/mutants.py tests the planted bugs.
- the missing default of a switch without `default`: the compiler (-Wswitch) ensures that every value has a case.
"""
import concurrent.futures
import contextlib
import io
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIGURE = os.path.join(TOP, "tests/branches.txt")
COUNTERS = ["-fprofile-instr-generate", "-fcoverage-mapping"]
TIMEOUT = 600  # seconds; generous, because other processes have priority
NEGATED_TIMEOUT = 20  # seconds; a negated condition may cause an endless loop


class Trouble(Exception):
    """The coverage could not be measured."""


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def run(command, cwd=None, env=None, timeout=TIMEOUT):
    """Returns the exit code and the output; the code is None after a timeout."""
    try:
        done = subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=timeout, check=False, preexec_fn=limit_memory)
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def must(command, cwd=None):
    status, said = run(command, cwd)
    if status != 0:
        raise Trouble(" ".join(command[:3]) + " ... failed:\n" + said)
    return said


def pool():
    return concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "0")) or os.cpu_count())


class Tree:
    """The build directory, and beside it the library with counters and the unit tests that use it."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.work = os.path.join(self.build, "branches")
        os.makedirs(self.work, exist_ok=True)
        with open(os.path.join(self.build, "compile_commands.json"), encoding="utf-8") as commands:
            entries = json.load(commands)
        self.core = {}
        self.tests = {}
        self.seconds = {}
        for entry in entries:
            path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), TOP)
            if path.startswith("src/core/"):
                self.core.setdefault(path, entry)
            elif path.startswith("tests/unit/core/"):
                made = entry["output"].split("/")
                self.tests[os.path.basename(path)[:-2]] = os.path.join(made[0], made[1].removesuffix(".p"))
        self.newest_header = max(os.path.getmtime(os.path.join(where, name)) for where, _, names in
                                 os.walk(os.path.join(TOP, "src/core")) for name in names if name.endswith((".h", ".inc")))

    def compile(self, path, source=None, made=None):
        """Compiles a file of src/core with counters, unless its object is newer than the file and every header."""
        entry = self.core[path]
        if made is None:
            made = os.path.join(self.work, path.replace("/", "_") + ".o")
            if os.path.exists(made) and os.path.getmtime(made) > max(self.newest_header, os.path.getmtime(os.path.join(TOP, path))):
                return made
        words = shlex.split(entry["command"])
        flags = [w for w in words if w.startswith(("-I", "-D", "-std")) and "FORTIFY" not in w]
        must(["clang", *flags, "-g0", "-O1", "-fPIC", "-w", *COUNTERS, "-c", source or entry["file"], "-o", made], entry["directory"])
        return made

    def link_library(self, objects, folder):
        made = os.path.join(folder, "libbellwether-core.so")
        must(["clang", "-shared", "-Wl,-soname,libbellwether-core.so", "-fprofile-instr-generate", "-o", made, *objects, "-lm"])
        return made

    def build_library(self):
        with pool() as workers:
            self.objects = dict(zip(self.core, workers.map(self.compile, self.core)))
        self.library = self.link_library(self.objects.values(), self.work)

    def link_test(self, name):
        """Links a unit test with the library, unless it was linked since BUILD made it."""
        made = os.path.join(self.work, name)
        target = self.tests[name]
        if os.path.exists(made) and os.path.getmtime(made) > os.path.getmtime(os.path.join(self.build, target)):
            return made
        said = must(["ninja", "-C", self.build, "-t", "commands", "-s", target])
        words = shlex.split([l for l in said.splitlines() if l and not l.startswith("ninja:")][-1].split(" && ")[0])
        words[words.index("-o") + 1] = made
        archive = "src/core/libbellwether-core.a"
        if archive not in words:
            raise Trouble(f"{target} is not linked with {archive}")
        words[words.index(archive)] = self.library
        must(["clang", *words[1:]], self.build)
        return made

    def run_test(self, name):
        """Runs a unit test of the current tree; its counters are added up in NAME.profdata."""
        raw = os.path.join(self.work, name + ".profraw")
        environment = {**os.environ, "LLVM_PROFILE_FILE": raw, "LD_LIBRARY_PATH": self.work}
        program = self.link_test(name)
        started = time.monotonic()
        status, said = run([program], env=environment)
        self.seconds[name] = time.monotonic() - started
        if status != 0:
            raise Trouble(f"unit test {name} failed:\n{said}")
        if not os.path.exists(raw):
            return None  # the test uses only the simulator
        data = os.path.join(self.work, name + ".profdata")
        must(["llvm-profdata", "merge", "-sparse", raw, "-o", data])
        os.unlink(raw)
        return data

    def measure(self):
        """Runs all unit tests and returns the counts of every branch."""
        self.build_library()
        with pool() as workers:
            parts = list(workers.map(self.run_test, sorted(self.tests)))
        total = os.path.join(self.work, "all.profdata")
        must(["llvm-profdata", "merge", "-sparse", *(p for p in parts if p), "-o", total])
        return self.read_branches(total)

    def read_branches(self, data):
        said = must(["llvm-cov", "export", "-format=text", "-skip-expansions", self.library, f"-instr-profile={data}"])
        found = {}
        for function in json.loads(said)["data"][0]["functions"]:
            for line, column, to_line, to_column, yes, no, file, _, _ in function["branches"]:
                path = os.path.relpath(os.path.join(self.build, function["filenames"][file]), TOP)
                counts = found.setdefault(path, {}).setdefault((line, column, to_line, to_column), [0, 0])
                counts[0] += yes
                counts[1] += no
        return found


def closing(text, at):
    """Returns the position of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "({[") - (text[i] in ")}]")
        if depth == 0:
            return i
    raise Trouble("unbalanced brackets")


def enclosing_if(text, at):
    """Returns where the condition of the `if` around `at` begins and ends, if there is one in the same statement."""
    depth = 0
    for i in range(at - 1, -1, -1):
        depth += (text[i] in ")]") - (text[i] in "([")
        if depth < 0 and re.search(r"\bif $", text[:i][-4:]):
            return i, closing(text, i)
        if text[i] in ";{}":
            return None
    return None


def statement_end(text, at):
    """Returns the position of the semicolon or brace that ends the statement at `at`."""
    while text[at] not in ";{":
        at = closing(text, at) + 1 if text[at] in "([" else at + 1
    return closing(text, at) if text[at] == "{" else at


def bug_spans(text):
    """Yields the parts of a file that run only if a planted bug is on."""
    for bug in re.finditer(r"(!?)\bBW_BUG\(\w+\)", text):
        yield bug.start(), bug.end()
        end = bug.end()
        if re.match(r"\s*\|\|" if bug.group(1) else r"\s*&&", text[end:]):  # the operands to the right
            end = end + 4
            while text[end] not in ");?|&":
                end = closing(text, end) + 1 if text[end] == "(" else end + 1
            yield bug.start(), end
        if bug.group(1):
            continue
        condition = enclosing_if(text, bug.start())
        if not condition or "||" in text[condition[0]:condition[1]] or "?" in text[condition[0]:condition[1]]:
            continue
        yield condition
        body = condition[1] + 1
        first = body + re.match(r"\s*", text[body:]).end()
        yield first, statement_end(text, first)


class Source:
    """A file of src/core, with the parts that are not counted."""

    def __init__(self, path):
        self.path = path
        with open(os.path.join(TOP, path), encoding="latin-1") as file:  # one character per byte: clang's columns are bytes
            self.text = file.read()
        self.starts = [0]
        for line in self.text.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.excluded = [(m.start(), closing(self.text, m.end() - 1)) for m in re.finditer(r"\bBW_(ASSERT|ALWAYS|NEVER)\(", self.text)]
        self.excluded += bug_spans(self.text)
        self.excluded += [(m.end(), closing(self.text, m.end() - 1)) for m in re.finditer(r"\bswitch \(", self.text)]

    def place(self, region):
        return self.starts[region[0] - 1] + region[1] - 1, self.starts[region[2] - 1] + region[3] - 1

    def counts(self, region):
        begin = self.place(region)[0]
        return not self.path.endswith("base/assert.h") and not any(a <= begin <= b for a, b in self.excluded)

    def quote(self, region):
        begin, end = self.place(region)
        return " ".join(self.text[begin:end].split())

    def is_condition(self, region):
        return not re.match(r"(case|default)\b", self.quote(region))


def summarise(found, missing):
    """Prints the coverage per file, and the branches that no test takes. Returns how many branches there are and were taken."""
    print(f"{'file':46} branches  taken       %")
    totals = [0, 0]
    for path in sorted(found):
        source = Source(path)
        counted = {region: counts for region, counts in sorted(found[path].items()) if source.counts(region)}
        if not counted:
            continue
        taken = sum((yes > 0) + (no > 0) for yes, no in counted.values())
        totals = [totals[0] + 2 * len(counted), totals[1] + taken]
        print(f"{path:46} {2 * len(counted):8} {taken:6}  {50 * taken / len(counted):6.2f}")
        for region, (yes, no) in counted.items() if missing else ():
            if not (yes and no):
                never = "never evaluated" if not (yes or no) else "never true" if not yes else "never false"
                print(f"  {path}:{region[0]}:{region[1]}: {never}: {source.quote(region)}")
    print(f"{'total':46} {totals[0]:8} {totals[1]:6}  {100 * totals[1] / totals[0]:6.2f}")
    print("not counted: conditions in BW_ASSERT, BW_ALWAYS, BW_NEVER and behind BW_BUG, and the missing default of a complete switch")
    return totals


def read_figure():
    with open(FIGURE, encoding="utf-8") as lines:
        return float([line for line in lines if not line.startswith("#")][0])


class Negation:
    """Negates conditions of src/core and runs the unit tests that evaluate them."""

    def __init__(self, tree, found):
        self.tree = tree
        self.found = found
        with pool() as workers:
            parts = {name: os.path.join(tree.work, name + ".profdata") for name in tree.seconds}
            names = sorted((n for n in parts if os.path.exists(parts[n])), key=tree.seconds.get)
            self.evaluated = dict(zip(names, workers.map(tree.read_branches, (parts[n] for n in names))))

    def conditions(self, wanted):
        """Yields the counted conditions of FILE or FILE:LINE that were both true and false."""
        path, _, line = wanted.partition(":")
        source = Source(path)
        for region, (yes, no) in sorted(self.found.get(path, {}).items()):
            if yes and no and source.counts(region) and source.is_condition(region) and line in ("", str(region[0])):
                yield source, region

    def negate(self, source, region):
        """Returns the name of the first unit test that fails when the condition is negated, or None."""
        begin, end = source.place(region)
        changed = source.text[:begin] + "!(" + source.text[begin:end] + ")" + source.text[end:]
        with tempfile.TemporaryDirectory(dir=self.tree.work) as folder:
            copy = os.path.join(folder, os.path.basename(source.path))
            with open(copy, "w", encoding="latin-1") as file:
                file.write(changed)
            made = self.tree.compile(source.path, copy, os.path.join(folder, "changed.o"))
            objects = {**self.tree.objects, source.path: made}
            self.tree.link_library(objects.values(), folder)
            environment = {**os.environ, "LLVM_PROFILE_FILE": os.path.join(folder, "raw"), "LD_LIBRARY_PATH": folder}
            for name, counts in self.evaluated.items():
                if any(counts.get(source.path, {}).get(region, [0, 0])):
                    limit = NEGATED_TIMEOUT + 20 * self.tree.seconds[name]
                    if run([os.path.join(self.tree.work, name)], env=environment, timeout=limit)[0] != 0:
                        return name
        return None

    def judge(self, wanted):
        """Negates one condition after another. Prints each one that no test notices, and the counts. Returns their number."""
        places = [place for one in wanted for place in self.conditions(one)]
        missed = 0
        with pool() as workers:
            for (source, region), name in zip(places, workers.map(lambda place: self.negate(*place), places)):
                missed += not name
                if not name:
                    print(f"not noticed: {source.path}:{region[0]}:{region[1]}: {source.quote(region)}", flush=True)
        print(f"{len(places)} conditions negated, {len(places) - missed} noticed by a unit test")
        return missed


def report_tap(tree):
    """Prints two results as TAP."""
    if not shutil.which("llvm-cov") or not shutil.which("clang"):
        print("ok 1 - branch coverage of src/core # SKIP no llvm-cov\n1..1")
        return 0
    least = read_figure()
    found = tree.measure()
    print("ok 1 - the unit tests of src/core pass when built with clang and counters")
    with contextlib.redirect_stdout(io.StringIO()) as table:
        branches, taken = summarise(found, True)
    reached = 100 * taken / branches
    print(f"{'ok' if reached >= least else 'not ok'} 2 - branch coverage of src/core is at least {least:.2f} %")
    print("\n".join("# " + line for line in ([f"it is {reached:.2f} %"] if reached >= least else table.getvalue().splitlines())))
    print("1..2")
    return reached < least


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    options = {a for a in sys.argv[1:] if a.startswith("--")}
    negate = "--negate" in options
    if not options <= {"--tap", "--missing", "--negate"} or not arguments or (len(arguments) > 1) != negate:
        sys.exit("usage: branches.py [--tap] [--missing] BUILD\n       branches.py --negate BUILD FILE[:LINE]...")
    tree = Tree(arguments[0])
    try:
        if "--tap" in options:
            sys.exit(report_tap(tree))
        found = tree.measure()
        if negate:
            sys.exit(Negation(tree, found).judge(arguments[1:]) > 0)
        branches, taken = summarise(found, "--missing" in options)
        least = read_figure()
        if 100 * taken / branches < least:
            sys.exit(f"below the figure in tests/branches.txt: {least:.2f}")
    except Trouble as trouble:
        lines = str(trouble).splitlines()
        print("\n".join([f"not ok 1 - {lines[0]}", *("# " + line for line in lines[1:]), "1..1"]) if "--tap" in options else trouble)
        sys.exit(1)


if __name__ == "__main__":
    main()
