// A run as text: in the address of the page, and as a script for `bellwether sim run --script`.
import { DEFAULTS, FAULTS } from "./world.js";

const SHORT = {
  algorithm: "a", detector: "d", nodes: "n", seed: "s", latencyMin: "l", latencyMax: "L", loss: "p", quorum: "q", ttl: "t",
  drift: "c", spare: "j", versus: "v",
};
const INPUTS_MAX = 500;

function inputText(input) {
  const groups = input.groups ? input.groups.join("") : "";
  return [input.at, input.kind, input.node ?? 0, input.peer ?? 0, input.rate ?? 0, input.span ?? 0, groups].join("~");
}

// Returns the part of the address after '#'.
export function toAddress(settings, inputs, now, lesson = "") {
  const parts = Object.entries(SHORT)
    .filter(([name]) => settings[name] !== DEFAULTS[name])
    .map(([name, key]) => `${key}=${encodeURIComponent(settings[name])}`);
  if (inputs.length > 0) parts.push(`f=${inputs.map(inputText).join(";")}`);
  if (lesson !== "") parts.push(`m=${encodeURIComponent(lesson)}`);
  parts.push(`at=${Math.round(now)}`);
  return parts.join("&");
}

function parseInput(text) {
  const [at, kind, node, peer, rate, span, groups] = text.split("~");
  if (!(kind in FAULTS) || !(Number(at) >= 0)) throw new Error(`invalid event '${text}'`);
  const input = { at: Number(at), kind, node: Number(node), peer: Number(peer), rate: Number(rate), span: Number(span) };
  if (groups) input.groups = [...groups].map(Number);
  return input;
}

// Returns {settings, inputs, now, lesson}. Throws an Error that says what is wrong.
export function fromAddress(hash) {
  const values = new URLSearchParams(hash.replace(/^#/, ""));
  const settings = { ...DEFAULTS };
  for (const [name, key] of Object.entries(SHORT)) {
    const value = values.get(key);
    if (value === null) continue;
    settings[name] = typeof DEFAULTS[name] === "number" ? Number(value) : value;
    const whole = name === "nodes" || name === "seed" || name === "spare";
    if (whole ? !Number.isInteger(settings[name]) : Number.isNaN(settings[name]))
      throw new Error(`invalid ${name} '${value}': expected a ${whole ? "whole " : ""}number`);
  }
  const texts = (values.get("f") ?? "").split(";").filter((text) => text !== "");
  if (texts.length > INPUTS_MAX) throw new Error(`too many events: ${texts.length}, at most ${INPUTS_MAX}`);
  const inputs = texts.map(parseInput).sort((one, other) => one.at - other.at);
  const now = Number(values.get("at") ?? 0);
  return { settings, inputs, now: now >= 0 && now < 1e15 ? now : 0, lesson: values.get("m") ?? "" };
}

function duration(ns) {
  return `${(ns / 1e6).toFixed(6).replace(/\.?0+$/, "")}ms`;
}

function eventText(input) {
  const groups = () => {
    const sides = new Map();
    input.groups.forEach((group, id) => {
      if (id > 0 && group > 0) sides.set(group, [...(sides.get(group) ?? []), id]);
    });
    return [...sides.values()].map((ids) => ids.join(",")).join("/");
  };
  const after = {
    partition: () => groups(), heal: () => "", loss: () => `${input.rate}`, cut: () => `${input.node}>${input.peer}`,
    mend: () => `${input.node}>${input.peer}`, transfer: () => `${input.peer}`, latency: () => `1ms..${duration(input.span)}`,
    drift: () => `${input.node} ${input.rate < 0 ? "" : "+"}${input.rate}`, "store-down": () => "", "store-up": () => "",
  };
  return `at ${duration(input.at)} ${input.kind} ${(after[input.kind] ?? (() => (input.node ? `${input.node}` : "leader")))()}`.trim();
}

// Returns a script that repeats the run until `now` with the command line program.
export function toScript({ settings, inputs, detects, guards }, now) {
  const lease = settings.algorithm.startsWith("lease-");
  const lines = [
    lease ? `algorithm lease\nstore-model ${settings.algorithm.slice(6)}\nttl ${duration(settings.ttl)}` : `algorithm ${settings.algorithm}`,
    lease ? "grace 200ms\nretry 500ms\nkill-after 500ms" : "",
    guards ? "quorum" : "",
    detects ? `detector ${settings.detector}` : "",
    `nodes ${settings.nodes}`,
    `seed ${settings.seed}`,
    `latency ${duration(settings.latencyMin)}..${duration(settings.latencyMax)}`,
    settings.spare && !lease ? `spare ${settings.spare}` : "",
    settings.loss ? `loss ${settings.loss}` : "",
    settings.drift ? `drift ${settings.drift}` : "",
    `until ${duration(Math.max(now - 1, 1))}`, // the page handles events before its time, the program also those at the end
    ...inputs.filter((input) => input.at <= now).map(eventText),
  ];
  return `${lines.filter((line) => line !== "").join("\n")}\n`;
}

// ---- a script read back ----

const UNITS = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9 };
const UNDO = { crash: "restart", pause: "resume", partition: "heal", cut: "mend", "store-down": "store-up" };
const FIXED = { grace: "200ms", retry: "500ms", "kill-after": "500ms", work: "100ms", runs: "1" };
const NODES_MAX = 50;

function parseDuration(text = "") {
  if (!/^(\d+(\.\d+)?(ns|us|ms|s|m|h))+$/.test(text)) throw new Error(`invalid duration '${text}': expected for example 250ms`);
  let sum = 0;
  for (const [, value, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ns|us|ms|s|m|h)/g)) sum += Number(value) * UNITS[unit];
  return Math.round(sum);
}

