#!/usr/bin/env python3
"""Compares the four outputs of `bellwether sim run` with each other, over many settings. Prints TAP.

    sim_story.py BELLWETHER [RUNS]

A generator draws algorithm, size, faults and seed. Each run is printed as table and story, as JSON, and as SVG. The test
parses them and checks that they tell the same: leader, times, how long two leaders acted, who won and with how many
votes. From the bars of the picture it computes the figures again, with its own code.

A failure prints the command; the same command fails again.
"""
import json
import random
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

ALGORITHMS = ["bully", "bully-notify", "bully-next-in-line", "ring-list", "ring-max", "ring-chang-roberts",
              "ring-hirschberg-sinclair", "invitation", "lowest-id", "stable", "raft", "lease", "bully --quorum",
              "invitation --quorum", "stable --quorum"]
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
SVG = "{http://www.w3.org/2000/svg}"
LABELS = {"noticed": "noticed_ms", "time to leader": "time_to_leader_ms", "until it acts": "time_to_act_ms",
          "until all agree": "time_to_agree_ms", "leaderless": "leaderless_ms", "no node acts": "none_acted_ms"}


def draw_faults(draw, nodes):
    """Returns options for one or two faults, and whether the run needs an end of its own."""
    kind = draw.choice(["crash", "crash-restart", "pause", "partition", "cut", "none", "pause-crash"])
    split = draw.randint(1, nodes - 1)
    ids = [str(i) for i in range(1, nodes + 1)]
    draw.shuffle(ids)
    groups = ",".join(ids[:split]) + "/" + ",".join(ids[split:])
    return {"crash": (["--crash", "leader@2s"], False), "crash-restart": (["--crash", "leader@2s..4s"], True),
            "pause": (["--pause", f"leader@2s..{draw.choice([3, 5])}s"], True),
            "partition": (["--partition", f"{groups}@2s..5s"], True), "cut": (["--cut", f"{ids[0]}>{ids[1]}@2s..4s"], True),
            "pause-crash": (["--pause", "leader@2s..6s", "--crash", f"{ids[0]}@4s"], True), "none": ([], False)}[kind]


def draw_command(draw):
    nodes = draw.choice([3, 4, 5, 5, 7])
    faults, needs_end = draw_faults(draw, nodes)
    words = ["--algorithm", *draw.choice(ALGORITHMS).split(), "--nodes", str(nodes), "--seed", str(draw.randint(1, 10**6))]
    if draw.random() < 0.2:
        words += ["--loss", "0.05"]
    if needs_end or draw.random() < 0.4:
        words += ["--until", f"{draw.choice([7, 9])}s"]
    return words + faults


def seconds(text):
    """Returns the value of a printed duration and half a unit of its last digit; None for `never`."""
    if text == "never":
        return None
    if text == "0":
        return 0.0, 0.0
    number, unit = text.split()
    digits = len(number.split(".")[1]) if "." in number else 0
    return float(number) * UNITS[unit], 0.5000001 * 10**-digits * UNITS[unit]


