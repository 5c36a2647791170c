#!/usr/bin/python3
"""Tests the playground in Chromium, from a file:// address and from `bellwether sim play`. Prints TAP.

    playground.py BUILD BELLWETHER [PICTURES]

Builds the page, clicks as a user does, and compares runs by their trace hash: scrubbed back and forth, from a shared
address, and with `bellwether sim run` on the exported script. Screenshots are written to PICTURES, or BUILD/pictures.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import browser as browser_kit  # noqa: E402

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
HANG_S = 600  # ends a script that hangs; no verdict depends on it
results = []


def report(name, problem=None):
    results.append(problem is not None)
    print(f"{'not ok' if problem is not None else 'ok'} {len(results)} - {name}", flush=True)
    for line in str(problem or "").splitlines():
        print(f"# {line}")


def skip(reason):
    print(f"ok 1 - playground # SKIP {reason}\n1..1")
    sys.exit(0)


def expect(name, good, found):
    report(name, None if good else f"found {found}")


class Browser:
    def __init__(self, profile):
        self.driver = browser_kit.start(profile, "1200,1000")
        self.driver.set_script_timeout(HANG_S)

    def open(self, address):
        self.driver.get("about:blank")
        self.driver.get(address)
        self.ask("const done = arguments[0]; (function wait() { window.page ? done(true) : setTimeout(wait, 20); })();", wait=True)

    def ask(self, script, *words, wait=False):
        call = self.driver.execute_async_script if wait else self.driver.execute_script
        return call(script, *words)

    def seek(self, seconds):
        return self.ask("page.scrub(arguments[0]); return page.frame;", seconds * 1e9)

    def click_node(self, node):
        from selenium.webdriver.common.by import By  # pylint: disable=import-outside-toplevel
        self.driver.find_element(By.CSS_SELECTOR, f"#stage [data-id='{node}']").click()
        return self.ask("return page.frame")

    def press(self, node, key):
        from selenium.webdriver.common.by import By  # pylint: disable=import-outside-toplevel
        self.driver.find_element(By.CSS_SELECTOR, f"#stage [data-id='{node}']").send_keys(key)
        return self.ask("return page.frame")


def native_hash(bellwether, script):
    """Returns the trace hash of the run, as the page shows it."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(script)
        file.flush()
        done = subprocess.run([bellwether, "sim", "run", "--script", file.name, "--json"], capture_output=True, check=False)
    if done.returncode != 0:
        return done.stderr.decode(errors="replace")
    # the summary of one run is (0 ^ hash) * prime
    value = int(json.loads(done.stdout)["trace_hash"], 16) * pow(1099511628211, -1, 2**64) % 2**64
    return f"{value:016x}"


def test_click(browser, page, bellwether):
    browser.open(page)
    leader = browser.seek(2)["leader"]
    expect("a leader is elected", leader > 0, leader)
    frame = browser.click_node(leader)
    expect("a click crashes the leader", not frame["nodes"][leader - 1]["up"], frame["nodes"][leader - 1])
    frame = browser.seek(4)
    expect("another node leads", frame["leader"] not in (0, leader), frame["leader"])
    expect("two nodes never acted at once", frame["split"] == 0, frame["split"])
    browser.click_node(leader)
    end = browser.seek(6)
    expect("a second click restarts the node", end["nodes"][leader - 1]["up"], end["nodes"][leader - 1])
    browser.seek(1)
    again = browser.seek(6)
    expect("scrubbing back and forward gives the same state", again == end, again["hash"])
    browser.ask("page.remember()")
    browser.open(browser.driver.current_url)
    shared = browser.ask("return page.frame")
    expect("the shared address repeats the run", shared["hash"] == end["hash"], shared["hash"])
    script = browser.ask("document.getElementById('script').click(); return page.copied")
    native = native_hash(bellwether, script)
    expect("bellwether sim run gives the same trace", native == end["hash"], f"{native}, page {end['hash']}\n{script}")


