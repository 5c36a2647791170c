#!/usr/bin/env python3
"""Every duration works alone.

The test reads the commands and their duration options from --help, so it covers options that are added later. Each option is given alone,
with values from 1 ms to an hour. Bellwether may refuse a value only with a value that it accepts, and the test then tries that value. Pairs
of options are tested the same way: a refusal begins with the values that would do.

  single_options.py BELLWETHER [TEST...]"""
import concurrent.futures
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import HANG_S, free_ports  # noqa: E402

VALUES = ["1ms", "20ms", "50ms", "150ms", "200ms", "1s", "2s", "3s", "5s", "7.5s", "20s", "1m", "1h"]
BRIEF = ["1ms", "50ms", "150ms"]  # for the time that a command waits for a server that does not exist
SHARES = ["0%", "0.5%", "5%", "20%", "30%"]
WAY = re.compile(r"--([a-z-]+) ([0-9][^ ]*) or (?:more|less)")
SHORT = VALUES[:3]  # may be below the least value of an option
WORKERS = 6
REPORTED = [(("run",), {"ttl": "2s"}), (("run",), {"ttl": "3s"}), (("run",), {"kill-after": "5s"}), (("run",), {"drift": "20%"}),
            (("peer",), {"ttl": "1s"}), (("peer",), {"period": "1s"}), (("peer",), {"detect": "150ms"}),
            (("serve",), {"detect": "50ms"}), (("serve",), {"heartbeat": "200ms"})]  # users reported that these were refused


class Commands:
    """All commands of the program, and how to start each of them."""

    def __init__(self, bellwether, directory):
        self.bellwether = bellwether
        self.directory = directory
        self.numbers = itertools.count(1)
        self.worker = threading.local()  # workers run at once: each has its own port

    def help_of(self, command):
        return subprocess.run([self.bellwether, *command, "--help"], capture_output=True, text=True, timeout=HANG_S, check=True).stdout

    def all(self, command=()):
        """The commands below `command` that have options."""
        text = self.help_of(command)
        subs = re.search(r"^commands:\n((?:  .*\n)+)", text, re.M)
        if not subs or re.search(r"^  --", text, re.M):
            yield command
        names = re.findall(r"^  ([a-z]+) ", subs.group(1), re.M) if subs else []
        for name in names:
            if name == "sim":  # an experiment: its settings are taken as they are
                continue
            yield from self.all((*command, name))

    def options(self, command, form):
        return re.findall(rf"^  --([a-z-]+) {form} ", self.help_of(command), re.M)

    def base(self, command):
        """Arguments with which the command works, and the values that its durations can have."""
        number = next(self.numbers)
        path = os.path.join(self.directory, str(number))
        store = ["--store", f"sqlite:{self.directory}/store.db"]
        election = [*store, "--election", f"e{number}"]
        nobody = ["--join", f"127.0.0.1:{self.port}"]
        bases = {
            "run": (election, VALUES),
            "peer": (["--id", "1", "--expect", "1", "--listen", f"127.0.0.1:{self.port}", "--data", path], VALUES),
            "serve": (["--listen", f"127.0.0.1:{self.port}", "--data", path], VALUES),
            "status": (election, VALUES), "candidates": (election, VALUES), "resign": (election, VALUES),
            "observe": ([*election, "--once"], VALUES), "transfer": ([*election, "--to", "x"], VALUES),
            "drain": (["--drain-dir", path], VALUES), "undrain": (["--drain-dir", path], VALUES),
            "recover": ([*store, "--election", "kept"], ["110ms", *VALUES[3:]]),
            "store check": ([*store], VALUES), "store init": ([*store], VALUES),
            "peer members": (nobody, BRIEF), "peer status": (nobody, BRIEF), "peer resign": (nobody, BRIEF),
            "peer transfer": (["1", *nobody], BRIEF), "peer remove": (["1", *nobody], BRIEF),
            "peer recover": ([*nobody, "--on-compare", "true"], BRIEF),
            "guard file": ([path, "--token", "1"], VALUES),
        }
        name = " ".join(command)
        if name.startswith("cluster"):
            operand = {"cluster add": [f"127.0.0.1:{self.port}"], "cluster snapshot": [path], "cluster restore": [path]}
            return [*operand.get(name, []), *([] if "status" in name or name in operand else ["1"]),
                    "--endpoints", f"127.0.0.1:{self.port}"], BRIEF
        assert name in bases, f"bellwether {name} has duration options: add its arguments to this test"
        return bases[name]

    @property
    def port(self):
        if not hasattr(self.worker, "port"):
            self.worker.port = free_ports(1)[0]
        return self.worker.port

    def refusal(self, command, given):
        """Starts the command with the given options; returns the line that refuses them, or None if they are accepted. A service accepts
        them when it prints its first line."""
        argv = [self.bellwether, *command, *self.base(command)[0], *given]
        if command in (("run",), ("peer",)):
            argv += ["--log", "json", "--", "true"]
        if command == ("guard", "file"):
            argv += ["--", "true"]
        env = {**os.environ, "BELLWETHER_STORE": f"sqlite:{self.directory}/store.db"}
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as process:
            line = process.stdout.readline() if command in (("peer",), ("serve",)) else ""
            if line.startswith("{") or line.startswith("bellwether serve: node"):
                process.send_signal(signal.SIGTERM)
            try:
                text = line + process.communicate(timeout=HANG_S)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        code = process.returncode
        late = command != ("run",) or "--wait" in given  # the store may be slower than a short --wait
        assert code in (0, 64) or (late and code not in (70, 134) and code > 0), f"{argv}: {code}: {text}"
        return text.strip() if code == 64 else None


