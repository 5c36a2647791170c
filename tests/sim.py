#!/usr/bin/env python3
"""Runs the checks of `bellwether sim` as tests. Prints TAP.

    sim.py check BELLWETHER     measures the published figures with a fraction of the runs
    sim.py storm BELLWETHER     runs every algorithm under random faults, twice to compare the traces;
                                then with many elections, spread over the members

TEST_SIZE=small reduces the sizes further, for builds with sanitizers.
"""
import json
import os
import subprocess
import sys

SMALL = os.environ.get("TEST_SIZE") == "small"
results = []


def report(name, problem=None, skip=None):
    results.append(problem is not None)
    print(f"{'not ok' if problem else 'ok'} {len(results)} - {name}{' # SKIP ' + skip if skip else ''}")
    for line in (problem or "").splitlines():
        print(f"# {line}")


def ask(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        report(" ".join(words[1:]), f"exit {done.returncode}, no JSON\n" + done.stderr.decode(errors="replace"))
        return None


def row_text(row):
    return f"{row['what']}: expected {row['expected']} ({row['relation']}, {row['tolerance']}), measured {row['measured']}"


def run_checks(bellwether):
    answer = ask(bellwether, "sim", "check", "--json", "--size", "0.002" if SMALL else "0.05")
    for check in answer["checks"] if answer else []:
        name = f"check {check['number']} {check['name']}"
        if check["waits_for"]:
            report(name, skip="waits for " + check["waits_for"])
            continue
        wrong = [row_text(row) for row in check["rows"] if not row["pass"]]
        good = not wrong and check["rows"] and check["verdict"] == "passed"
        report(name, None if good else "\n".join(wrong) or check["verdict"])


def report_storms(answer, what):
    for row in answer["algorithms"]:
        bad = [f"seed {f['seed']}: {f['what']}\n{f['replay']}" for f in answer["failures"] if f["algorithm"] == row["algorithm"]]
        wrong = "\n".join(bad) if row["violations"] else None
        report(f"storm {row['algorithm']}, {what}", wrong if row["seeds"] else "no seed was run")


def run_shard_storms(bellwether):
    seeds = "1..1" if SMALL else "1..8"
    answer = ask(bellwether, "sim", "storm", "--algorithm", "all", "--shards", "16", "--seeds", seeds, "--json")
    if answer:
        report_storms(answer, f"16 shards, seeds {seeds}")


def run_storms(bellwether):
    seeds = "1..10" if SMALL else "1..500"
    words = (bellwether, "sim", "storm", "--algorithm", "all", "--seeds", seeds, "--json")
    first, second = ask(*words), None if SMALL else ask(*words)
    if not first:
        return
    report_storms(first, f"seeds {seeds}")
    if second:
        pairs = zip(first["algorithms"], second["algorithms"])
        other = [a["algorithm"] for a, b in pairs if a["trace_hash"] != b["trace_hash"]]
        report("the same seeds give the same traces", " ".join(other) if other else None)
    run_shard_storms(bellwether)


def main():
    kind, bellwether = sys.argv[1:3]
    {"check": run_checks, "storm": run_storms}[kind](bellwether)
    print(f"1..{len(results)}")
    sys.exit(any(results) or not results)


if __name__ == "__main__":
    main()