def test_keyboard(browser, page):
    browser.open(page + "#a=bully")
    leader = browser.seek(1)["leader"]
    frame = browser.press(leader, "p")
    expect("p pauses the focused node", frame["nodes"][leader - 1]["paused"], frame["nodes"][leader - 1])
    frame = browser.seek(2)
    expect("a paused leader does not act", frame["split"] == 0 and not frame["nodes"][leader - 1]["acts"], frame["split"])
    browser.press(leader, "p")
    frame = browser.seek(2.1)
    expect("bully has two that act when the old leader resumes", frame["split"] > 0, frame["split"])
    frame = browser.press(1, "\ue007")
    expect("Enter crashes the focused node", not frame["nodes"][0]["up"], frame["nodes"][0])


def test_partition(browser, page):
    from selenium.webdriver.common.action_chains import ActionChains  # pylint: disable=import-outside-toplevel
    from selenium.webdriver.common.by import By  # pylint: disable=import-outside-toplevel
    browser.open(page + "#a=bully")
    browser.seek(1)
    stage = browser.driver.find_element(By.ID, "stage")
    width, height = stage.size["width"], stage.size["height"]
    chain = ActionChains(browser.driver, duration=50)
    chain.move_to_element_with_offset(stage, -int(width * 0.1), -int(height * 0.48)).click_and_hold()
    chain.move_by_offset(int(width * 0.2), int(height * 0.95)).release().perform()
    frame = browser.seek(3)
    expect("a line between the nodes splits the network", frame["split"] > 1e9, frame["split"])
    browser.driver.find_element(By.ID, "heal").click()
    healed = browser.seek(6)
    expect("after the network heals one leads", healed["leader"] > 0, healed["leader"])
    groups = browser.ask("""const stage = document.getElementById("stage"), box = (id) => stage.querySelector(`[data-id='${id}'] circle`).getBoundingClientRect();
        Object.assign(stage.style, {aspectRatio: "auto", height: `${2 * stage.clientWidth}px`});
        const y = (box(1).bottom + box(2).top) / 2, x = stage.getBoundingClientRect();
        for (const [kind, clientX] of [["pointerdown", x.left + 2], ["pointermove", x.left + 50], ["pointerup", x.right - 2]])
            stage.dispatchEvent(new PointerEvent(kind, {clientX, clientY: y, pointerId: 1, bubbles: true}));
        return page.world.inputs.at(-1).groups;""")
    alone = groups and groups[1] not in groups[2:6] and len(set(groups[2:6])) == 1
    expect("a line above nodes 2 and 5 cuts off node 1, whatever the shape of the page", alone, groups)


def test_compare(browser, page):
    """Two algorithms under the same seed and the same clicks."""
    from selenium.webdriver.common.by import By  # pylint: disable=import-outside-toplevel
    browser.open(page + "#a=bully&v=raft&f=2000000000~partition~0~0~0~0~011122&at=5000000000")
    both = browser.ask("return [page.frame.split, page.otherFrame.split]")
    expect("the partition splits bully, and not raft beside it", both[0] > 1e9 and both[1] == 0, both)
    cells = browser.ask("return document.querySelectorAll('#figures tr:nth-child(2) td').length")
    expect("the figures of both are shown", cells == 2, cells)
    browser.driver.find_element(By.CSS_SELECTOR, "#stage2 [data-id='2']").click()
    end = browser.ask("page.scrub(7e9); return [page.frame, page.otherFrame]")
    expect("a click crashes the node in both", not any(frame["nodes"][1]["up"] for frame in end), [frame["nodes"][1] for frame in end])
    again = browser.ask("page.scrub(1e9); page.scrub(7e9); return [page.frame, page.otherFrame]")
    expect("scrubbing gives the same state of both", again == end, again)
    browser.ask("page.remember()")
    browser.open(browser.driver.current_url)
    shared = browser.ask("return [page.frame.hash, page.otherFrame.hash]")
    expect("the shared address repeats both", shared == [frame["hash"] for frame in end], shared)


def choose(browser, name, value):
    browser.ask("""const element = document.getElementById(arguments[0]); element.value = arguments[1];
        element.dispatchEvent(new Event("change", {bubbles: true}));""", name, value)


