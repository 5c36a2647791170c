#!/usr/bin/env python3
"""Checks that docs/reference/requirements.md lists every capability, and that everything it names exists. Prints TAP.

    coverage.py BUILD

A row is `| id | what | status | tests | command | page |`. Status is `done` or `open: what is missing`. A done row has a
test, a command and a page. Tests are `unit/NAME`, `check/NAME` or paths. Commands are subcommands of build/bellwether that
its help lists. Pages are links relative to docs/. Every algorithm and detector must be documented, and every link must have
a target.
"""
import glob
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
IDS = [f"{letter}{n}" for letter, count in (("A", 10), ("B", 7), ("C", 11), ("D", 8), ("E", 6), ("F", 9))
       for n in range(1, count + 1)]
results = []


def check(name, problems):
    results.append(bool(problems))
    print(f"{'not ok' if problems else 'ok'} {len(results)} - {name}")
    for problem in problems:
        print(f"# {problem}")


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as text:
        return text.read()


def said(build, *words):
    done = subprocess.run([os.path.join(build, "bellwether"), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def rows():
    found = []
    for line in read("docs/reference/requirements.md").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and re.fullmatch(r"[A-F]\d+", cells[0]):
            found.append(cells)
    return found


def test_problem(name, units, checks):
    kind, _, rest = name.partition("/")
    if kind == "unit":
        there = rest in units and os.path.exists(os.path.join(TOP, "tests/unit", units[rest] + ".c"))
    elif kind == "check":
        there = rest in checks
    else:
        there = os.path.exists(os.path.join(TOP, name))
    return None if there else f"no test {name}"


def command_problem(build, command):
    """Returns a problem if the command or one of its --options is unknown."""
    words = command.split()
    if words[0] == "make":
        return None if re.search(rf"^{re.escape(words[1])}:", read("Makefile"), re.M) else f"no target {words[1]}"
    plain = [w for w in words[1:] if not w.startswith("--")]
    depth = next((i for i, w in enumerate(words[1:]) if w.startswith("--")), len(plain))
    path = words[1:1 + min(depth, 2)]
    status, help_text = said(build, *path, "--help")
    if words[0] != "bellwether" or status != 0:
        return f"`{command}`: no such command"
    unknown = [w for w in words if w.startswith("--") and not re.search(re.escape(w.split("=")[0]) + r"(?![\w-])", help_text)]
    return f"`{command}`: unknown {', '.join(unknown)}" if unknown else None


def links_of(path):
    for link in re.findall(r"\]\(([^)\s]+)\)", read(path)):
        if not re.match(r"[a-z]+:", link):
            yield link


def link_problem(page, link):
    target, _, anchor = link.partition("#")
    path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
    if not os.path.exists(os.path.join(TOP, path)):
        return f"{page}: {link} leads nowhere"
    if anchor and path.endswith(".md"):
        heads = [re.sub(r"[^\w -]", "", h.lower()).strip().replace(" ", "-")
                 for h in re.findall(r"^#+ +(.*)$", read(path), re.M)]
        if anchor not in heads:
            return f"{page}: {link} names no heading"
    return None


def pages():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=TOP,
                            stdout=subprocess.PIPE, check=True).stdout.decode().split()
    return [p for p in listed if os.path.exists(os.path.join(TOP, p))]


def check_rows(build):
    table = rows()
    ids = [row[0] for row in table]
    check("every capability has one row, in order", [] if ids == IDS else
          [f"missing {i}" for i in IDS if i not in ids] + [f"more than one {i}" for i in set(ids) if ids.count(i) > 1]
          or ["out of order"])
    check("every row has six cells", [f"{r[0]} has {len(r)}" for r in table if len(r) != 6])
    table = [r for r in table if len(r) == 6]
    check("every status is done, or open with what will bring it",
          [f"{r[0]}: '{r[2]}'" for r in table if not re.fullmatch(r"done|open: .{8,}", r[2])])
    check("done rows have test, command and page",
          [f"{r[0]}" for r in table if r[2] == "done" and not all(c not in ("", "-") for c in r[3:6])])
    units = dict((path.split("/")[-1], path) for path in re.findall(r"^  '([\w/]+)',", read("tests/meson.build"), re.M))
    checks = set(re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)+", said(build, "sim", "check", "--list")[1]))
    missing = [(r[0], test_problem(t, units, checks)) for r in table for t in re.findall(r"`([^`]+)`", r[3])]
    check("named tests exist", [f"{i}: {p}" for i, p in missing if p])
    wrong = [(r[0], command_problem(build, c)) for r in table for c in re.findall(r"`([^`]+)`", r[4])]
    check("named commands exist", [f"{i}: {p}" for i, p in wrong if p])


def check_names(build):
    """Checks that every shipped algorithm, detector and command is documented."""
    index, detectors = read("docs/concepts/algorithms/README.md"), read("docs/concepts/detectors.md")
    for kind, text in (("algorithm", index), ("detector", detectors)):
        names = said(build, "--complete", "sim", "run", f"--{kind}", "")[1].split()
        names = [n for n in names if n != "none"]
        check(f"every {kind} is documented", [n for n in names if f"| `{n}` |" not in text] or
              ([] if len(names) >= 10 else ["the program names too few: " + " ".join(names)]))


def check_traits():
    """Checks that the table of algorithms agrees with the source on two traits: may it split, is it deterministic?"""
    wrong = []
    table = {}
    for line in read("docs/concepts/algorithms/README.md").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            table[cells[0].strip("`")] = cells
    for folder, _, names in os.walk(os.path.join(TOP, "src/core/elect")):
        for name in sorted(names):
            if not name.endswith(".c"):
                continue
            for algorithm, traits in re.findall(r'\.name = "([\w-]+)",.*?\.traits = ([^,]+),', read(os.path.join(folder, name)), re.S):
                cells = table.get(algorithm)
                if not cells:
                    wrong += [] if algorithm == "quorum-guard" else [f"{algorithm} has no row"]
                    continue
                if ("MAY_SPLIT" in traits) != cells[2].startswith("splits"):
                    wrong.append(f"{algorithm}: '{cells[2]}' in a partition")
                if ("DETERMINISTIC" in traits) != (cells[4] == "yes"):
                    wrong.append(f"{algorithm}: deterministic '{cells[4]}'")
    check("what is said to split and to be deterministic is what the source says", wrong)


def all_tests():
    """Returns the text of all tests, to search names in it."""
    text = ""
    for folder in ("tests/unit", "tests/system", "tests/conformance"):
        for where, _, names in os.walk(os.path.join(TOP, folder)):
            text += "".join(read(os.path.join(where, name)) for name in sorted(names) if name.endswith((".c", ".py")))
    return text


def check_faults():
    """Checks that every fault in docs/reference/faults.md names an existing test. A name that ends in ... is a prefix."""
    text, wrong, count = all_tests(), [], 0
    for line in read("docs/reference/faults.md").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not re.match(r"\| (\d+b?|health) \|", line):
            continue
        count += 1
        names = re.findall(r"\b[a-z0-9]+(?:_[a-z0-9]+){3,}", cells[2])
        # sigterm_... is generated from the signal's name
        wrong += [f"{cells[0]}: {n}" for n in names if n not in text and n.split("_", 1)[1] not in text]
        files = re.findall(r"`([\w-]+\.txt)`", cells[2])
        wrong += [f"{cells[0]}: {f}" for f in files if not glob.glob(os.path.join(TOP, "tests/scenario/*", f))]
        wrong += [] if names or files else [f"{cells[0]} names no test"]
    check("every fault of a run names tests that are there", wrong + ([] if count >= 20 else [f"{count} faults only"]))


def apply_diff(body, block):
    """The text after the hunks of a diff without line numbers. Each hunk's old lines occur exactly once, or it is applied."""
    for hunk in re.split(r"^@@.*\n", "\n".join(block) + "\n", flags=re.M):
        lines = hunk.split("\n")[:-1]
        old = "".join(line[1:] + "\n" for line in lines if not line.startswith("+"))
        new = "".join(line[1:] + "\n" for line in lines if not line.startswith("-"))
        if new in body and new != old:
            continue  # the reader has applied this hunk
        if ("\n" + body).count("\n" + old) != 1:
            raise ValueError(old.split("\n")[0])
        at = ("\n" + body).index("\n" + old)
        body = body[:at] + new + body[at + len(old):]
    return body


def recipe_problems(page):
    """A recipe creates files and changes others by diffs. Its diffs must fit the files as they are now."""
    files, path, problems = {}, None, []
    for text, kind, block in re.findall(r"(.*?)^```(\w*)\n(.*?)^```$", read(page), re.S | re.M):
        named = re.findall(r"(?:Create|In|Append to|Edit) `([\w./-]+)`", text)
        path = named[-1] if named else path
        if kind != "diff":
            if path and kind not in ("", "console", "sh"):
                files[path] = files.get(path, "") + block
            continue
        try:
            files[path] = apply_diff(files[path] if path in files else read(path), block.rstrip("\n").split("\n"))
        except (OSError, ValueError) as error:
            problems.append(f"{page}: {path}: {error}")
    return problems


def check_recipes():
    recipes = [p for p in pages() if p.startswith("docs/internals/adding-")]
    check("every recipe in docs/internals fits the code",
          [problem for page in recipes for problem in recipe_problems(page)] or ([] if len(recipes) >= 6 else ["no recipes"]))


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    check_rows(build)
    check_names(build)
    check_traits()
    check_faults()
    check_recipes()
    broken = [link_problem(page, link) for page in pages() for link in links_of(page)]
    check("every link in the documentation leads somewhere", [b for b in broken if b])
    print(f"1..{len(results)}")
    sys.exit(any(results))


if __name__ == "__main__":
    main()
