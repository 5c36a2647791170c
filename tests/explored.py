#!/usr/bin/env python3
"""Counts the planted bugs that `bellwether sim explore` finds within its default bounds.

    explored.py BUILD [NAME...] [--seconds N] [--jobs N] [--delays N] [--links N] [--depth N]

A bug counts if its file is part of a target (TARGETS below). For each such bug the script links a copy of the program with
the bug, as tests/mutants.py does, and explores these targets one after the other until one finds a violation. No target
and no depth is chosen for a bug. An exploration of which one depth takes more CPU time than --seconds counts as cut off; other
programs on the machine do not change the result.

This is a measurement and not a test: bugs that no exploration finds have another catcher in tests/mutants.txt.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mutants  # noqa: E402

# Which files the modules of a target consist of: the beginning of their path.
TARGETS = {
    "guard": ["src/core/elect/quorum_guard", "src/core/base/members"],
    "raft": ["src/core/elect/raft/", "src/core/base/members"],
    "raft-reconfigure": ["src/core/elect/raft/", "src/core/base/members"],
    "session": ["src/core/replica/request_", "src/core/registry/", "src/core/elect/raft/"],
    "lease": ["src/core/lease/"],
    "found": ["src/core/peer/founding"],
    "found-return": ["src/core/peer/founding"],
    "guardian": ["src/core/guardian/"],
    "shards": ["src/core/shards/run_shards", "src/core/shards/assignment", "src/core/shards/shard_set"],
}
LINKED = ("guard", "raft", "raft-reconfigure", "session")  # targets with --links
VERDICTS = ("found", "not found", "cut off")


def targets_of(sources):
    return [t for t, starts in TARGETS.items() if any(s.startswith(start) for s in sources for start in starts)]


def explore(program, target, options):
    """Returns (verdict, text). Each depth is explored by new processes, which inherit the limit."""
    more = ["--delays", str(options.delays)] if options.delays else []
    more += ["--links", str(options.links)] if options.links and target in LINKED else []
    more += ["--depth", str(options.depth)] if options.depth else []
    done = subprocess.run(["sh", "-c", f'ulimit -t {options.seconds}; exec "$@"', "sh", program, "sim", "explore", target, "--jobs", "1", "--json",
                           "--memory", "3G", *more], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 70: with this bug a scripted beginning is impossible
        return "not found", f"{target}: exit code {done.returncode}: {done.stderr[:120].strip()}"
    result = json.loads(done.stdout.splitlines()[0])
    if done.returncode == 1:
        return "found", f"{target}: {len(result['trace'])} actions, {result['cpu_seconds']:.1f} s: {result['violation']}"
    if not result["complete"]:
        return "cut off", f"{target}: depth {result['depth']} within {options.seconds} s of CPU time"
    return "not found", f"{target}: nothing"


def judge(tree, name, sources, options):
    """Returns (name, verdict, text)."""
    program = tree.link_mutant(name, sources, "bellwether")
    verdict, said = "not found", []
    try:
        for target in targets_of(sources):
            one, text = explore(program, target, options)
            if one == "found":
                return name, one, text
            verdict = one if one == "cut off" else verdict
            said.append(text)
    finally:
        os.unlink(program)
    return name, verdict, ", ".join(said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="build directory")
    parser.add_argument("names", nargs="*", help="planted bugs (default: all that a target contains)")
    parser.add_argument("--seconds", type=int, default=300, help="maximum CPU time of one depth (default: 300)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="explorations at the same time (default: one per core)")
    parser.add_argument("--delays", type=int, default=0, help="passed to sim explore (default: that of the target)")
    parser.add_argument("--links", type=int, default=0, help="passed to sim explore for targets that have it (default: that of the target)")
    parser.add_argument("--depth", type=int, default=0, help="passed to sim explore (default: that of the target)")
    options = parser.parse_args()
    uses, tree = mutants.find_uses(), mutants.Tree(options.build)
    unknown = set(options.names) - set(mutants.read_names())
    if unknown:
        sys.exit(f"explored.py: unknown planted bug {', '.join(sorted(unknown))}; see src/core/base/bugs.inc")
    pure = [n for n in mutants.read_names() if any(s.startswith("src/core/") for s in uses.get(n, []))]
    names = options.names or [n for n in pure if targets_of(uses[n])]
    counts = dict.fromkeys(VERDICTS, 0)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, verdict, text in pool.map(lambda n: judge(tree, n, uses.get(n, []), options), names):
            counts[verdict] += 1
            print(f"{verdict:9}  {name:42} {text}", flush=True)
    print(f"{len(names)} planted bugs: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}; "
          f"src/core has {len(pure)}, the tree {len(mutants.read_names())}")


if __name__ == "__main__":
    main()
