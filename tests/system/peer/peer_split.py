#!/usr/bin/env python3
"""A split brain among peers is detected and repaired: five hosts (network namespaces), an algorithm without a quorum, and a
partition in which both sides have a leader. When the partition heals, the peers report the split by event and metric, and
--on-split-brain recovers in five steps. No work runs while the two sides are compared and reconciled.

    peer_split.py BELLWETHER WITNESS RELAY"""
import os
import sys
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from netns_lib import why_not
from peer_matrix import TIMEOUT_S, Peers
from run_lib import Tap, install_script, text_of, wait_for


def script(peers, name, text):
    return install_script(os.path.join(peers.dir, name), text)


def hooks(peers):
    """Each side is a file. No work may run while the hooks read them; the files of the witness show that."""
    for side in ("one", "other"):
        with open(os.path.join(peers.dir, "side-" + side), "w", encoding="utf-8") as file:
            file.write(side + "\n")
    compare = script(peers, "compare", f"cd {peers.dir}\nfor s in one other; do echo $s 0 $(cksum < side-$s | cut -d' ' -f1); done\n")
    reconcile = script(peers, "reconcile", f"cd {peers.dir}\ncp side-one side-other\necho reconciled >> told\n")
    joins = ",".join(peers.address(n) for n in peers.net.hosts)
    # While the partition heals, leadership of the small side may move: each leader detects a split, but only one recovers.
    return script(peers, "recover", f"mkdir {peers.dir}/once || exit 0\n{peers.bellwether} peer recover --join {joins} --key-file {peers.keys} --timeout 500ms "
                  f"--on-compare {compare} --on-reconcile {reconcile} --wait 60s > {peers.dir}/recovery.out 2>&1\n")


def split_is_detected_and_repaired(programs):
    with Peers(programs, "bully", False) as peers:
        peers.more = ["--on-split-brain", hooks(peers)]
        peers.start_all()
        peers.await_one()
        peers.net.split([1, 2], [3, 4, 5])
        peers.await_running(lambda running: len(running) == 2, "both sides to work")
        peers.net.heal()
        out = os.path.join(peers.dir, "recovery.out")

        def over():
            return "5 resume" in text_of(out)
        over.__doc__ = "the end of the recovery"
        wait_for(over, 2 * TIMEOUT_S, 0.1)
        steps = [line.split()[:2] for line in text_of(out).splitlines()]
        assert steps == [["1", "stop"], ["2", "compare"], ["3", "reconcile"], ["2", "compare"], ["4", "re-elect"], ["5", "resume"]], \
            text_of(out)
        assert "they differ" in text_of(out) and "all equal" in text_of(out), text_of(out)
        assert text_of(os.path.join(peers.dir, "told")) == "reconciled\n"
        assert any("split-brain" in peers.events(n) for n in (1, 2)), "the lower-numbered leader did not take the recovery on"
        seen = [n for n in peers.net.hosts if {"split-brain", "split-seen"} & set(peers.events(n))]
        assert len(seen) >= 2, f"only {seen} heard of the split"
        for number in peers.net.hosts:
            assert "held" in peers.events(number) and "resumed" in peers.events(number), f"peer {number} was not held"
        peers.await_one()


def main():
    programs = [os.path.abspath(p) for p in sys.argv[1:4]]
    tap, reason = Tap(), why_not()
    for test in (split_is_detected_and_repaired,):
        if reason:
            tap.skip(test.__name__, reason)
            continue
        try:
            test(programs)
            tap.result(True, test.__name__)
        except Exception:  # the other cases still run
            tap.result(False, test.__name__, traceback.format_exc())
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
