#!/usr/bin/env python3
"""Writes the measured tables of choosing.md from the output of the program.

    choosing.py BELLWETHER [NAME=URL...]    rewrites the table of algorithms, and the rows of the given stores; other rows stay
    choosing.py --check BELLWETHER          fails if the table of algorithms differs from the present output"""
import json
import os
import re
import subprocess
import sys

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "choosing.md")
SHOWN = ["bully", "bully --quorum", "ring-chang-roberts", "ring-chang-roberts --quorum", "invitation", "invitation --quorum",
         "lowest-id", "lowest-id --quorum", "stable", "stable --quorum", "raft", "lease --store-model quorum",
         "lease --store-model single", "lease --store-model forgetful", "lease --store-model redlock"]


def ask(bellwether, *words):
    return json.loads(subprocess.run([bellwether, *words, "--json"], capture_output=True, text=True, check=True).stdout)


def span(ms):
    if ms == 0:
        return "0"
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms" if ms >= 10 else f"{ms:.2f} ms"


def count(number):
    return f"{number:.0f}" if number >= 10 or number == int(number) else f"{number:.2f}"


def name_of(way):
    model = way.get("store_model") or way.get("store")
    return way["algorithm"] + (" --quorum" if way["guarded"] else "") + (f" --store-model {model}" if model else "")


def algorithms(bellwether):
    ways = {name_of(way): way for way in ask(bellwether, "sim", "compare")["algorithms"]}
    lines = ["| way | two at once: partition, pause | smaller side | detection | failover | token | stale writes accepted |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for name in SHOWN:
        way = ways[name]
        two, stale = way["two_leaders_ms"], way["stale_writes"]
        smaller = "leads" if way["minority"] == "leads" else "no leader"
        lines.append(f"| `{name}` | {span(two['partition'])}, {span(two['pause'])} | {smaller} | {span(way['detection_ms'])} |"
                     f" {span(way['may_act_ms'])} | {'yes' if way['token'] else 'no'} |"
                     f" {count(stale['accepted'])} of {count(stale['tried'])} |")
    return lines


def store_row(bellwether, name, url):
    seen = ask(bellwether, "store", "check", url, "--timeout", "20s")
    has, played = seen["traits"], seen["election"]
    server = seen["server"] or "-"
    notifies = has["notifies"] and "cannot notify" not in server
    cells = [name, server.split(";")[0].split(",")[0], "yes" if has["token"] else "no", seen["clock"].split(":")[0],
             "notified" if notifies else "polls", "in order" if has["queue"] else "race",
             span(seen["latency_ms"]["median"]), span(played["renew_ms"]), span(played["handover_ms"]), seen["promise"]]
    return "| " + " | ".join(cells) + " |"


def stores(bellwether, old, urls):
    lines = ["| store | server | token | whose clock ends a lease | waiting | order | read | renewal | hand-over | can and cannot |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    rows = {line.split("|")[1].strip(): line for line in old[2:]}
    rows.update({name: store_row(bellwether, name, url) for name, url in urls})
    return lines + list(rows.values())


def block(text, name):
    found = re.search(f"<!-- begin {name} -->\n(.*?)<!-- end {name} -->", text, re.S)
    return found.start(1), found.end(1)


def put(text, name, lines):
    start, end = block(text, name)
    return text[:start] + "\n".join(lines) + "\n" + text[end:]


def main():
    check = sys.argv[1] == "--check"
    bellwether, *urls = sys.argv[2:] if check else sys.argv[1:]
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    new = put(text, "algorithms", algorithms(bellwether))
    if check:
        sys.exit(0 if new == text else "docs/concepts/choosing.md: the table of algorithms is outdated; run docs/concepts/choosing.py BELLWETHER")
    start, end = block(text, "stores")
    old = text[start:end].splitlines()
    new = put(new, "stores", stores(bellwether, old, [tuple(u.split("=", 1)) for u in urls]))
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(new)


main()