def run(bellwether, words):
    done = subprocess.run([bellwether, "sim", "run", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise ValueError(f"exit {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode()


def parse_table(text):
    rows = {}
    for line in text.splitlines():
        match = re.match(r"  (\S[\w ,]*?)\s{2,}(\S.*)$", line)
        if match:
            rows.setdefault(match.group(1), match.group(2))
    return rows


def parse_story(text):
    found = re.findall(r"^ *(\d+\.\d{3}) s  (.*)$", text, re.M)
    return [(float(at), sentence) for at, sentence in found]


def parse_picture(path):
    """Returns the bars as (what, node, from, to, term), the strip as (what, from, to), and the line with the figures."""
    bars, strip, figures = [], [], ""
    for element in ET.parse(path).getroot():
        title = element.find(SVG + "title")
        if element.tag == SVG + "text" and (element.text or "").startswith("time to leader"):
            figures = element.text
        if title is None:
            continue
        bar = re.match(r"node (\d+) (.*), ([\d.]+) s to ([\d.]+) s(?:, term (\d+))?$", title.text)
        piece = re.match(r"(.* acts?), ([\d.]+) s to ([\d.]+) s$", title.text)
        if bar:
            bars.append((bar[2], int(bar[1]), float(bar[3]), float(bar[4]), int(bar[5] or 0)))
        elif piece:
            strip.append((piece[1], float(piece[2]), float(piece[3])))
        else:
            raise ValueError(f"unknown title: {title.text}")
    return bars, strip, figures


def subtract(span, holes):
    """Returns what remains of one interval."""
    pieces = [span]
    for low, high in holes:
        pieces = [piece for a, b in pieces for piece in ((a, min(b, low)), (max(a, high), b)) if piece[0] < piece[1]]
    return pieces


def covered(intervals, end, least):
    """Returns for how long before `end` at least `least` of the intervals overlap."""
    edges = sorted([(min(a, end), 1) for a, b in intervals] + [(min(b, end), -1) for a, b in intervals])
    total, depth, last = 0.0, 0, 0.0
    for at, step in edges:
        total += at - last if depth >= least else 0
        depth, last = depth + step, at
    return total


class Case:
    def __init__(self, bellwether, words, folder):
        self.words, self.problems = words, []
        text = run(bellwether, [*words, "--story", "--svg", folder + "/a.svg"])
        self.json = json.loads(run(bellwether, [*words, "--json", "--svg", folder + "/b.svg"]))
        if open(folder + "/a.svg", encoding="utf-8").read() != open(folder + "/b.svg", encoding="utf-8").read():
            self.problems.append("the pictures of two runs differ")
        self.table, self.story = parse_table(text), parse_story(text)
        self.bars, self.strip, self.figures = parse_picture(folder + "/a.svg")
        self.end = self.json["virtual_ms"] / 1e3
        self.nodes = int(words[words.index("--nodes") + 1])

    def check(self, good, text):
        if not good:
            self.problems.append(text)

    def near(self, what, printed, exact):
        """`printed`: a duration as text. `exact`: seconds or None."""
        value = seconds(printed)
        good = value is None if exact is None else value is not None and abs(value[0] - exact) <= value[1] + 1e-9
        self.check(good, f"{what}: {printed}, JSON {exact}")

    def figure(self, name):
        value = self.json[name]
        return None if value is None else (value["mean"] if isinstance(value, dict) else value) / 1e3

    def check_table(self):
        leader = re.match(r"(\d+) \(term (\d+)\)|no agreement", self.table["leader"])
        printed = int(leader[1]) if leader[1] else None
        self.check(printed == self.json["leader"], f"leader: {self.table['leader']}, JSON {self.json['leader']}")
        for label, name in LABELS.items():
            if label == "noticed" and self.json[name] is None:
                self.check(label not in self.table, "noticed is in the table and not in the JSON")
                continue
            self.near(label, self.table[label], self.figure(name))
        self.near("two leaders may act", self.table["two leaders may act"], self.figure("split_brain_ms"))

    def check_order(self):
        noticed, leads, acts, agrees = (self.figure(LABELS[name]) for name in
                                        ("noticed", "time to leader", "until it acts", "until all agree"))
        if noticed is not None and leads is not None and leads > 0:
            self.check(noticed <= leads, f"noticed after {noticed}, led after {leads}")
        if leads is not None and acts is not None:
            self.check(leads <= acts, f"led after {leads}, acted after {acts}")
        if leads is not None and agrees is not None:
            self.check(leads <= agrees, f"led after {leads}, agreed after {agrees}")

    def check_picture(self):
        match = re.match(r"time to leader (.*), leaderless (.*), no node acts (.*), two leaders may act (.*)$", self.figures)
        names = ("time_to_leader_ms", "leaderless_ms", "none_acted_ms", "split_brain_ms")
        for printed, name in zip(match.groups(), names):
            self.near("picture: " + name, printed, self.figure(name))
        paused = {}
        for what, node, low, high, _ in self.bars:
            if what == "is paused":
                paused.setdefault(node, []).append((low, high))
        led = [piece for what, node, low, high, _ in self.bars if what == "leads"
               for piece in subtract((low, high), paused.get(node, []))]
        acted = [(low, high) for what, _, low, high, _ in self.bars if what == "leads and may act"]
        self.same("leaderless from the bars", self.end - covered(led, self.end, 1), "leaderless_ms")
        self.same("two act from the bars", covered(acted, self.end, 2), "split_brain_ms")
        self.same("no node acts from the bars", self.end - covered(acted, self.end, 1), "none_acted_ms")
        for what, name in (("two or more nodes act", "split_brain_ms"), ("no node acts", "none_acted_ms")):
            total = sum(min(high, self.end) - min(low, self.end) for kind, low, high in self.strip if kind == what)
            self.same(f"strip: {what}", total, name)
        for what, node, low, high, _ in self.bars:
            holes = paused.get(node, []) if what == "leads and may act" else []
            self.check(not any(low < b and a < high for a, b in holes), f"node {node} acts while it is paused")

    def same(self, what, measured, name):
        self.check(abs(measured - self.figure(name)) < 1e-7, f"{what}: {measured}, JSON {self.figure(name)}")

    def check_story(self):
        split, slack, voters, leader = 0.0, 0.0, self.nodes, None
        stood = set()
        for _, sentence in self.story:
            two = re.match(r"SPLIT BRAIN: .* both act for (.*)$", sentence)
            votes = re.search(r"node (\d+) wins term \d+ with (\d+) of (\d+) votes", sentence)
            agreed = re.match(r"all (\d+) running nodes follow (\d+)$", sentence)
            stands = re.match(r"node (\d+) becomes a candidate", sentence)
            if two:
                value = seconds(two[1])
                split, slack = split + value[0], slack + value[1]
            if stands:
                stood.add(int(stands[1]))
            if votes:
                self.check(int(votes[3]) == voters and voters // 2 < int(votes[2]) <= voters, f"votes: {sentence}")
                self.check(int(votes[1]) in stood, f"the winner was no candidate: {sentence}")
            if agreed:
                leader = int(agreed[2])
            lease = "lease" in self.words
            self.check(lease or "the store" not in sentence, f"there is no store: {sentence}")
            self.check(not lease or "majority" not in sentence, f"a lease needs no majority of nodes: {sentence}")
        exact = self.figure("split_brain_ms")
        self.check(abs(split - exact) <= slack + 1e-7, f"split brain: story {split}, JSON {exact}")
        if self.json["leader"] is not None:
            self.check(leader == self.json["leader"], f"the story ends with {leader}, JSON {self.json['leader']}")

    def check_all(self):
        self.check_table()
        self.check_order()
        self.check_picture()
        self.check_story()
        return self.problems


def main():
    bellwether = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 120
    draw = random.Random(20260716)
    failed, split = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, count + 1):
            words = draw_command(draw)
            try:
                case = Case(bellwether, words, folder)
                problems = case.check_all()
                split += case.json["split_brain_ms"] > 0
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                problems = [f"{type(error).__name__}: {error}"]
            failed += bool(problems)
            print(f"{'not ok' if problems else 'ok'} {number} - sim run {' '.join(words)}")
            for problem in problems:
                print(f"# {problem}")
    enough = split >= count // 20
    print(f"{'ok' if enough else 'not ok'} {count + 1} - two leaders acted in enough runs: {split} of {count}")
    print(f"1..{count + 1}")
    sys.exit(failed > 0 or not enough)


if __name__ == "__main__":
    main()
