#!/usr/bin/python3
"""The dashboard of `bellwether serve` in a real browser, on real clusters.

    serve_dashboard.py BELLWETHER WITNESS CONFORMANCE [NAME...]

With DASHBOARD_PICTURES=FOLDER in the environment, the first test writes pictures of docs/guides/dashboard.md to that folder."""
import atexit
import functools
import gzip
import json
import os
import re
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from browser import Browser  # noqa: E402
from run_lib import wait_for  # noqa: E402
from serve_lib import Nodes, b64  # noqa: E402
from store_lib import STALL_S, TIMEOUT_S, Place, Suite  # noqa: E402

suite = Suite()
FOLLOWS_S = 1.0
HAND_OVER = "return [...document.querySelectorAll('#nodes tbody button:enabled')].find((button) => button.textContent === 'hand over')"
DRAIN = "return [...document.querySelectorAll('#nodes tbody button:enabled')].find((button) => button.textContent === 'drain')"
EVIL = "batch" if os.environ.get("DASHBOARD_PICTURES") else "<script>window.evil = 1</script><img src=x onerror='window.evil = 1'>"
SEES = "return window.page && page.state && page.watches && page.state.nodes.length === arguments[0] && page.state.leader"


browsers = []  # one for all tests: it takes long to start on a busy machine


def new_page():
    if not browsers:
        browsers.append(Browser(tempfile.mkdtemp(prefix="bellwether-profile-", dir=os.environ.get("TMPDIR", "/tmp"))))
    browsers[0].open("about:blank")
    browsers[0].console()  # forgets what earlier pages logged
    return browsers[0]


def close_browser():
    for browser in browsers:
        browser.close()


def judged(function):
    """A test of a cluster in which nothing but the test changes the leader. Leaders and leases end when the machine stalls, so that the
    test begins again then, with a new cluster."""
    @functools.wraps(function)
    def run():
        stall.judge(lambda _: function(), STALL_S, function.__name__)
    return suite.test(run)


def address(nodes, number):
    return f"http://127.0.0.1:{nodes.ports[number]}/"


def say(nodes, path, body, port=None, token=None):
    """Must succeed at the first attempt, unless the machine stalled."""
    def done(_):
        status, answer = nodes.post(path, body, port, {"Authorization": token} if token else {})
        assert status == 200, (path, answer)
        return answer
    return stall.judge(done, STALL_S, path)


def campaign(nodes, name, value, port=None, ttl=60):
    """A candidate; returns when it leads."""
    lease = say(nodes, "/v3/lease/grant", {"TTL": ttl}, port)["ID"]
    return say(nodes, "/v3/election/campaign", {"name": b64(name), "lease": lease, "value": b64(value)}, port)["leader"]


def names(browser):
    return browser.ask("return [...document.querySelectorAll('#elections h3')].map((title) => title.textContent)")


@judged
def dashboard_follows_the_death_of_the_leader():
    with Place("follows") as place:
        browser = new_page()
        nodes = Nodes(place, suite.bellwether, 3)
        leader = nodes.leader()
        here = (leader + 1) % 3
        campaign(nodes, "nightly", "web1", nodes.ports[here])
        campaign(nodes, EVIL, EVIL, nodes.ports[here])
        say(nodes, "/v3/lock/lock", {"name": b64("backup"), "lease": say(nodes, "/v3/lease/grant", {"TTL": 60}, nodes.ports[here])["ID"]},
            nodes.ports[here])
        browser.open(address(nodes, here))
        old = browser.wait("the cluster", SEES, 3)
        browser.wait("three healthy nodes", "return /^3 of 3 nodes, leader n\\d for /.test(document.getElementById('health').textContent)")
        browser.wait("the lease as a bar", "return document.querySelector('#elections progress')?.value > 0.5")
        assert names(browser) == [EVIL, "nightly"], names(browser)
        assert browser.ask("return document.querySelectorAll('#elections script, #elections img').length") == 0
        assert "backup" in browser.text("locks") and "holds it" in browser.text("locks"), browser.text("locks")
        console = browser.console()
        assert not console, console

        browser.ask("""window.times = []; new MutationObserver(() => times.push([Date.now(), page.state.leader]))
                       .observe(document.getElementById("health"), {childList: true, characterData: true, subtree: true});""")
        watch = stall.Watch([server.process.pid for server in nodes.servers] + browser.pids())
        killed = time.time()
        nodes.servers[leader].kill()
        browser.wait("another leader", "return page.state.leader && page.state.leader !== arguments[0] && "
                     "document.getElementById('health').textContent.includes('2 of 3 nodes, leader')", old)
        seen = next(at for at, who in browser.ask("return times") if who not in ("", old)) / 1000 - killed
        assert seen < FOLLOWS_S or watch.excuses(0.1, "how fast the page follows"), f"the page showed the new leader after {seen:.3f} s"
        suite.tap.comment(f"the page showed the new leader {seen:.3f} s after the SIGKILL")
        assert "last hand-over" in browser.text("health"), browser.text("health")
        browser.wait("the dead node", "return document.getElementById('nodes').innerText.includes('not connected')")
        campaign_gone(nodes, browser, here)
        lanes = browser.ask("return [document.querySelectorAll('#leads .name').length, document.querySelectorAll('#elections .timeline').length]")
        assert lanes[0] == 2 and lanes[1] >= 2, f"lanes of the cluster and timelines of elections: {lanes}"
        take_pictures(browser)
        assert not browser.ask("return window.evil"), "the name of an election was interpreted"
        asked = browser.requests()
        assert asked and all(name.startswith(address(nodes, here)) for name in asked), asked
        # without a leader, a lease's time cannot be read; the browser logs that response
        console = [entry for entry in browser.console() if not re.search("lease/timetolive.* 503 ", entry["message"])]
        assert not console, console