def test_by_hand(browser, page, bellwether):
    from selenium.webdriver.common.by import By  # pylint: disable=import-outside-toplevel
    browser.open(page)
    browser.seek(2)
    choose(browser, "tool", "transfer")
    browser.click_node(2)
    frame = browser.seek(3)
    expect("transfer makes the clicked node the leader", frame["leader"] == 2, frame["leader"])
    browser.driver.find_element(By.ID, "join").click()
    frame = browser.seek(4)
    expect("a node joins", len(frame["nodes"]) == 6 and frame["nodes"][5]["up"] and frame["nodes"][5]["member"], frame["nodes"][5:])
    choose(browser, "tool", "leave")
    browser.click_node(4)
    frame = browser.seek(5)
    expect("a node leaves", not frame["nodes"][3]["member"], frame["nodes"][3])
    choose(browser, "tool", "cut")
    browser.click_node(1)
    browser.click_node(3)
    cuts = browser.ask("return [...page.world.cuts()]")
    expect("two clicks cut one direction", cuts == ["1>3"], cuts)
    choose(browser, "tool", "clock")
    browser.click_node(3)
    choose(browser, "lossNow", "10")
    choose(browser, "latencyNow", "20")
    frame = browser.seek(8)
    kinds = browser.ask("return page.world.inputs.map((input) => input.kind)")
    expect("every action is an input of the run", kinds == ["transfer", "join", "leave", "cut", "drift", "loss", "latency"], kinds)
    shown = browser.ask("return [page.world.resource.accepted, document.querySelectorAll('.write.accepted').length]")
    expect("the resource shows the writes", shown[0] > 20 and shown[1] > 0, shown)
    script = browser.ask("document.getElementById('script').click(); return page.copied")
    native = native_hash(bellwether, script)
    expect("bellwether sim run repeats the actions", native == frame["hash"], f"{native}, page {frame['hash']}\n{script}")
    browser.open(page)
    browser.ask("document.getElementById('text').value = arguments[0]; document.getElementById('load').click();", script)
    found = browser.ask("return [page.frame.hash, document.getElementById('message').textContent]")
    expect("a loaded script gives the same run", found == [frame["hash"], ""], found)


def test_store(browser, page):
    browser.open(page + "#a=lease-redlock&n=3&at=2000000000")
    for store in (4, 5, 6):
        browser.click_node(store)
    frame = browser.seek(8)
    expect("without three of five stores none leads", not any(node["leads"] for node in frame["nodes"]), frame["nodes"])
    for store in (4, 5, 6):
        browser.click_node(store)
    frame = browser.seek(16)
    expect("a click restarts the stores, and one leads", any(node["leads"] for node in frame["nodes"]), frame["nodes"])


def test_picture(browser, page):
    browser.open(page + "#at=3000000000")
    text = browser.ask("document.getElementById('save').click(); return page.picture")
    names = [element.tag.rsplit("}", 1)[1] for element in xml.etree.ElementTree.fromstring(text).iter()]
    expect("the picture is an SVG with nodes and lanes", names.count("circle") >= 5 and names.count("rect") > 5, names)


def test_bad_script(browser, page):
    browser.open(page)
    for script, words in (("nodes x\n", "invalid nodes"), ("algorithm raft\nat 2x crash 1", "line 2: invalid duration '2x'"),
                          ("at 1s explode 1", "line 1: the playground has no event 'explode'"), ("codec", "has no setting 'codec'"),
                          ("algorithm nosuch", "unknown algorithm 'nosuch'"), ("nodes 50\nspare 9", "too many"), ("at 1s partition 1/x", "invalid node 'x'")):
        browser.ask("page.load(arguments[0])", script)
        text = browser.ask("return document.getElementById('message').textContent")
        expect(f"script {script.split()[0]} {script.split()[-1]} is refused with a reason", words in text, text)


def test_still(browser, page):
    features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.open(page + "#a=bully&at=1000500000")
    found = browser.ask("""const {from, to} = page.frame.messages[0]; const dot = document.querySelector("#stage .dot");
        return [Number(dot.getAttribute("cx")), (page.stage.place(from)[0] + page.stage.place(to)[0]) / 2]""")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    expect("messages do not move if the reader prefers no animation", abs(found[0] - found[1]) < 0.1, found)


