// A simulated run: the WebAssembly module behind an interface of plain objects. A run is a function of its settings and of
// the faults that the user injected, each with its time; so any instant can be reached again.
import { wasi } from "./wasi.js";

const HEAD = 24;
const NODE = 14;
const FLIGHT = 6;
const RECORD = 6;
const GROUPS = 56; // bytes of the buffer for the groups of a partition

// As in enum bw_sim_fault_kind (sim/sim.h).
export const FAULTS = {
  crash: 0, restart: 1, pause: 2, resume: 3, partition: 4, cut: 5, mend: 6, heal: 7, loss: 8, latency: 9, drift: 10,
  join: 16, leave: 17, resign: 19, transfer: 20, "store-down": 21, "store-up": 22,
};
export const FAULT_NAMES = Object.fromEntries(Object.entries(FAULTS).map(([name, kind]) => [kind, name]));
// As in enum record (web/wasm/play.c).
export const RECORDS = {
  led: 0, acted: 1, noneActed: 2, oneActed: 3, twoActed: 4, agreed: 5,
  candidate: 10, leads: 11, loses: 12, suspects: 13, fault: 14, wrote: 15,
};

export const DEFAULTS = {
  algorithm: "raft", detector: "deadline", nodes: 5, seed: 1, latencyMin: 1e6, latencyMax: 5e6, loss: 0, quorum: 0, ttl: 3e9,
  drift: 0, spare: 0, versus: "",
};
const SHOWN_WRITES = 12;

// Returns the settings of the second run of a comparison: another algorithm, or another detector ("detector phi").
export function versusOf(settings) {
  const { versus } = settings;
  return versus.startsWith("detector ") ? { ...settings, detector: versus.slice(9) } : { ...settings, algorithm: versus };
}

// `module`: a WebAssembly.Module. Every world has an instance of its own, so two can run side by side.
export async function createWorld(module) {
  const host = wasi(["play"], () => {});
  const names = WebAssembly.Module.imports(module).map((entry) => entry.name);
  const imports = Object.fromEntries(names.map((name) => [name, host.imports[name]]));
  const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: imports });
  host.attach(instance);
  instance.exports._initialize?.();
  return new World(instance.exports);
}

export class World {
  constructor(exports) {
    this.wasm = exports;
    this.settings = { ...DEFAULTS };
    this.inputs = []; // {at, kind, node, peer, rate, span, groups}, sorted by time
    this.records = [];
    this.open = new Map();
    this.now = 0;
    this.messageNames = this.names(2);
    this.algorithms = [...this.names(0), ...this.names(3).map((store) => `lease-${store}`)];
    this.detectors = this.names(1);
  }

  bytes() {
    return new Uint8Array(this.wasm.memory.buffer);
  }

  putText(text) {
    const encoded = new TextEncoder().encode(text).slice(0, 1000);
    const at = this.wasm.play_text();
    this.bytes().set(encoded, at);
    this.bytes()[at + encoded.length] = 0;
  }

  text() {
    const at = this.wasm.play_text();
    const all = this.bytes().subarray(at, at + 1024);
    return new TextDecoder().decode(all.slice(0, all.indexOf(0)));
  }

  names(list) {
    const found = [];
    for (let i = 0; i < 200; i++) {
      if (this.wasm.play_name(list, i) === 0) {
        if (list !== 2 || i > 0) break;
        found.push("");
        continue;
      }
      found.push(this.text());
    }
    return found;
  }

  check(code) {
    if (code !== 0) throw new Error(this.text() || `error ${code}`);
  }

  number(name, value) {
    this.putText(name);
    this.check(this.wasm.play_number(value));
  }

  // Starts the run again from time 0; keeps the inputs.
  begin(settings = this.settings) {
    this.wasm.play_reset();
    this.number("ttl", settings.ttl);
    this.putText(settings.algorithm);
    this.check(this.wasm.play_algorithm());
    this.putText(settings.detector);
    this.check(this.wasm.play_detector());
    this.number("nodes", settings.nodes);
    this.number("seed", settings.seed);
    this.number("latency-min", settings.latencyMin);
    this.number("latency-max", settings.latencyMax);
    this.number("loss", settings.loss);
    this.number("quorum", settings.quorum);
    this.number("drift", settings.drift);
    this.number("spare", settings.algorithm.startsWith("lease") ? 0 : settings.spare);
    this.check(this.wasm.play_begin());
    this.settings = { ...settings };
    this.records = [];
    this.open = new Map(); // the last interval of each kind
    this.now = 0;
    this.next = 0;
    this.wasm.play_promise();
    this.promise = this.text();
    this.detects = this.wasm.play_detects() !== 0;
    this.guards = this.wasm.play_guards() !== 0;
    this.resource = { token: 0, accepted: 0, rejected: 0, last: [] };
    this.collect();
  }

