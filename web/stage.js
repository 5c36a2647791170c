// The stage: nodes in a circle, messages on their way, leases as arcs that run out. Drawn as SVG, so that nodes can be
// focused and read by a screen reader.

const NS = "http://www.w3.org/2000/svg";
const SIZE = 600;
const MIDDLE = SIZE / 2;
const HUES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#8c6d31"];

export function hue(id) {
  return HUES[(id - 1) % HUES.length];
}

function make(parent, name, attributes = {}) {
  const element = document.createElementNS(NS, name);
  set(element, attributes);
  parent.append(element);
  return element;
}

// Sets only what has changed: a frame must be cheap.
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function state(node) {
  if (!node.up) return node.member || node.store ? "down" : "absent";
  if (node.paused) return node.leads ? "paused leader" : "paused";
  if (node.acts) return "leader";
  if (node.leads) return "leader, may not act";
  return node.electing ? "candidate" : "follower";
}

export class Stage {
  // `act(kind, node)`: the user wants this. `split(groups)`: the user drew a line between the nodes.
  constructor(svg, { act, split }) {
    this.svg = svg;
    this.act = act;
    set(svg, { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "group", "aria-label": "nodes of the simulated cluster" });
    this.links = make(svg, "g");
    this.createResource();
    this.dots = make(svg, "g");
    this.nodes = make(svg, "g");
    this.line = make(svg, "line", { class: "knife", visibility: "hidden" });
    this.dotPool = [];
    this.parts = [];
    this.drag(split);
  }

  // The resource that the leader writes to: its highest token, and a mark for each of the last writes.
  createResource() {
    const group = make(this.svg, "g", { transform: "translate(478 548)", class: "resource", role: "img" });
    make(group, "rect", { width: 120, height: 50, rx: 5 });
    this.resource = { group, title: make(group, "text", { x: 6, y: 15 }), counts: make(group, "text", { x: 6, y: 30 }), marks: [], key: "" };
  }

  drawResource({ token, accepted, rejected, last }) {
    const { group, title, counts, marks } = this.resource;
    const key = `${accepted} ${rejected}`;
    if (key === this.resource.key) return;
    this.resource.key = key;
    put(title, `resource · token ${token}`);
    put(counts, `${accepted} writes, ${rejected} rejected`);
    set(group, { "aria-label": `resource: token ${token}, ${accepted} writes accepted, ${rejected} rejected` });
    for (let i = 0; i < Math.max(last.length, marks.length); i++) {
      marks[i] ??= make(group, "circle", { cx: 9 + i * 9.3, cy: 41, r: 3.5 });
      set(marks[i], { class: `write ${last[i]?.kind ?? "none"}`, stroke: last[i] ? hue(last[i].node) : "none" });
    }
  }

  // Links that lose every message in one direction: from the first node to the arrow at the second.
  drawCuts(cuts) {
    const key = [...cuts].join(" ");
    if (key === this.cutKey && this.cutParts === this.parts) return;
    [this.cutKey, this.cutParts] = [key, this.parts];
    this.links.replaceChildren();
    for (const cut of cuts) {
      const [from, to] = cut.split(">").map(Number);
      if (!this.parts[from - 1] || !this.parts[to - 1]) continue;
      const [[x1, y1], [x2, y2]] = [this.place(from), this.place(to)];
      const far = Math.hypot(x2 - x1, y2 - y1) || 1;
      const [dx, dy] = [(x2 - x1) / far, (y2 - y1) / far];
      const [tx, ty] = [x2 - dx * (this.radius + 6), y2 - dy * (this.radius + 6)];
      make(this.links, "path", {
        class: "cut",
        d: `M ${x1} ${y1} L ${tx} ${ty} M ${tx - 12 * dx - 7 * dy} ${ty - 12 * dy + 7 * dx} L ${tx} ${ty} L ${tx - 12 * dx + 7 * dy} ${ty - 12 * dy - 7 * dx}`,
      });
    }
  }

  place(id) {
    return this.parts[id - 1].at;
  }

  layout(nodes) {
    if (this.parts.length === nodes.length && this.parts.every((part, i) => part.store === nodes[i].store)) return;
    this.nodes.replaceChildren();
    const members = nodes.filter((node) => !node.store).length;
    const stores = nodes.length - members;
    const radius = members > 12 ? 14 : members > 7 ? 20 : 27;
    this.radius = radius;
    this.parts = nodes.map((node, i) => {
      const store = node.store;
      const angle = store ? ((i - members) / stores) * 2 * Math.PI : (i / members) * 2 * Math.PI - Math.PI / 2;
      const away = store ? (stores > 1 ? 70 : 0) : 225;
      const at = [MIDDLE + away * Math.cos(angle), MIDDLE + away * Math.sin(angle)];
      return this.createNode(node, at, store);
    });
  }