def test_play(browser, page):
    for nodes in (5, 25):
        browser.open(f"{page}#n={nodes}")
        times = browser.ask("""const done = arguments[0]; document.getElementById("play").click();
            (function wait() { (page.times ?? []).length < 120 ? setTimeout(wait, 20) : done(page.times.slice().sort((a, b) => a - b)); })();""",
                            wait=True)
        expect(f"play moves the time of {nodes} nodes", browser.ask("return page.frame.now") > 0, "0")
        pieces = browser.ask("return page.world.records.filter((record) => record.kind <= 5).length")
        expect(f"frames do not cut the intervals of {nodes} nodes", pieces < 40, pieces)
        print(f"# {nodes} nodes: script time per frame: median {times[len(times) // 2]:.2f} ms, p95 {times[len(times) * 95 // 100]:.2f} ms; "
              f"first frame after {browser.ask('return page.firstFrame'):.0f} ms")


def take_pictures(browser, page, folder):
    os.makedirs(folder, exist_ok=True)
    for name, address in (("playground", "#s=6&f=2000000000~pause~5~0~0~0~;5000000000~resume~5~0~0~0~&m=fence&at=6000000000"),
                          ("playground-compare", "#a=bully&v=raft&f=2000000000~partition~0~0~0~0~011122&at=4503000000")):
        browser.open(page + address)
        browser.driver.save_screenshot(os.path.join(folder, f"{name}.png"))


def test_bad_address(browser, page):
    for address, words in (("#a=nosuch", "unknown algorithm 'nosuch'"), ("#n=x", "invalid nodes 'x'"), ("#n=4.5", "invalid nodes"),
                           ("#l=9000000", "latency"), ("#n=49&a=stable&q=7&s=1e99", "seed"), ("#f=1~explode~1", "invalid event")):
        browser.open(page + address)
        text = browser.ask("return document.getElementById('message').textContent")
        expect(f"{address} is refused with a reason", words in text, text)


def test_lessons(browser, page, bellwether):
    browser.open(page)
    lessons = browser.ask("return [...document.getElementById('lesson').options].map((option) => option.value).filter((id) => id)")
    expect("there are thirteen lessons", len(lessons) == 13, lessons)
    for name in lessons:
        browser.open(page)
        # plays at the highest speed, from the choice in the list to the end
        found = browser.ask("""const [name, done] = arguments; const get = (id) => document.getElementById(id);
            get("speed").value = 2; get("lesson").value = name; get("lesson").dispatchEvent(new Event("change", {bubbles: true}));
            (function wait() {
                if (page.running) return setTimeout(wait, 20);
                get("script").click();
                done({holds: page.lesson.holds(page.world.frame(), page.world, page.other), shown: get("steps").children.length,
                      steps: page.lesson.steps.length, hash: page.frame.hash, script: page.copied,
                      message: get("message").textContent, now: page.frame.now, until: page.lesson.until});
            })();""", name, wait=True)
        expect(f"lesson {name} plays to its end and shows what it says",
               found["holds"] and found["shown"] == found["steps"] and found["now"] == found["until"], found)
        native = native_hash(bellwether, found["script"])
        expect(f"lesson {name} has the same trace in bellwether sim run", native == found["hash"], f"{native}\n{found}")


def test_every_algorithm(browser, page):
    browser.open(page)
    without = []
    for name in browser.ask("return page.world.algorithms"):
        browser.open(f"{page}#a={name}")
        if not browser.seek(4)["leader"]:
            without.append(name)
    expect("every algorithm elects a leader", not without, without)


