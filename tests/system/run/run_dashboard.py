#!/usr/bin/python3
"""The dashboard of `bellwether run --http` and `bellwether peer --http` in a real browser, with real candidates.

    run_dashboard.py BELLWETHER WITNESS CONFORMANCE [NAME...]

With DASHBOARD_PICTURES=FOLDER in the environment, the tests write the pictures of docs/guides/dashboard.md to that folder."""
import atexit
import gzip
import http.client
import json
import os
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from browser import Browser  # noqa: E402
from peer_lib import PeerRoom  # noqa: E402
from run_lib import Room, free_ports, send  # noqa: E402
from store_lib import STALL_S, TIMEOUT_S, Suite  # noqa: E402

suite = Suite()
PICTURES = os.environ.get("DASHBOARD_PICTURES")
EVIL = "<img src=x onerror='window.evil=1'>" if not PICTURES else "web2"
browsers = []  # one for all tests: it takes long to start on a busy machine


def new_page(address):
    if not browsers:
        browsers.append(Browser(tempfile.mkdtemp(prefix="bellwether-profile-", dir=os.environ.get("TMPDIR", "/tmp"))))
    browser = browsers[0]
    browser.open("about:blank")
    browser.console()  # forgets what earlier pages logged
    browser.open(address)
    browser.wait("the state", "return window.page && page.state && !document.getElementById('content').hidden")
    return browser


def close_browser():
    for browser in browsers:
        browser.close()


def take_picture(browser, name):
    if PICTURES:
        time.sleep(3)  # so that the last leadership can be seen
        browser.picture(os.path.join(PICTURES, name + ".png"))


def judge_page(browser, address):
    assert not browser.ask("return window.evil"), "a name was interpreted as HTML"
    assert browser.ask("return document.querySelectorAll('main img, main script').length") == 0
    asked = browser.requests()
    assert asked and all(name.startswith(address) for name in asked), asked
    console = [entry for entry in browser.console() if "ERR_CONNECTION" not in entry["message"]]
    assert not console, console


@suite.test
def page_of_a_candidate_shows_who_led_and_why_it_ended():
    stall.judge(lambda _: show_an_incident(), STALL_S, "an incident in which leases may expire")


def show_an_incident():
    with Room(suite.bellwether, suite.witness, ttl="2s") as room:
        ports = dict(zip(("first", EVIL), free_ports(2)))
        first = room.candidate("first", options=["--http", f"127.0.0.1:{ports['first']}"])
        assert room.leader().name == "first"
        room.candidate(EVIL, options=["--http", f"127.0.0.1:{ports[EVIL]}"]).said("leader")
        address = f"http://127.0.0.1:{ports[EVIL]}/"
        browser = new_page(address)
        browser.wait("the leader", "return /first leads for/.test(document.getElementById('health').textContent)")
        browser.wait("both candidates", "return document.querySelectorAll('#candidates tbody tr').length === 2")
        browser.wait("the lease as a bar", "return document.querySelector('#leader progress')?.value > 0.1")
        send(first.pid, signal.SIGKILL)
        assert room.leader(2).name == EVIL
        browser.wait("the new leader", "return page.state.leader === arguments[0] && page.state.leading", EVIL)
        browser.wait("two leaderships", "return document.querySelectorAll('#former tbody tr').length === 2")
        row = browser.ask("return document.querySelectorAll('#former tbody tr')[1].innerText")
        assert "first" in row and "released" in row, row
        lanes = browser.ask("return [...document.querySelectorAll('#timeline .name title')].map((title) => title.textContent)")
        assert lanes == ["first", EVIL], lanes
        browser.wait("the events", "return document.getElementById('events').innerText.includes('elected with token')")
        take_picture(browser, "dashboard-run")
        judge_page(browser, address)
        room.judge()