  // Goes to time `at`, with the inputs on the way; backwards by a new run.
  seek(at) {
    if (at < this.now) this.begin();
    while (this.next < this.inputs.length && this.inputs[this.next].at <= at) {
      const input = this.inputs[this.next++];
      this.check(this.wasm.play_step_until(Math.max(input.at, this.now)));
      this.now = Math.max(input.at, this.now);
      this.apply(input);
    }
    this.check(this.wasm.play_step_until(at));
    this.now = at;
    this.collect();
  }

  // Handles one event.
  step() {
    const frame = this.frame();
    if (frame.next < 0) return;
    this.seek(frame.next + 1);
  }

  // Returns whether the fault was possible.
  apply(input) {
    if (input.groups) {
      const at = this.wasm.play_groups();
      this.bytes().fill(0, at, at + GROUPS);
      this.bytes().set(input.groups.slice(0, GROUPS), at);
    }
    const code = this.wasm.play_fault(
      FAULTS[input.kind], input.node ?? 0, input.peer ?? 0, input.rate ?? 0, input.span ?? 0,
    );
    this.refusal = code === 0 ? "" : this.text();
    this.collect();
    return code === 0;
  }

  // Returns the links that are cut now, as "from>to".
  cuts() {
    const found = new Set();
    for (const { kind, node, peer } of this.inputs.slice(0, this.next)) {
      if (kind === "cut") found.add(`${node}>${peer}`);
      if (kind === "mend") found.delete(`${node}>${peer}`);
      if (kind === "heal") found.clear();
    }
    return found;
  }

  // Counts a write to the resource.
  write({ node, other, term, from }) {
    const { resource } = this;
    if (other === 2) resource.rejected++;
    else resource.accepted++;
    if (other !== 2) resource.token = term;
    resource.last.push({ node, token: term, kind: ["", "accepted", "rejected", "stale"][other], at: from });
    if (resource.last.length > SHOWN_WRITES) resource.last.shift();
  }

  // Injects a fault now. What the user did at later times is dropped: the run takes another course.
  inject(input) {
    const complete = { ...input, at: this.now };
    this.inputs = this.inputs.slice(0, this.next);
    if (!this.apply(complete)) return false;
    this.inputs.push(complete);
    this.next = this.inputs.length;
    return true;
  }

  collect() {
    const count = this.wasm.play_count();
    const values = new Float64Array(this.wasm.memory.buffer, this.wasm.play_records(), count * RECORD);
    for (let i = 0; i < count; i++) {
      const [kind, from, to, node, other, term] = values.subarray(i * RECORD, (i + 1) * RECORD);
      this.add({ kind, from, to, node, other, term });
    }
    this.wasm.play_clear();
  }

  // Adds a record. Each frame cuts the intervals; a piece that continues the last one extends it.
  add(record) {
    if (record.kind === RECORDS.wrote) this.write(record);
    const interval = record.kind <= RECORDS.agreed;
    const key = record.kind <= RECORDS.acted ? `${record.kind} ${record.node}` : record.kind === RECORDS.agreed ? "agreed" : "acting";
    const last = interval && this.open.get(key);
    if (last && last.kind === record.kind && last.to === record.from && last.term === record.term && (last.node === record.node || key === "acting")) {
      last.to = record.to;
      return;
    }
    if (interval) this.open.set(key, record);
    this.records.push(record);
  }

  frame() {
    const at = this.wasm.play_frame();
    this.collect();
    const head = new Float64Array(this.wasm.memory.buffer, at, HEAD);
    const [ids, flights] = [head[2], head[3]];
    const values = new Float64Array(this.wasm.memory.buffer, at, HEAD + NODE * ids + FLIGHT * flights);
    const nodes = [];
    for (let i = 0; i < ids; i++) {
      const v = values.subarray(HEAD + i * NODE, HEAD + (i + 1) * NODE);
      nodes.push({
        id: v[0], store: v[1] > 0, member: v[2] > 0, up: v[3] > 0, paused: v[4] > 0, leads: v[5] > 0, electing: v[6] > 0,
        acts: v[7] > 0, leader: v[8], term: v[9], token: v[10], actFrom: v[11], actUntil: v[12], suspects: v[13],
      });
    }
    const messages = [];
    for (let i = 0; i < flights; i++) {
      const v = values.subarray(HEAD + NODE * ids + i * FLIGHT, HEAD + NODE * ids + (i + 1) * FLIGHT);
      messages.push({ from: v[0], to: v[1], kind: v[2], sent: v[3], arrives: v[4], term: v[5] });
    }
    return {
      now: head[0], next: head[1], nodes, messages, leader: head[4], term: head[6], noticed: head[7], timeToLeader: head[8],
      timeToAct: head[9], timeToAgree: head[10], leaderless: head[11], noneActed: head[12], split: head[13], sent: head[14],
      elections: head[16], changes: head[17], writes: head[18], staleTried: head[19], staleAccepted: head[20],
      events: head[21], hash: head[22].toString(16).padStart(8, "0") + head[23].toString(16).padStart(8, "0"),
    };
  }
}