def answer_of(address, method="GET"):
    """Returns the status and the headers."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method=method), timeout=120) as answer:
            answer.read()
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


def raw_answer(port, request):
    with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
        client.sendall(request)
        return client.makefile("rb").readline().decode().strip()


def test_served(browser, bellwether):
    """The page from `bellwether sim play`, in the browser and with hostile clients beside it."""
    with subprocess.Popen([bellwether, "sim", "play", "--no-open"], stdout=subprocess.PIPE, text=True) as server:
        try:
            line = server.stdout.readline()
            address = line.split()[1] if len(line.split()) > 1 else line
            expect("sim play prints its address", address.startswith("http://127.0.0.1:"), line)
            port = int(address.rstrip("/").rsplit(":", 1)[1])
            idle = [socket.create_connection(("127.0.0.1", port), timeout=120) for _ in range(40)]
            browser.open(address)
            leader = browser.seek(2)["leader"]
            browser.click_node(leader)
            frame = browser.seek(4)
            expect("sim play: a click kills the leader and another leads", frame["leader"] not in (0, leader), frame["leader"])
            loaded = browser.ask("return performance.getEntriesByType('resource').map((entry) => entry.name)")
            expect("sim play: the page requests nothing else", all(name.endswith("/favicon.ico") for name in loaded), loaded)
            status, headers = answer_of(address)
            policy = headers["Content-Security-Policy"]
            expect("sim play: the policy permits only the page's own script", status == 200 and "default-src 'none'" in policy
                   and "'unsafe-inline'" not in policy and "frame-ancestors 'none'" in policy, f"{status} {policy}")
            found = [answer_of(address + "other")[0], answer_of(address, "POST")[0], answer_of(address, "HEAD")[0],
                     raw_answer(port, b"GET / HTTP/1.1\r\nA: " + b"a" * 9000)[:12], raw_answer(port, b"GET /\0 HTTP/1.1\r\n\r\n")[:12],
                     raw_answer(port, b"\r\n\r\n")[:12]]
            expect("sim play refuses other requests", found == [404, 405, 200, "HTTP/1.1 431", "HTTP/1.1 400", "HTTP/1.1 400"], found)
            for client in idle:
                client.close()
        finally:
            server.send_signal(signal.SIGINT)
        expect("Ctrl-C ends sim play", server.wait() == 0, server.returncode)


def test_unserved(bellwether, scratch):
    """What `bellwether sim play` says if it cannot serve."""
    alone = shutil.copy(bellwether, os.path.join(scratch, "bellwether"))
    for program, words, code, text in ((alone, [], 69, "make playground"), (bellwether, ["--listen", "localhost"], 64, "expected IP:PORT"),
                                       (bellwether, ["--listen", "192.0.2.1:1"], 69, "cannot listen on 192.0.2.1:1")):
        done = subprocess.run([program, "sim", "play", "--no-open", *words], capture_output=True, text=True, check=False)
        expect(f"sim play {' '.join(words)} says what is wrong", done.returncode == code and text in done.stderr, done)


def main():
    build, bellwether = sys.argv[1:3]
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            skip(f"{program} is not installed")
    made = subprocess.run([os.path.join(TOP, "web/build.py"), build], stdout=sys.stderr, check=False)
    if made.returncode == 77:
        skip("no compiler for WebAssembly")
    page = "file://" + os.path.abspath(os.path.join(build, "playground/index.html"))
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(profile)
        try:
            test_click(browser, page, bellwether)
            test_keyboard(browser, page)
            test_partition(browser, page)
            test_compare(browser, page)
            test_by_hand(browser, page, bellwether)
            test_store(browser, page)
            test_picture(browser, page)
            test_bad_script(browser, page)
            test_still(browser, page)
            test_play(browser, page)
            test_bad_address(browser, page)
            test_lessons(browser, page, bellwether)
            test_every_algorithm(browser, page)
            take_pictures(browser, page, sys.argv[3] if len(sys.argv) > 3 else os.path.join(build, "pictures"))
            test_served(browser, bellwether)
            test_unserved(bellwether, profile)
            browser.open(page)
            loaded = browser.ask("return performance.getEntriesByType('resource').map((entry) => entry.name)")
            expect("the page requests nothing", not loaded, loaded)
            errors = [entry for entry in browser.driver.get_log("browser") if entry["level"] != "INFO"]
            expect("the console shows no error", not errors, errors)
        finally:
            browser.driver.quit()
    print(f"1..{len(results)}")
    sys.exit(any(results))


if __name__ == "__main__":
    main()
