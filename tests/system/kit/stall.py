"""Measures how long the machine itself stood still, so that a test can tell a stalled machine from a defect.

Two measurements: One thread per CPU sleeps for 5 ms at a time and notes how late it wakes up. If it is late, the machine had no CPU
for it, nor for the programs under test. And the kernel counts how long a process was runnable, but waited for a CPU. A test may
repeat the action that it judges only after it has measured such a stall:

    stall.judge(lambda number: leads_for_a_second(number), 0.5)

stall.h does the same for C. Not measured: a slow disk."""
import os
import threading
import time

TICK_S = 0.005
LEAST_S = 0.02  # shorter stalls are not kept
KEPT_MAX = 10000
ATTEMPTS = 8  # of an action that counts only if the machine did not stall

_lock = threading.Lock()
_stalls = []  # (begin, end) of each stall, by time.monotonic()
_slept = {}   # CPU: when its thread last went to sleep


def _run(cpu):
    os.sched_setaffinity(threading.get_native_id(), {cpu})
    while True:
        _slept[cpu] = begun = time.monotonic()
        time.sleep(TICK_S)
        woke = time.monotonic()
        if woke - begun > TICK_S + LEAST_S:
            with _lock:
                _stalls.append((begun + TICK_S, woke))
                del _stalls[:-KEPT_MAX]


def waited(pids):
    """How long the threads of each process have waited for a CPU since their start, in seconds, as the kernel counts it."""
    found = {}
    for pid in pids:
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for task in tasks:
            try:
                with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as file:
                    found[task] = int(file.read().split()[1]) / 1e9
            except (OSError, IndexError):
                pass
    return found


class Watch:
    """The measurement of one action, from now on. `pids`: processes that must not wait for a CPU meanwhile."""

    def __init__(self, pids=()):
        pids = list(pids)
        with _lock:
            if not _slept:
                for cpu in os.sched_getaffinity(0):
                    _slept[cpu] = time.monotonic()
                    threading.Thread(target=_run, args=(cpu,), daemon=True).start()
        self.since, self.pids, self.waited = time.monotonic(), pids, waited(pids)

    def longest(self):
        """The longest stall, or the longest time that a thread of the processes waited for a CPU in total, in seconds. A stall that
        has not ended counts, too: the calling thread may run again before the others do."""
        now = time.monotonic()
        with _lock:
            stalls = [end - max(begin, self.since) for begin, end in _stalls if end > self.since]
            stalls += [now - max(slept + TICK_S, self.since) for slept in _slept.values()]
        waits = [seconds - self.waited.get(task, 0.0) for task, seconds in waited(self.pids).items()]
        return max([0.0, *stalls, *waits])

    def excuses(self, seconds, what):
        """True if the machine stalled for at least this long. Prints then that `what` is not judged."""
        stalled = self.longest()
        if stalled < seconds:
            return False
        print(f"# the machine stalled for {stalled:.3f} s: {what} is not judged", flush=True)
        return True


class Violation(Exception):
    """Two commands ran at once, or a token did not grow. No stall excuses it, so it is no AssertionError."""


def judge_overlaps(lines, where=""):
    """Raises a Violation if the log of the witness has a command that ran beside another one."""
    overlaps = [line for line in lines if line[0] == "overlap"]
    if overlaps:
        raise Violation(f"{where}two commands at once: {overlaps}")


def judge_tokens(tokens, where=""):
    """Raises a Violation if a token is not larger than the one before."""
    if tokens != sorted(set(tokens)):
        raise Violation(f"{where}tokens do not grow: {tokens}")


def judge(action, seconds, what="this attempt", pids=()):
    """Runs action(number), number from 0, and returns its result. If it raises an AssertionError, repeats it only if the machine
    stalled for at least this long meanwhile, or one of the processes `pids` waited for a CPU for so long. A Violation is never
    repeated."""
    for number in range(ATTEMPTS):
        watch = Watch(pids)
        try:
            return action(number)
        except AssertionError:
            if not watch.excuses(seconds, what):
                raise
    raise AssertionError(f"the machine stalled for {seconds} s in each of {ATTEMPTS} attempts: {what} was never judged")