def take_pictures(browser):
    folder = os.environ.get("DASHBOARD_PICTURES")
    if not folder:
        return
    time.sleep(3)  # so that the last leaderships can be seen
    browser.picture(os.path.join(folder, "dashboard.png"))
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True})
    time.sleep(0.6)  # two drawings at the new width
    browser.picture(os.path.join(folder, "dashboard-phone.png"))
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def campaign_gone(nodes, browser, here):
    """The page shows who led before, and why it ended."""
    first = campaign(nodes, "weekly", "web1", nodes.ports[here])
    browser.wait("the new election", "return document.getElementById('elections').innerText.includes('weekly')")
    say(nodes, "/v3/election/resign", {"leader": first}, nodes.ports[here])
    browser.wait("the former leader", "return /before: web1 \\(token \\d+, .*\\): /.test(document.getElementById('elections').innerText)")
    events = browser.text("events")
    assert "weekly: web1" in events and "no longer leads" in events, events


def add_users(nodes):
    for name, role in (("root", "root"), ("eve", "observe")):
        say(nodes, "/v3/auth/user/add", {"name": name, "password": name + "pw"})
        say(nodes, "/v3/auth/user/grant", {"user": name, "role": role})
    say(nodes, "/v3/auth/enable", {})

    def admits(port, name):
        return nodes.post("/v3/auth/authenticate", {"name": name, "password": name + "pw"}, port)[0] == 200
    for port in nodes.ports:
        for name in ("root", "eve"):
            wait_for(lambda p=port, n=name: admits(p, n), TIMEOUT_S, 0.02)


def log_in(browser, name, password):
    browser.wait("the form", "return !document.getElementById('login').hidden")
    browser.ask("document.getElementById('user').value = ''")
    browser.type("user", name)
    browser.type("password", password)
    browser.click("return document.querySelector('#login button')")


@judged
def dashboard_shows_and_does_only_what_the_user_may():
    with Place("rights") as place:
        browser = new_page()
        nodes = Nodes(place, suite.bellwether, 3)
        add_users(nodes)
        leader = nodes.leader()
        browser.open(address(nodes, leader))
        browser.wait("the form", "return !document.getElementById('login').hidden")
        assert browser.ask("return document.getElementById('content').hidden && !page.state"), browser.text("health")
        log_in(browser, "eve", "wrong")
        browser.wait("a refusal", "return document.getElementById('message').textContent.startsWith('cannot log in')")
        log_in(browser, "eve", "evepw")
        browser.wait("the cluster", SEES, 3)
        browser.wait("the table", "return document.querySelectorAll('#nodes tbody tr').length === 3")
        assert "read-only" in browser.text("age"), browser.text("age")
        assert browser.ask("return document.querySelectorAll('main td button').length") == 0
        assert browser.ask("return page.state.clients.length") == 0, "an observer sees addresses of clients"
        token = nodes.post("/v3/auth/authenticate", {"name": "eve", "password": "evepw"})[1]["token"]
        status, answer = nodes.post("/v3/maintenance/transfer-leadership", {"targetID": 1}, nodes.ports[leader], {"Authorization": token})
        assert status == 403, answer
        browser.open(address(nodes, leader))  # the token is not kept
        log_in(browser, "root", "rootpw")
        old = browser.wait("the cluster", SEES, 3)
        browser.click(HAND_OVER)
        browser.wait("what will happen", "return document.getElementById('dialog').open && "
                     "document.getElementById('dialog-text').textContent.includes('becomes the Raft leader')")
        browser.click("return document.getElementById('dialog-no')")
        browser.wait("no dialog", "return !document.getElementById('dialog').open")
        assert browser.ask("return page.state.leader") == old, "cancel has handed over"
        browser.click(HAND_OVER)
        browser.click("return document.getElementById('dialog-yes')")
        browser.wait("another leader", "return page.state.leader && page.state.leader !== arguments[0]", old)


