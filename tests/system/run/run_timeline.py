#!/usr/bin/env python3
"""`bellwether timeline` with the logs of a real incident: the leader's supervisor is killed, then the next leader resigns.

    run_timeline.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from run_lib import wait_for  # noqa: E402
from store_lib import STALL_S, TIMEOUT_S, Place, Suite  # noqa: E402

suite = Suite()
EVIL = "<script>&"
GOOD = '{"time":"2026-11-16T10:14:02.118Z","event":"elected","election":"e","leader":"a","token":1}\n'


def seconds(event, begin):
    """The time of an event in the picture, in seconds."""
    def parse(text):
        hours, minutes, rest = re.search(r"T(\d+):(\d+):([\d.]+)Z", text).groups()
        return int(hours) * 3600 + int(minutes) * 60 + float(rest)
    return (parse(event["time"]) - parse(begin)) % 86400


def spans(picture, what):
    """{(name, token): (from, to)} of the bars with this title."""
    found = re.findall(rf"<title>(\S+) {what}, ([\d.]+) s to ([\d.]+) s, token (\d+)</title>", picture)
    return {(name, int(token)): (float(begin), float(end)) for name, begin, end, token in found}


@suite.test
def timeline_draws_a_real_incident():
    stall.judge(lambda _: draw_incident(), STALL_S, "an incident in which leases may expire")


def draw_incident():
    with Place("timeline") as place, suite.room(None, ttl="30s") as room:  # no lease expires unless the machine stalls
        for name in ("first", EVIL, "third"):
            room.candidate(name)
        old = room.leader()
        seen = os.path.join(room.dir, "observed")
        with open(seen, "wb") as out:
            observer = subprocess.Popen([room.bellwether, "observe", "--store", room.store, "--election", room.election, "--json"], stdout=out)
        try:
            wait_for(lambda: b'"found"' in open(seen, "rb").read(), TIMEOUT_S, 0.05)
            old.signal(signal.SIGKILL)
            room.leader(2)
            code, out, err = suite.command("resign", "--store", room.store, "--election", room.election)
            assert code == 0, out + err
            room.leader(3)
        finally:
            observer.terminate()
            observer.wait()
        room.judge()
        for candidate in room.candidates:
            if candidate is not old:
                candidate.signal(signal.SIGTERM)
                candidate.wait()
        check_picture(room, place, old, seen)


def check_picture(room, place, old, seen):
    files = [candidate.errors for candidate in room.candidates] + [seen]
    lines = [json.loads(line) for name in files for line in open(name, encoding="utf-8") if line.strip()]
    begin = min(line["time"] for line in lines)
    code, picture, err = suite.command("timeline", "--skip-invalid", *files)
    assert code == 0 and picture.startswith("<svg") and "ignored" not in err, (code, err)
    led, acted = spans(picture, "leads"), spans(picture, "leads and may act")
    started = [event for candidate in room.candidates for event in candidate.events("started")]
    assert len(started) >= 3 and len(acted) == len(started), (started, acted)
    for event in started:
        name = event["id"].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        at = acted[name, event["token"]]
        assert abs(at[0] - seconds(event, begin)) < 0.00001, (event, at)
        assert led[name, event["token"]][0] <= at[0] < at[1] <= led[name, event["token"]][1], (event, at, led)
    assert old.events("started") and not old.events("released"), "the killed supervisor logged its end"
    assert "two or more nodes act," not in picture and "two act for 0" in picture, re.findall("<title>two[^<]*", picture)
    html = os.path.join(place.dir, "incident.html")
    code, out, err = suite.command("timeline", *files, "--output", html, "--title", EVIL)
    assert (code, out) == (0, ""), (code, out, err)
    page = open(html, encoding="utf-8").read()
    assert "<svg" in page and "<table>" in page and "<script" not in page and "&lt;script&gt;&amp;" in page, page[:2000]
    assert "stepping down: resigned" in page, page
    assert not re.search(r'(src|href)="', page), "the page requests something"


@suite.test
def timeline_names_file_and_line_of_bad_input():
    with Place("bad") as place:
        good = place.file("good", GOOD + "\n")
        for bad, words in (("{", "not a JSON object"), ("[1]", "not a JSON object"), ("\xff", "not a JSON object"), ('{"time":1}', '"time"'),
                           (GOOD.replace("2026-11-16T10", "2026-13-16T10"), '"time"'), (GOOD.replace("Z", "+01:00"), '"time"'),
                           (GOOD.replace('"event"', '"evnt"'), '"event"'), (GOOD.replace('"token":1', '"token":-1'), '"token"'),
                           (GOOD.replace('"election":"e"', '"election":"f"'), "--election NAME"), ('"' + "x" * 70000 + '"', "70003 bytes")):
            path = place.file("bad", GOOD + "\n" + bad.rstrip("\n") + "\n")
            code, out, err = suite.command("timeline", good, path)
            assert code == 65 and not out and f"{path}:3: " in err and words in err, (bad[:80], code, err)
            code, out, err = suite.command("timeline", good, path, "--skip-invalid")
            assert code == 0 and "ignored 1 invalid" in err and out.startswith("<svg"), (bad[:80], code, err)
        for words, expected, said in (((), 64, "missing file"), (("/nonexistent",), 74, "cannot read"), ((good, "--output", "x.png"), 64, "NAME.svg"),
                                      ((good, "--election", "other"), 65, "no event"), ((place.file("empty", ""),), 65, "no event")):
            code, out, err = suite.command("timeline", *words)
            assert code == expected and said in err, (words, code, err)


suite.main(2)