  createNode(node, [x, y], store) {
    const group = make(this.nodes, "g", { transform: `translate(${x} ${y})`, class: "node", tabindex: 0, role: "button" });
    group.dataset.id = node.id;
    const part = {
      group, at: [x, y], store,
      body: store ? make(group, "rect", { x: -18, y: -18, width: 36, height: 36, rx: 5 }) : make(group, "circle", { r: this.radius }),
      arc: make(group, "path", { class: "lease" }),
      label: make(group, "text", { y: 5, class: "id" }),
      note: make(group, "text", { y: this.radius + 20, class: "note" }),
    };
    put(part.label, store ? "store" : String(node.id));
    const keys = { Enter: "tool", p: "pause", l: "leave", t: "transfer", c: "cut" };
    group.addEventListener("click", (event) => this.act(event.shiftKey ? "pause" : "tool", node.id));
    group.addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
      this.act(keys[event.key], node.id);
      event.preventDefault();
    });
    return part;
  }

  // A line that the user draws cuts the nodes into two groups.
  drag(split) {
    let from = null;
    const point = (event) => {
      const { a, d, e, f } = this.svg.getScreenCTM(); // the box of the element need not be square
      return [(event.clientX - e) / a, (event.clientY - f) / d];
    };
    this.svg.addEventListener("pointerdown", (event) => {
      if (!event.target.closest(".node")) from = point(event);
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [x, y] = point(event);
      set(this.line, { x1: from[0], y1: from[1], x2: x, y2: y, visibility: "visible" });
    });
    window.addEventListener("pointerup", (event) => {
      if (!from) return;
      const [to, start] = [point(event), from];
      from = null;
      set(this.line, { visibility: "hidden" });
      if (Math.hypot(to[0] - start[0], to[1] - start[1]) < 60) return;
      const side = ([x, y]) => ((to[0] - start[0]) * (y - start[1]) - (to[1] - start[1]) * (x - start[0]) > 0 ? 1 : 2);
      const groups = [0, ...this.parts.map((part) => side(part.at))];
      if (new Set(groups.slice(1)).size === 2) split(groups);
    });
  }

  arcPath(part, until) {
    const r = this.radius + 6;
    if (!(until > 0)) return "";
    const angle = Math.min(until, 0.9999) * 2 * Math.PI;
    return `M 0 ${-r} A ${r} ${r} 0 ${angle > Math.PI ? 1 : 0} 1 ${r * Math.sin(angle)} ${-r * Math.cos(angle)}`;
  }

  drawNode(node, part, frame, lease, chosen) {
    const kind = state(node);
    const paint = node.leads && node.up ? hue(node.id) : "";
    set(part.group, { class: `node ${kind.split(",")[0].replace(" ", "-")}${part.store ? " store" : ""}${chosen === node.id ? " chosen" : ""}` });
    set(part.body, { stroke: hue(node.id) });
    const fill = paint && node.acts ? paint : "";
    if (part.fill !== fill) part.body.style.fill = part.fill = fill;
    const left = node.leads && node.actUntil > frame.now ? (node.actUntil - frame.now) / lease : 0;
    set(part.arc, { d: node.leads && node.actUntil > 0 && node.actUntil < 1e15 ? this.arcPath(part, left) : "", stroke: hue(node.id) });
    put(part.note, part.store ? "" : node.leads ? `term ${node.term}${node.token ? ` · token ${node.token}` : ""}` : node.up ? "" : kind === "absent" ? "not a member" : "down");
    set(part.group, { "aria-label": part.store ? `store, ${kind === "follower" ? "running" : kind}` : `node ${node.id}, ${kind}, term ${node.term}; Enter: the chosen action, p: pause or resume` });
  }

  // `still`: the reader prefers no animation; messages rest in the middle of their way.
  draw(frame, world, { chosen, still }) {
    const [names, { settings }] = [world.messageNames, world];
    const lease = settings.algorithm.startsWith("lease") ? settings.ttl : 1e9;
    this.layout(frame.nodes);
    this.drawResource(world.resource);
    this.drawCuts(world.cuts());
    frame.nodes.forEach((node, i) => this.drawNode(node, this.parts[i], frame, lease, chosen));
    frame.messages.forEach((message, i) => {
      const dot = (this.dotPool[i] ??= make(this.dots, "circle", { r: 4 }));
      const part = still ? 0.5 : (frame.now - message.sent) / Math.max(message.arrives - message.sent, 1);
      const [[x1, y1], [x2, y2]] = [this.place(message.from), this.place(message.to)];
      const routine = names[message.kind] === "~" || names[message.kind]?.startsWith("APPEND");
      set(dot, {
        cx: (x1 + (x2 - x1) * part).toFixed(1), cy: (y1 + (y2 - y1) * part).toFixed(1), visibility: "visible",
        r: names[message.kind] === "~" ? 2 : 5, class: routine ? "dot routine" : "dot", fill: routine ? "" : hue(message.from),
      });
    });
    for (let i = frame.messages.length; i < this.dotPool.length; i++) set(this.dotPool[i], { visibility: "hidden" });
  }
}