@suite.test
def page_says_how_old_its_data_is_and_connects_again():
    with Room(suite.bellwether, suite.witness, ttl="10s") as room:
        port = free_ports(1)[0]
        options = ["--http", f"127.0.0.1:{port}"]
        first = room.candidate("one", options=options)
        room.leader()
        browser = new_page(f"http://127.0.0.1:{port}/")
        browser.wait("live data", "return document.getElementById('age').textContent.startsWith('live, data ')")
        first.signal(signal.SIGTERM)
        first.wait()
        browser.wait("old data", "return /^no data for [^:]*: everything below is as old/.test(document.getElementById('age').textContent)")
        room.candidate("two", options=options)
        browser.wait("the next process", "return page.state.candidate === 'two' && document.getElementById('age').textContent.startsWith('live')")
        assert "again" in browser.text("events"), browser.text("events")


@suite.test
def page_of_a_peer_shows_every_view_side_by_side():
    stall.judge(lambda _: show_peers(), STALL_S, "peers whose leases may expire")


def show_peers():
    with PeerRoom(suite.bellwether, suite.witness, ttl="2s") as room:
        ports = dict(zip(room.ports, free_ports(len(room.ports))))
        peers = {name: room.candidate(name, options=["--http", f"127.0.0.1:{ports[name]}"]) for name in room.ports}
        leader = str(room.agreed())
        here = next(name for name in peers if name != leader)
        address = f"http://127.0.0.1:{ports[here]}/"
        browser = new_page(address)
        browser.wait("all views", "return document.getElementById('members-line').textContent.startsWith('3 of 3 members answered')")
        views = browser.ask("return page.state.members.map((member) => member.view.leader)")
        assert len(set(views)) == 1, views
        send(peers[leader].pid, signal.SIGKILL)
        browser.wait("the suspicion", "return page.state.members.some((member) => member.status !== 'alive' && !member.self)")
        browser.wait("another leader", "return page.state.leader && page.state.members.some((member) => member.view?.leading && member.id !== arguments[0])",
                     leader)
        browser.wait("the silent one", "return document.getElementById('members-line').textContent.includes('did not answer')")
        take_picture(browser, "dashboard-peer")
        judge_page(browser, address)


def ask(port, path, method="GET", fields=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    connection.request(method, path, headers=fields or {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text


@suite.test
def page_is_static_cached_compressed_and_cannot_be_framed():
    with Room(suite.bellwether, suite.witness, ttl="10s") as room:
        port = free_ports(1)[0]
        room.candidate("one", options=["--http", f"127.0.0.1:{port}"]).said("http")
        status, fields, plain = ask(port, "/")
        assert status == 200 and plain.startswith(b"<!doctype html>") and "content-encoding" not in fields, (status, fields)
        for word in ("default-src 'none'", "frame-ancestors 'none'", "connect-src 'self'", "form-action 'none'"):
            assert word in fields["content-security-policy"], fields
        assert "unsafe" not in fields["content-security-policy"] and fields["x-frame-options"] == "DENY", fields
        for accepted, packs in (("gzip", True), ("deflate, gzip;q=0.5", True), ("gzip;q=0", False), ("xgzip", False), ("identity", False)):
            status, got, text = ask(port, "/", fields={"Accept-Encoding": accepted})
            assert (got.get("content-encoding") == "gzip") == packs, (accepted, got)
            assert (gzip.decompress(text) if packs else text) == plain, accepted
        for tag, status in ((fields["etag"], 304), (f'"other", {fields["etag"]}', 304), (fields["etag"][2:], 304), ('"other"', 200)):
            got = ask(port, "/", fields={"If-None-Match": tag})
            assert got[0] == status and bool(got[2]) == (status == 200), (tag, got[:2])
        assert ask(port, "/", "HEAD")[2] == b"" and ask(port, "/", "POST")[0] == 405 and ask(port, "/state", "POST")[0] == 405
        state = json.loads(ask(port, "/state")[2])
        assert state["candidate"] == "one" and "access-control-allow-origin" not in ask(port, "/state")[1], state


atexit.register(close_browser)
suite.main(1)  # the tests share the browser
