"""A server under attack: its process, its memory, and the canary beside it."""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REPORT = re.compile(r"ERROR: \w+Sanitizer|runtime error:|Assertion|assertion|SUMMARY: ")
MB = 1e6


def resident(pid):
    """(resident now, highest since the last reset_peak) in bytes."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        text = file.read()
    return tuple(1024 * int(re.search(rf"{name}:\s+(\d+)", text).group(1)) for name in ("VmRSS", "VmHWM"))


def reset_peak(pid):
    try:
        with open(f"/proc/{pid}/clear_refs", "w", encoding="utf-8") as file:
            file.write("5")
    except OSError:
        pass


def quick_directory():
    """Memory instead of a disk, so that a slow disk is not taken for a slow server."""
    if os.access("/dev/shm", os.W_OK) and os.statvfs("/dev/shm").f_bavail * os.statvfs("/dev/shm").f_frsize > 2 << 30:
        return "/dev/shm"
    return os.environ.get("TMPDIR", "/tmp")


def sanitizer_environment():
    """A small quarantine, so that memory that is in use can be told from memory that was freed."""
    more = "quarantine_size_mb=8:malloc_context_size=12:allocator_release_to_os_interval_ms=100"
    return {"ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), more])),
            "UBSAN_OPTIONS": os.environ.get("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")}


class CanaryProcess:
    def __init__(self, port, pid, kind=()):
        words = [sys.executable, os.path.join(HERE, "canary.py"), *kind, str(port), str(pid)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.bad, self.sum, self.ready = [], {}, threading.Event()
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()
        assert self.ready.wait(60), "the canary did not start"

    def listen(self):
        for line in self.process.stdout:
            said = json.loads(line)
            if "sum" in said:
                self.sum = said["sum"]
            elif "ready" in said:
                self.ready.set()
            else:
                self.bad.append(said)
        self.ready.set()

    def close(self):
        """Ends it; it finishes the operation that it has begun."""
        self.process.stdin.close()
        try:
            self.process.wait(130)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.thread.join(5)
        return self.sum


class Target:
    """Wraps a Server of store_lib that serves `port`."""

    def __init__(self, server, metrics=None):
        self.server, self.metrics = server, metrics
        self.pid = server.process.pid
        self.base = resident(self.pid)[0]

    def log(self):
        with open(self.server.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def fault(self):
        """Why the server failed; None: it did not."""
        if self.server.process.poll() is not None:
            return f"the server ended with {self.server.process.returncode}\n{self.log()[-6000:]}"
        return None

    def is_alive(self):
        return self.server.process.poll() is None

    def stop(self):
        """Ends the server in order; returns what a sanitizer or an assertion reported."""
        if self.is_alive():
            self.server.process.send_signal(signal.SIGTERM)
            try:
                self.server.process.wait(60)
            except subprocess.TimeoutExpired:
                return "the server did not end after SIGTERM"
        code, text = self.server.process.returncode, self.log()
        found = REPORT.search(text)
        if code != 0 or found:
            return f"the server ended with {code}\n{text[found.start() if found else -6000:][:6000]}"
        return None


def wait_until(what, seconds):
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
