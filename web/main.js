// The page: settings, controls, the clock that moves the run, and what the user does to it.
import { DEFAULTS, FAULT_NAMES, RECORDS, createWorld, versusOf } from "./world.js";
import { Stage } from "./stage.js";
import { drawLanes } from "./lanes.js";
import { LESSONS } from "./lessons.js";
import { picture } from "./picture.js";
import { fromAddress, fromScript, toAddress, toScript } from "./share.js";

const WINDOW = 5e9; // the lanes show at least this much time
const LIMIT = 600e9; // and the run stops here
const LOG_MAX = 200;
const STILL = window.matchMedia("(prefers-reduced-motion: reduce)");
const STILL_MS = 500; // between two pictures, if the reader prefers no animation
const $ = (id) => document.getElementById(id);

function span(ns) {
  if (ns < 0) return "never";
  return ns >= 1e9 ? `${(ns / 1e9).toFixed(3)} s` : `${(ns / 1e6).toFixed(1)} ms`;
}

const SENTENCES = {
  [RECORDS.candidate]: (r) => `node ${r.node} becomes a candidate`,
  [RECORDS.leads]: (r) => `node ${r.node} leads term ${r.term}${r.other ? `, token ${r.other}` : ""}`,
  [RECORDS.loses]: (r) => `node ${r.node} stops leading`,
  [RECORDS.suspects]: (r) => `node ${r.node} suspects node ${r.other}`,
  [RECORDS.fault]: (r) => `${FAULT_NAMES[r.other] ?? "fault"}${r.node ? ` of node ${r.node}` : ""}`,
  [RECORDS.agreed]: (r) => `all running nodes follow ${r.node}`,
  [RECORDS.twoActed]: (r) => `SPLIT BRAIN: ${r.node} and ${r.other} both act for ${span(r.to - r.from)}`,
  [RECORDS.wrote]: (r) => (r.other === 1 ? null : `a stale write of node ${r.node} is ${r.other === 3 ? "ACCEPTED" : "rejected"}`),
};

class Page {
  // `other`: the second run of a comparison, with the same seed and the same inputs.
  constructor(world, other) {
    this.world = world;
    this.other = other;
    this.running = false;
    this.end = WINDOW;
    this.chosen = 0; // the node at which a cut begins
    const does = { act: (kind, id) => this.act(kind, id), split: (groups) => this.inject({ kind: "partition", groups }) };
    this.stage = new Stage($("stage"), does);
    this.stage2 = new Stage($("stage2"), does);
    for (const name of world.algorithms) $("algorithm").append(new Option(name, name));
    for (const name of world.detectors) $("detector").append(new Option(name, name));
    $("versus").append(new Option("nothing", ""), ...world.algorithms.map((name) => new Option(name, name)),
      ...world.detectors.map((name) => new Option(`the same with detector ${name}`, `detector ${name}`)));
    $("lesson").append(new Option("none: play freely", ""), ...LESSONS.map(({ id, title }) => new Option(title, id)));
    this.listen();
    this.open(location.hash);
  }

