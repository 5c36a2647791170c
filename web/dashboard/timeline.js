/* Real leaderships over time, drawn like the lanes of the simulator: a lane for each leader, and below them a strip that
 * is green while there was a leader and grey while there was none. Gaps have their length beside them. */
import {shown, span} from "./view.js";

const NS = "http://www.w3.org/2000/svg";
const LANES_MAX = 8;
const LANE = 22;
const STRIP = 12;
const AXIS = 18;
const LABEL = 130;
const GAP_TEXT = 46; // pixels that the length of a gap needs

/* The colours of the simulator's nodes. */
function hue(i) {
    return `hsl(${(i * 137 + 210) % 360} 65% 45%)`;
}

function add(parent, tag, fields, text) {
    const element = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(fields))
        element.setAttribute(name, value);
    if (text !== undefined)
        element.textContent = text;
    parent.append(element);
    return element;
}

function labelOf(part) {
    return part.label ?? (part.token === "0" ? "no token" : `token ${part.token}`);
}

function shorten(text, most) {
    const letters = [...text];
    return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : text;
}

function clock(time, wide) {
    const iso = new Date(time).toISOString();
    return wide > 172800000 ? iso.slice(0, 10) : wide > 7200000 ? iso.slice(11, 16) : iso.slice(11, 19);
}

/* Times between two leaderships, and after the last one. */
export function gapsOf(parts, time) {
    const gaps = [];
    parts.forEach((part, i) => {
        const next = parts[i + 1];
        if (part.to === null || (next && next.from <= part.to))
            return;
        gaps.push({from: part.to, to: next ? next.from : time, after: part, lasts: !next});
    });
    return gaps;
}

/* The names to show, in the order of their first leadership; the oldest ones are left out. */
function lanesOf(parts) {
    const names = [...new Set(parts.map((part) => part.name).reverse())].slice(0, LANES_MAX);
    return names.reverse();
}

function drawAxis(svg, x, first, time, height) {
    const width = time - first;
    const ticks = x(time) - x(first) < 400 ? 2 : 4;
    for (let i = 0; i <= ticks; i++) {
        const at = first + (width * i) / ticks;
        add(svg, "line", {x1: x(at), x2: x(at), y1: 0, y2: height - AXIS, class: "tick"});
        add(svg, "text", {x: x(at), y: height - 4, class: "axis", "text-anchor": i === 0 ? "start" : i === ticks ? "end" : "middle"},
            i === ticks ? "now" : clock(at, width));
    }
}

function drawParts(svg, parts, lanes, x, first, time) {
    const strip = lanes.length * LANE + 3;
    add(svg, "rect", {x: x(first), y: strip, width: Math.max(0, x(time) - x(first)), height: STRIP, class: "none"});
    for (const part of parts) {
        const to = part.to ?? time, lane = lanes.indexOf(part.name);
        if (to < first || lane < 0)
            continue;
        const from = Math.max(part.from, first), wide = Math.max(1.5, x(to) - x(from));
        const bar = add(svg, "rect", {x: x(from), y: lane * LANE + 4, width: wide, height: LANE - 8, rx: 2, fill: hue(lane)});
        add(bar, "title", {}, `${shown(part.name)}, ${labelOf(part)}, ${part.first ? "at least " : ""}${span(to - part.from)}: ${
            part.to === null ? "leads now" : shown(part.why || "the reason is not known")}`);
        add(svg, "rect", {x: x(from), y: strip, width: wide, height: STRIP, class: "one"});
        if (wide > 60)
            add(svg, "text", {x: x(from) + 5, y: lane * LANE + LANE - 7, class: "token"}, labelOf(part));
    }
}

/* `parts`: {name, token, from, to, why, first}, the oldest first; `to` is null while it lasts. Times are of Date.now(). */
export function drawTimeline(svg, parts, time, windowMs) {
    const wide = Math.max(280, svg.clientWidth || 600), lanes = lanesOf(parts);
    const label = wide < 500 ? 80 : LABEL;
    const first = Math.max(parts[0]?.from ?? time - 1000, time - windowMs), width = Math.max(1000, time - first);
    const height = lanes.length * LANE + STRIP + 6 + AXIS;
    const x = (at) => Number((label + ((at - time + width) / width) * (wide - label - 6)).toFixed(1));
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${wide} ${height}`);
    svg.setAttribute("height", height);
    const gaps = gapsOf(parts, time).filter((gap) => gap.to > first);
    svg.setAttribute("aria-label", `${parts.length} leaderships, ${gaps.length} gaps` +
        (gaps.length ? `, the last of ${span(gaps.at(-1).to - gaps.at(-1).from)}` : ""));
    drawAxis(svg, x, time - width, time, height);
    lanes.forEach((name, i) => {
        add(svg, "line", {x1: label, x2: wide - 6, y1: i * LANE + LANE / 2, y2: i * LANE + LANE / 2, class: "lane"});
        const text = add(svg, "text", {x: label - 8, y: i * LANE + LANE / 2 + 4, class: "name", "text-anchor": "end"},
                         shorten(shown(name), wide < 500 ? 9 : 15));
        add(text, "title", {}, shown(name));
    });
    drawParts(svg, parts, lanes, x, first, time);
    for (const gap of gaps) {
        const from = Math.max(gap.from, first);
        const bar = add(svg, "rect", {x: x(from), y: 0, width: Math.max(1.5, x(gap.to) - x(from)), height: lanes.length * LANE, class: "gap"});
        add(bar, "title", {}, `no leader for ${span(gap.to - gap.from)}${gap.lasts ? " so far" : ""}`);
        if (x(gap.to) - x(from) > GAP_TEXT)
            add(svg, "text", {x: (x(from) + x(gap.to)) / 2, y: lanes.length * LANE + STRIP + 1, class: "gap-text", "text-anchor": "middle"},
                span(gap.to - gap.from));
    }
}