@judged
def dashboard_drains_the_leader_on_a_click():
    with Place("drain") as place:
        browser = new_page()
        nodes = Nodes(place, suite.bellwether, 3)
        leader = nodes.leader()
        browser.open(address(nodes, leader))
        old = browser.wait("the cluster", SEES, 3)
        browser.click(DRAIN)
        browser.wait("what will happen", "return document.getElementById('dialog').open && "
                     "document.getElementById('dialog-text').textContent.includes('can be stopped for maintenance')")
        browser.click("return document.getElementById('dialog-yes')")
        browser.wait("another leader", "return page.state.leader && page.state.leader !== arguments[0]", old)
        browser.wait("no drain button: this node does not lead", "return !document.querySelector('#nodes .leader button')")
        assert "asked to drain" in browser.text("events"), browser.text("events")


@judged
def dashboard_asks_a_leader_to_resign():
    with Place("resign") as place:
        browser = new_page()
        nodes = Nodes(place, suite.bellwether, 1)
        with suite.room(f"bellwether://127.0.0.1:{nodes.ports[0]}", ttl="10s") as room:
            room.candidate("first")
            assert room.leader().name == "first"
            room.candidate("second").said("leader")
            browser.open(address(nodes, 0))
            browser.wait("both candidates", "return document.querySelectorAll('#elections tbody tr').length === 2")
            browser.click("return document.querySelector('#elections button')")
            browser.wait("what will happen", "return document.getElementById('dialog-text').textContent.includes('stops its work')")
            browser.click("return document.getElementById('dialog-yes')")
            assert room.leader(2).name == "second"
            browser.wait("the former leader", "return document.getElementById('elections').innerText.includes('resigned, asked by dashboard')")
            room.judge()


@suite.test
def pages_of_other_sites_are_refused():
    with Place("origin") as place:
        nodes = Nodes(place, suite.bellwether, 1)
        here = f"127.0.0.1:{nodes.ports[0]}"
        body = json.dumps({"key": b64("k"), "value": b64("v")})
        for origin, host, status in ((f"http://{here}", here, 200), (f"http://LOCALHOST:{nodes.ports[0]}", f"localhost:{nodes.ports[0]}", 200),
                                     ("http://evil.example", here, 403), ("null", here, 403), ("", here, 403),
                                     (f"http://{here}.evil.example", here, 403), (f"http://127.0.0.2:{nodes.ports[0]}", here, 403),
                                     (f"http://evil.example:{nodes.ports[0]}", f"evil.example:{nodes.ports[0]}", 403)):
            for path in ("/v3/kv/put", "/v3/maintenance/transfer-leadership", "/v3/dashboard/observe") if status == 403 else ("/v3/kv/put",):
                got, text, _ = nodes.ask("POST", path, body, {"Origin": origin, "Host": host, "Content-Type": "text/plain"})
                assert got == status, (origin, host, path, got, text)
                assert status == 200 or b"bellwether: refused" in text, text
        for path in ("/version", "/health", "/metrics"):  # browsers send no Origin with these
            assert nodes.ask("GET", path, headers={"Host": f"evil.example:{nodes.ports[0]}"})[0] == 421, path
            assert nodes.ask("GET", path, headers={"Host": f"localhost:{nodes.ports[0]}"})[0] == 200, path
        status, text, fields = nodes.ask("GET", "/")
        assert status == 200 and text.startswith(b"<!doctype html>"), (status, text[:80])
        policy = fields["content-security-policy"]
        for word in ("default-src 'none'", "frame-ancestors 'none'", "connect-src 'self'", "form-action 'none'"):
            assert word in policy, policy
        assert "unsafe" not in policy and fields["x-frame-options"] == "DENY", fields
        packed = nodes.ask("GET", "/", headers={"Accept-Encoding": "gzip"})
        assert packed[2]["content-encoding"] == "gzip" and gzip.decompress(packed[1]) == text, packed[2]
        kept = nodes.ask("GET", "/", headers={"If-None-Match": fields["etag"]})
        assert kept[0:2] == (304, b""), kept
        assert nodes.ask("HEAD", "/")[0:2] == (200, b"") and nodes.ask("POST", "/", "{}")[0] == 405


atexit.register(close_browser)
suite.main(1)  # the tests share the browser