  listen() {
    $("settings").addEventListener("change", (event) => event.target !== $("lesson") && this.change());
    $("lesson").addEventListener("change", () => this.teach($("lesson").value));
    $("settings").addEventListener("submit", (event) => event.preventDefault());
    $("play").addEventListener("click", () => this.toggle());
    $("step").addEventListener("click", () => this.guard(() => this.stepOnce()));
    $("hand").addEventListener("submit", (event) => event.preventDefault());
    $("join").addEventListener("click", () => this.join());
    $("tool").addEventListener("change", () => this.choose(0));
    $("lossNow").addEventListener("change", () => this.inject({ kind: "loss", rate: this.limit("lossNow") / 100 }));
    $("latencyNow").addEventListener("change", () => this.inject({ kind: "latency", span: this.limit("latencyNow") * 1e6 }));
    $("load").addEventListener("click", () => this.load($("text").value));
    $("save").addEventListener("click", () => this.save());
    $("again").addEventListener("click", () => this.restart());
    $("heal").addEventListener("click", () => this.inject({ kind: "heal" }));
    $("speed").addEventListener("input", () => this.draw());
    $("scrub").addEventListener("input", () => this.scrub(($("scrub").value / 1000) * this.end));
    $("share").addEventListener("click", () => this.copy(location.href, "link copied"));
    $("script").addEventListener("click", () => {
      $("text").value = toScript(this.world, this.world.now);
      this.copy($("text").value, "script copied");
    });
    window.addEventListener("hashchange", () => location.hash !== this.address && this.open(location.hash));
    document.addEventListener("keydown", (event) => {
      const does = { " ": () => this.toggle(), ".": () => this.guard(() => this.stepOnce()), h: () => this.inject({ kind: "heal" }) }[event.key];
      if (event.target !== document.body || !does || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      does();
    });
  }

  // Runs an action of the user; shows why it failed.
  guard(action) {
    try {
      $("message").textContent = "";
      action();
    } catch (error) {
      this.running = false;
      $("message").textContent = error.message;
    }
    this.draw();
    this.remember();
  }

  open(hash) {
    this.guard(() => this.enter(fromAddress(hash)));
  }

  load(text) {
    this.guard(() => this.enter(fromScript(text)));
  }

  enter({ settings, inputs, now, lesson }) {
    this.lesson = LESSONS.find(({ id }) => id === lesson) ?? null;
    this.begin(settings, inputs);
    this.end = Math.max(WINDOW, Math.min(now, LIMIT));
    this.go(Math.min(now, LIMIT));
  }

  compares() {
    return this.world.settings.versus !== "";
  }

  // Goes to an instant, in both runs of a comparison.
  go(at) {
    this.world.seek(at);
    if (!this.compares()) return;
    this.other.inputs = this.world.inputs;
    this.other.seek(at);
  }

  stepOnce() {
    const times = [this.world, ...(this.compares() ? [this.other] : [])].map((world) => world.frame().next).filter((at) => at >= 0);
    if (times.length > 0) this.go(Math.min(...times) + 1);
  }

  // Begins a run; after invalid settings, one with the defaults.
  begin(settings, inputs) {
    this.end = WINDOW;
    try {
      this.world.inputs = inputs;
      this.world.begin(settings);
      if (!this.compares()) return;
      this.other.inputs = inputs;
      this.other.begin(versusOf(settings));
    } catch (error) {
      this.world.inputs = [];
      this.world.begin(DEFAULTS);
      throw error;
    } finally {
      this.show(this.world.settings);
    }
  }

  show(settings) {
    $("algorithm").value = settings.algorithm;
    $("nodes").value = settings.nodes;
    $("seed").value = settings.seed;
    $("latency").value = settings.latencyMax / 1e6;
    $("loss").value = settings.loss * 100;
    $("ttl").value = settings.ttl / 1e9;
    $("quorum").checked = settings.quorum > 0;
    $("detector").value = settings.detector;
    $("drift").value = settings.drift * 100;
    $("versus").value = settings.versus;
    $("lossNow").value = settings.loss * 100;
    $("latencyNow").value = settings.latencyMax / 1e6;
  }

  limit(id) {
    return Math.min(Math.max(Number($(id).value) || Math.max(Number($(id).min), 0), Number($(id).min)), Number($(id).max));
  }

  read() {
    const limit = (id) => this.limit(id);
    return {
      ...DEFAULTS, algorithm: $("algorithm").value, nodes: Math.round(limit("nodes")), seed: Math.round(limit("seed")),
      latencyMax: limit("latency") * 1e6, loss: limit("loss") / 100, ttl: limit("ttl") * 1e9, quorum: $("quorum").checked ? 1 : 0,
      detector: $("detector").value, drift: limit("drift") / 100, versus: $("versus").value,
    };
  }

  // Begins a lesson and plays it.
  teach(name) {
    this.lesson = LESSONS.find(({ id }) => id === name) ?? null;
    const { settings, inputs, until } = this.lesson ?? { settings: {}, inputs: [], until: WINDOW };
    this.guard(() => {
      this.begin({ ...DEFAULTS, ...settings }, inputs);
      this.end = until;
    });
    if (this.lesson && !this.running) this.toggle();
  }

  // Shows the steps of the lesson up to now.
  drawLesson(now) {
    const steps = this.lesson ? this.lesson.steps.filter(([at]) => at <= now) : [];
    const key = `${this.lesson?.id} ${steps.length}`;
    if (key === this.taught) return;
    this.taught = key;
    $("lesson").value = this.lesson?.id ?? "";
    $("steps").replaceChildren(...steps.map(([, text]) => {
      const item = document.createElement("li");
      item.textContent = text;
      return item;
    }));
  }

  change() {
    this.lesson = null;
    this.guard(() => this.begin(this.read(), []));
  }

  restart() {
    if (this.lesson) {
      this.teach(this.lesson.id);
      return;
    }
    this.guard(() => this.begin(this.world.settings, []));
  }

  // What a click on a node does.
  act(kind, id) {
    const tool = kind === "tool" ? $("tool").value : kind;
    const node = this.world.frame().nodes[id - 1] ?? { member: true, up: true };
    const absent = !node.member && !node.store && !node.up;
    const actions = {
      crash: () => ({ kind: absent ? "join" : node.up ? "crash" : "restart", node: id }),
      pause: () => ({ kind: node.paused ? "resume" : "pause", node: id }),
      leave: () => ({ kind: absent ? "join" : "leave", node: id }),
      transfer: () => ({ kind: "transfer", node: 0, peer: id }),
      clock: () => ({ kind: "drift", node: id, rate: this.limit("clock") / 100 }),
      cut: () => ({ kind: this.world.cuts().has(`${this.chosen}>${id}`) ? "mend" : "cut", node: this.chosen, peer: id }),
    };
    if (tool === "cut" && (this.chosen === 0 || this.chosen === id)) {
      this.choose(this.chosen === id ? 0 : id);
      return;
    }
    this.inject(actions[tool]());
    this.choose(0);
  }

  choose(id) {
    this.chosen = id;
    this.draw();
  }

  inject(input) {
    this.guard(() => this.put(input));
  }

  // Two inputs never share an instant: the program handles other events of the instant between them.
  put(input) {
    const { inputs, next, now } = this.world;
    if (next > 0 && inputs[next - 1].at === now) this.go(now + 1);
    if (!this.world.inject(input))
      throw new Error(`cannot ${input.kind} ${input.node ? `node ${input.node} ` : ""}now${this.world.refusal ? `: ${this.world.refusal}` : ""}`);
    if (!this.compares()) return;
    this.other.inputs = this.world.inputs;
    this.other.next = this.other.inputs.length;
    this.other.apply(input); // where it is impossible, it has no effect, as when the run is repeated
  }

  // Adds a node: the run begins again with room for one more, and goes to the same instant.
  join() {
    this.guard(() => {
      const [{ settings, now }, { end }] = [this.world, this];
      if (settings.algorithm.startsWith("lease")) throw new Error("cannot add a candidate to a running lease election; choose more nodes");
      this.begin({ ...settings, spare: settings.spare + 1 }, this.world.inputs.slice(0, this.world.next));
      this.end = end;
      this.go(now);
      this.put({ kind: "join", node: settings.nodes + settings.spare + 1 });
    });
  }

  // Offers the picture as a file.
  save() {
    this.picture = picture($("stage"), this.world, this.frame, this.end);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([this.picture], { type: "image/svg+xml" }));
    link.download = "election.svg";
    link.click();
    URL.revokeObjectURL(link.href);
  }

