#!/usr/bin/env python3
"""Runs the tests of every part that has a second thread under ThreadSanitizer.

    tsan.py [--long] [--build-only] [DIRECTORY]      DIRECTORY: its build directory (default: build-tsan)

Threads of Bellwether: the library's (src/lib), the worker of the SQLite store (src/store/sqlite), the log's writer
(src/serve/wal), the writer of the local history (src/run/history), and libuv's pool, which resolves names, hashes
passwords, and writes files for `serve`. The program and its modules are compiled with the sanitizer; libuv, SQLite and the other libraries are not. ThreadSanitizer sees their locks,
because it replaces pthread's functions, and it orders what passes through descriptors, as uv_async_send does. So no report
has to be suppressed today; a suppression would need a file with a reason per line.

Prints TAP: one line per test program. A data race fails the program that has it; a program that meson did not run fails."""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Test, and the target that it needs. The short form takes seconds; the long form adds the rest.
SHORT = [("lib_close", "tests/system-lib_close"), ("lib_events", "tests/system-lib_events"), ("lib_fork", "tests/system-lib_fork"),
         ("lib_lead", "tests/system-lib_lead"), ("lib_structs", "tests/system-lib_structs"), ("lib_task", "tests/system-lib_task"),
         ("store_asker", "tests/system-store_asker"), ("store_sqlite_guardian", "tests/system-store_sqlite_guardian"),
         ("store_sqlite_open", "tests/system-store_sqlite_open"), ("store_sqlite_order", "tests/system-store_sqlite_order"),
         ("run_history_log", "tests/unit-run_history_log"), ("fence_file", "tests/system-fence_file"), ("fence_sqlite", "tests/system-fence_sqlite")]
LONG = [("lib_shortage", "all"), ("look_commands", "all"), ("net_grpc", "all"), ("net_peers", "all"), ("net_tls", "all"), ("peer_disk", "all"),
        ("peer_node_stories", "all"), ("peer_processes", "all"), ("run_contain", "all"), ("run_faults", "all"), ("serve_cluster", "all"),
        ("serve_replica", "all"), ("serve_users", "all"), ("serve_wal", "all"), ("store_http", "all"),
        ("store_sqlite_conformance", "all"), ("store_sqlite_faults", "all")]
PATIENCE = "10"  # the sanitizer slows a program down by this factor


def build(directory, tests):
    """Compiles what the tests need; returns what went wrong."""
    if not os.path.exists(os.path.join(directory, "build.ninja")):
        # gcc's -Wstringop-overflow is wrong about code that the sanitizer has changed
        done = subprocess.run(["meson", "setup", directory, "-Db_sanitize=thread", "-Db_lundef=false", "-Dwerror=false"],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stdout + done.stderr
    targets = sorted({target for _, target in tests})
    done = subprocess.run(["ninja", "-C", directory, *(["all"] if "all" in targets else targets)], capture_output=True, text=True, check=False)
    return done.stdout[-4000:] if done.returncode else ""


def run(directory, tests):
    """Runs the tests; returns meson's records."""
    log = os.path.join(directory, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.remove(log)
    # some tests fork while another thread runs
    options = "die_after_fork=0:second_deadlock_stack=1:exitcode=66:" + os.environ.get("TSAN_OPTIONS", "")
    subprocess.run(["meson", "test", "-C", directory, "--no-rebuild", "--timeout-multiplier", PATIENCE, *[name for name, _ in tests]],
                   env=dict(os.environ, TSAN_OPTIONS=options, TEST_SIZE="small"), stdout=subprocess.DEVNULL, check=False)
    if not os.path.exists(log):
        return []
    with open(log, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def record_of(name, records):
    """What meson recorded about a test. Two suites may have a test of this name: then a failed one counts first, a skipped one last."""
    found = [record for record in records if record["name"].split("/")[-1].strip() == name]
    ranks = {"SKIP": 2, "OK": 1}
    return min(found, key=lambda record: ranks.get(record["result"], 0), default={"result": "meson did not run this test"})


def print_tap(tests, records):
    """Prints one result for each test that was asked for, and returns the number of failures."""
    bad = 0
    for number, (name, _) in enumerate(tests, 1):
        record = record_of(name, records)
        if record["result"] == "SKIP":
            print(f"ok {number} - {name} # SKIP it skipped all its tests, so no data race could be found")
            continue
        good = record["result"] == "OK"
        bad += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name} has no data race")
        if not good:
            lines = (record.get("stdout") or "").splitlines() + (record.get("stderr") or "").splitlines()
            reports = [i for i, line in enumerate(lines) if "WARNING: ThreadSanitizer" in line]
            shown = lines[reports[0]:reports[0] + 60] if reports else lines[-40:]
            print("\n".join("# " + line for line in [record["result"], *shown]))
    print(f"1..{len(tests)}")
    return bad


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    directory = os.path.abspath(words[0] if words else os.path.join(HERE, "..", "build-tsan"))
    tests = SHORT + (LONG if "--long" in sys.argv else [])
    why = build(directory, tests)
    if why:
        print("not ok 1 - the build with ThreadSanitizer\n" + "\n".join("# " + line for line in why.splitlines()) + "\n1..1")
        return 1
    if "--build-only" in sys.argv:
        return 0
    return 1 if print_tap(tests, run(directory, tests)) else 0


if __name__ == "__main__":
    os.chdir(os.path.join(HERE, ".."))
    sys.exit(main())