def judge(commands, command, given):
    """The options are accepted, or the refusal begins with a value that is accepted in place of the given one."""
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    line = commands.refusal(command, words)
    if line is None:
        return True
    reason = line.partition(": ")[2]
    ways = WAY.findall(reason)
    assert reason.startswith("use --") and ways, f"bellwether {' '.join(command)} {words}: {line}"
    for name, value in ways:
        other = {**given, name: value}
        again = commands.refusal(command, [word for n, v in other.items() for word in (f"--{n}", v)])
        assert again is None, f"{words}: {line}\nbut {other} is refused too: {again}"
    return False


def judge_all(commands, cases):
    """Judges the cases in parallel; yields each with its verdict."""
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        yield from zip(cases, pool.map(lambda case: judge(commands, *case), cases))


def every_duration_works_alone(commands):
    cases = []
    for command in commands.all():
        names = commands.options(command, "D")
        values = commands.base(command)[1] if names else []
        cases += [(command, {name: value}) for name in names for value in values]
        if command in (("run",), ("peer",)):
            cases += [(command, {name: value}) for name in commands.options(command, "P") for value in SHARES]
    assert all((command, given) in cases for command, given in REPORTED)
    for (command, given), accepted in judge_all(commands, cases):
        short = set(given.values()) & set(SHORT)
        assert accepted or (short and (command, given) not in REPORTED), f"bellwether {' '.join(command)} {given} is refused"
    assert len(cases) > 300, len(cases)
    print(f"# {len(cases)} options alone")


def refused_pairs_begin_with_a_value_that_works(commands):
    rng = random.Random(int(os.environ.get("TEST_SEED", "15")))
    options = {"run": ["ttl", "kill-after", "renew", "drift", "clock-uncertainty"],
               "peer": ["ttl", "kill-after", "period", "detect", "latency", "drift"], "serve": ["heartbeat", "detect"]}
    cases = []
    for _ in range(150):
        command = rng.choice(["run", "run", "peer", "serve"])
        names = rng.sample(options[command], 2)
        cases.append(((command,), {name: rng.choice(SHARES if name == "drift" else VALUES) for name in names}))
    refused = sum(not accepted for _, accepted in judge_all(commands, cases))
    assert refused > 15, refused
    print(f"# {refused} of {len(cases)} pairs refused")


def peer_leads_and_works_with_each_option_alone(commands):
    """A value that is accepted also works: a peer with it is elected and runs its command."""
    given = [{name: value} for name, value in (("ttl", "200ms"), ("ttl", "1s"), ("period", "1s"), ("detect", "150ms"), ("latency", "200ms"),
                                               ("kill-after", "5s"), *(("drift", share) for share in SHARES))]

    def work(options):
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        argv = [commands.bellwether, "peer", *commands.base(("peer",))[0], *words, "--log", "json", "--", "echo", "worked"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=HANG_S, check=False)
        assert done.returncode == 0 and "worked" in done.stdout, f"{argv}: {done.returncode}: {done.stderr}"

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, given))


def main():
    bellwether = os.path.abspath(sys.argv[1])
    tests = [every_duration_works_alone, peer_leads_and_works_with_each_option_alone,
             refused_pairs_begin_with_a_value_that_works]
    chosen = [test for test in tests if not sys.argv[2:] or test.__name__ in sys.argv[2:]]
    failed = 0
    for number, test in enumerate(chosen, 1):
        with tempfile.TemporaryDirectory(prefix="bellwether-single-") as directory:
            try:
                test(Commands(bellwether, directory))
                print(f"ok {number} - {test.__name__}")
            except AssertionError as error:
                failed += 1
                print(f"not ok {number} - {test.__name__}\n# " + str(error).replace("\n", "\n# "))
    print(f"1..{len(chosen)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
