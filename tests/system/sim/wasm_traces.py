#!/usr/bin/env python3
"""Checks that native code and WebAssembly give the same traces, for every algorithm. Prints TAP.

    wasm_traces.py BUILD TRACE_HASHES [SEEDS]

Builds tests/tools/trace_hashes.c with the core and the simulator for WebAssembly and runs it with Node.js, the native
program beside it, over the same seeds (default: 1..12).
"""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "../../..")


def skip(reason):
    print(f"ok 1 - native and WebAssembly agree # SKIP {reason}")
    print("1..1")
    sys.exit(0)


def read(process):
    """Returns {algorithm: (runs, hash)}, or None after a failure."""
    out, problem = process.communicate()
    if process.returncode != 0:
        print(f"# exit {process.returncode}: {problem.decode(errors='replace').strip()}")
        return None
    rows = [line.split() for line in out.decode().splitlines()]
    return {name: (int(runs), digest) for name, runs, digest in rows}


def main():
    build, native = sys.argv[1:3]
    seeds = ["1", sys.argv[3] if len(sys.argv) > 3 else "12"]
    if not shutil.which("node"):
        skip("Node.js is not installed")
    made = subprocess.run([os.path.join(TOP, "web/build.py"), build, "trace-hashes.wasm"], stdout=sys.stderr, check=False)
    if made.returncode == 77:
        skip("no compiler for WebAssembly")
    if made.returncode != 0:
        print("not ok 1 - trace-hashes.wasm is built\n1..1")
        sys.exit(1)
    wasm = os.path.join(build, "playground.p/trace-hashes.wasm")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    commands = ([native, *seeds], ["node", os.path.join(HERE, "wasm_run.mjs"), wasm, *seeds])
    ours, theirs = [read(process) for process in [subprocess.Popen(words, **pipes) for words in commands]]
    failed, number = 0, 0
    for name in sorted({*(ours or {}), *(theirs or {})}):
        number += 1
        one, other = (ours or {}).get(name), (theirs or {}).get(name)
        good = one is not None and one == other
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}: {one and one[0]} hashes agree")
        if not good:
            print(f"# native {one}, WebAssembly {other}")
    good = number >= 14
    print(f"{'ok' if good else 'not ok'} {number + 1} - every algorithm was compared")
    print(f"1..{number + 1}")
    sys.exit(failed > 0 or not good)


if __name__ == "__main__":
    main()
