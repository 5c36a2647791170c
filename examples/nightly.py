#!/usr/bin/env python3
"""A job that runs on one instance at a time, and stops in time when its leadership is lost.

    nightly.py STORE FILE ROUNDS

Start it as often as you like. Each instance that is elected appends ROUNDS lines to FILE, behind a
guard that rejects the writes of a former leader, and hands over. SIGTERM ends it cleanly."""
import signal
import sys

import bellwether


def main(store: str, path: str, rounds: int) -> int:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))  # leaves the `with` block
    try:
        with bellwether.Leader(store, "nightly", ttl=30) as lead, bellwether.Guard(path) as guard:
            for number in range(1, rounds + 1):
                lead.check()  # raises LeadershipLost
                # hold() raises StaleToken if a newer leader has written
                with guard.hold(lead.token), open(path, "a", encoding="utf-8") as file:
                    file.write(f"token {lead.token} round {number}\n")
                lead.lost.wait(0.02)  # the pause ends early when the leadership does
    except bellwether.LeadershipLost as lost:
        print(f"stopped: {lost}", file=sys.stderr)
        return 76
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