  scrub(at) {
    this.guard(() => this.go(at));
  }

  toggle() {
    this.running = !this.running;
    this.last = performance.now();
    if (this.running) requestAnimationFrame((now) => this.tick(now));
    this.guard(() => {});
  }

  speed() {
    return 10 ** Number($("speed").value);
  }

  tick(now) {
    if (!this.running) return;
    const passed = Math.min(Math.max(now - this.last, 0), 100) * 1e6 * this.speed(); // a frame may have begun before the click
    this.last = now;
    const begin = performance.now();
    try {
      const end = this.lesson && this.world.now < this.lesson.until ? this.lesson.until : LIMIT;
      this.go(Math.min(this.world.now + passed, end));
      if (this.world.now >= end) this.running = false;
    } catch (error) {
      this.running = false;
      $("message").textContent = error.message;
    }
    if (!STILL.matches || !this.running || now - (this.drawn ?? 0) >= STILL_MS) {
      this.drawn = now;
      this.draw();
    }
    (this.times ??= []).push(performance.now() - begin);
    if (this.running) requestAnimationFrame((next) => this.tick(next));
    else this.remember();
  }

  // Keeps the run in the address, so that a reload or a copy of the link shows it again.
  remember() {
    const { settings, inputs, now } = this.world;
    this.address = `#${toAddress(settings, inputs, now, this.lesson?.id)}`;
    history.replaceState(null, "", this.address);
  }

