#!/usr/bin/env python3
"""Counts single tests: `count.py meson TESTLOG.json` or `count.py tap FILE`; `count.py why TESTLOG.json` shows failures.

The first two print `passed failed skipped`. A program that prints TAP counts once per line; a program that only exits counts once.
A program that crashed or timed out counts as one failure, in addition to the lines that it printed.
"""
import json
import re
import sys

LINE = re.compile(r"^(not )?ok\b[^#\n]*(#\s*SKIP)?", re.IGNORECASE)


def count_tap(text):
    passed = failed = skipped = 0
    for line in text.splitlines():
        match = LINE.match(line)
        if not match:
            continue
        if match.group(1):
            failed += 1
        elif match.group(2):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count_meson(path):
    total = [0, 0, 0]
    with open(path, encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            counts = count_tap(test.get("stdout") or "")
            good = test["result"] in ("OK", "EXPECTEDFAIL")
            if sum(counts) == 0:
                counts = (1, 0, 0) if good else (0, 0, 1) if test["result"] == "SKIP" else (0, 1, 0)
            elif not good and test["result"] != "SKIP" and counts[1] == 0:
                counts = (counts[0], 1, counts[2])
            total = [a + b for a, b in zip(total, counts)]
    return total


def failing_lines(text):
    """Yields the failures in TAP output: each `not ok` line with the comments after it."""
    shown = False
    for line in text.splitlines():
        if line.startswith("#"):
            if shown:
                yield line
        else:
            shown = line.startswith("not ok")
            if shown:
                yield line


def print_failures(path):
    with open(path, encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            if test["result"] in ("OK", "EXPECTEDFAIL", "SKIP"):
                continue
            print(f"{test['name']}: {test['result']}")
            said = list(failing_lines(test.get("stdout") or ""))
            said += (test.get("stderr") or "").splitlines()[-40:]
            print("\n".join("    " + text for text in said or (test.get("stdout") or "").splitlines()[-40:]))


def main():
    kind, path = sys.argv[1:3]
    if kind == "why":
        print_failures(path)
        return
    if kind == "meson":
        counts = count_meson(path)
    else:
        with open(path, encoding="utf-8", errors="replace") as tap:
            counts = count_tap(tap.read())
    print(*counts)


if __name__ == "__main__":
    main()