function parseRatio(text = "") {
  const value = /^[+-]?[\d.]+%?$/.test(text) ? Number(text.replace("%", "")) / (text.endsWith("%") ? 100 : 1) : NaN;
  if (!(Math.abs(value) <= 1)) throw new Error(`invalid fraction '${text}': expected for example 0.1 or 10%`);
  return value;
}

function parseId(text = "") {
  if (text === "leader") return 0;
  if (!/^\d{1,3}$/.test(text) || Number(text) < 1) throw new Error(`invalid node '${text}': expected a node id`);
  return Number(text);
}

function parseGroups(text = "") {
  const groups = [0];
  text.split("/").forEach((side, i) => {
    for (const word of side.split(",")) {
      const id = parseId(word);
      if (id < 1 || id > NODES_MAX + 5 || i > 8) throw new Error(`invalid groups '${text}': expected for example 1,2,3/4,5`);
      while (groups.length <= id) groups.push(0);
      groups[id] = i + 1;
    }
  });
  return groups;
}

function parseRange(text = "") {
  const [from, to] = text.split("..");
  return [parseDuration(from), parseDuration(to ?? from)];
}

function parseEvent([times = "", kind = "", ...words]) {
  if (!(kind in FAULTS)) throw new Error(`the playground has no event '${kind}'`);
  const [from, to] = times.split("..");
  const pair = () => {
    const ids = (words[0] ?? "").split(">");
    return { node: parseId(ids[0]), peer: parseId(ids[1]) };
  };
  const values = {
    partition: () => ({ groups: parseGroups(words[0]) }), heal: () => ({}), "store-down": () => ({}), "store-up": () => ({}),
    loss: () => ({ rate: parseRatio(words[0]) }), cut: pair, mend: pair, transfer: () => ({ node: 0, peer: parseId(words[0]) }),
    drift: () => ({ node: parseId(words[0]), rate: parseRatio(words[1]) }),
    latency: () => {
      const [min, max] = parseRange(words[0]);
      if (min !== 1e6) throw new Error("the playground has only latencies from 1ms: write 1ms..50ms");
      return { span: max };
    },
  }[kind] ?? (() => ({ node: parseId(words[0]) }));
  const input = { at: parseDuration(from), kind, ...values() };
  if (to === undefined) return [input];
  if (!(kind in UNDO)) throw new Error(`${kind} has no end: give one time`);
  if (input.node === 0) throw new Error("give a node id instead of 'leader' for an event with an end");
  return [input, { ...input, at: parseDuration(to), kind: UNDO[kind], groups: undefined }];
}

const READERS = {
  algorithm: (found, value) => (found.algorithm = value), "store-model": (found, value) => (found.store = value),
  detector: (found, value) => (found.detector = value), ttl: (found, value) => (found.ttl = parseDuration(value)),
  nodes: (found, value) => (found.nodes = Number(value)), seed: (found, value) => (found.seed = Number(value)),
  spare: (found, value) => (found.spare = Number(value)), quorum: (found) => (found.quorum = 1),
  latency: (found, value) => ([found.latencyMin, found.latencyMax] = parseRange(value)),
  loss: (found, value) => (found.loss = parseRatio(value)), drift: (found, value) => (found.drift = parseRatio(value)),
  until: (found, value) => (found.until = parseDuration(value)),
};

// Reads a script of `bellwether sim run`; returns as fromAddress. Throws an Error that names the line.
export function fromScript(text) {
  const [found, inputs] = [{ algorithm: "bully", ttl: 10e9 }, []]; // the defaults of the program
  text.slice(0, 65536).split("\n").forEach((line, i) => {
    const [name, ...words] = line.replace(/#.*/, "").trim().split(/\s+/);
    try {
      if (name === "") return;
      if (name === "at") inputs.push(...parseEvent(words));
      else if (name in READERS) READERS[name](found, words[0]);
      else if (FIXED[name] !== words[0] || words[0] === undefined)
        throw new Error(`the playground has no setting '${name}${name in FIXED ? ` ${words[0]}` : ""}'; use bellwether sim run`);
    } catch (error) {
      throw new Error(`line ${i + 1}: ${error.message}`);
    }
  });
  const { until = 5e9, store = "quorum", ...rest } = found;
  if (rest.algorithm === "lease") rest.algorithm = `lease-${store}`;
  for (const name of ["nodes", "seed", "spare"])
    if (rest[name] !== undefined && !Number.isInteger(rest[name])) throw new Error(`invalid ${name}: expected a whole number`);
  if (inputs.length > INPUTS_MAX) throw new Error(`too many events: ${inputs.length}, at most ${INPUTS_MAX}`);
  const end = Math.max(0, ...inputs.filter(({ kind }) => kind === "join").map(({ node }) => node - (rest.nodes ?? DEFAULTS.nodes)));
  const settings = { ...DEFAULTS, ...rest, spare: Math.max(rest.spare ?? 0, end) };
  return { settings, inputs: inputs.sort((one, other) => one.at - other.at), now: until + 1, lesson: "" };
}