  copy(text, done) {
    this.copied = text;
    this.remember();
    const failed = () => ($("message").textContent = text);
    if (!navigator.clipboard) failed();
    else navigator.clipboard.writeText(text).then(() => ($("message").textContent = done), failed);
  }

  // One column for each run.
  drawFigures(frames) {
    const names = [this.world.settings.algorithm, this.world.settings.versus];
    const rows = [
      ["", (frame, i) => (frames.length > 1 ? names[i] : "")],
      ["leader", (frame) => (frame.leader ? `${frame.leader} (term ${frame.term})` : "none")],
      ["time to leader", (frame) => span(frame.timeToLeader)],
      ["no leader", (frame) => span(frame.leaderless)],
      ["no node acts (gap)", (frame) => span(frame.noneActed)],
      ["two act at once", (frame) => span(frame.split), (frame) => frame.split > 0],
      ["messages", (frame) => String(frame.sent)],
      ["elections", (frame) => String(frame.elections)],
      ["stale writes accepted", (frame) => `${frame.staleAccepted} of ${frame.writes}`, (frame) => frame.staleAccepted > 0],
    ];
    const table = $("figures");
    if (table.rows[0]?.cells.length !== frames.length + 1)
      table.replaceChildren(...rows.map(() => {
        const row = document.createElement("tr");
        row.append(document.createElement("th"), ...frames.map(() => document.createElement("td")));
        return row;
      }));
    rows.forEach(([name, value, bad], i) => {
      const [label, ...cells] = table.rows[i].cells;
      if (label.textContent !== name) label.textContent = name;
      cells.forEach((cell, column) => {
        const text = value(frames[column], column);
        if (cell.textContent !== text) cell.textContent = text;
        cell.className = bad?.(frames[column]) ? "bad" : "";
      });
    });
  }

  // The second run of a comparison, beside the first.
  drawOther() {
    const shown = this.compares();
    for (const id of ["stage2", "lanes2"]) if ($(id).hasAttribute("hidden") === shown) $(id).toggleAttribute("hidden", !shown);
    this.otherFrame = shown ? this.other.frame() : null;
    if (!shown) return [];
    this.stage2.draw(this.otherFrame, this.other, { chosen: this.chosen, still: STILL.matches });
    drawLanes($("lanes2"), this.other, this.otherFrame, this.end);
    return [this.otherFrame];
  }

  drawLog() {
    const count = this.world.records.length;
    if (count === this.logged && this.world.records === this.loggedOf) return;
    const lines = [];
    for (let i = count - 1; i >= 0 && lines.length < LOG_MAX; i--) {
      const record = this.world.records[i];
      const text = SENTENCES[record.kind]?.(record);
      if (text) lines.push([record.from, text]);
    }
    lines.sort((one, other) => other[0] - one[0]);
    $("log").replaceChildren(...lines.map(([at, text]) => {
      const item = document.createElement("li");
      item.textContent = `${(at / 1e9).toFixed(3)} s  ${text}`;
      return item;
    }));
    [this.logged, this.loggedOf] = [count, this.world.records];
  }

  draw() {
    const frame = this.world.frame();
    this.end = Math.max(this.end, frame.now * 1.02);
    this.stage.draw(frame, this.world, { chosen: this.chosen, still: STILL.matches });
    drawLanes($("lanes"), this.world, frame, this.end);
    this.drawFigures([frame, ...this.drawOther()]);
    this.drawLesson(frame.now);
    if (!this.running || this.world.records.length - (this.logged ?? 0) > 20 || this.world.records !== this.loggedOf) this.drawLog();
    $("time").textContent = `${(frame.now / 1e9).toFixed(3)} s`;
    $("rate").textContent = `${this.speed().toFixed(2)}×`;
    $("play").textContent = this.running ? "stop" : "play";
    $("promise").textContent = this.world.promise;
    $("scrub").value = Math.round((frame.now / this.end) * 1000);
    const summary = frame.leader ? `node ${frame.leader} leads, ${frame.nodes.filter((n) => !n.store && !n.up).length} down` : "no agreed leader";
    if ($("summary").textContent !== summary) $("summary").textContent = summary;
    this.frame = frame;
  }
}

export async function start(bytes) {
  const module = await WebAssembly.compile(bytes);
  const [world, other] = [await createWorld(module), await createWorld(module)];
  world.begin();
  window.page = new Page(world, other);
  window.page.firstFrame = performance.now();
}
