/* The dashboard of one candidate of `bellwether run` or `bellwether peer`. Log events come as server-sent events. The
 * state is asked for once a second, and at once after an event. The page cannot change anything. */
import {addEvent, fillTable, get, setText, shown, span} from "./view.js";
import {drawTimeline, gapsOf} from "./timeline.js";

const STATE_MS = 1000;
const STATE_SOON_MS = 100; // after an event, and at least between two requests
const ANSWER_MS = 5000;
const OLD_MS = 3000;
const DRAW_MS = 250;
const ROWS_MAX = 20;

const page = {state: null, at: 0, time: 0, live: false, reconnects: 0, lost: false};
window.page = page; // for tests and for curious operators

/* ---- the state ---- */

function historyOf(state, time) {
    return state.history.map((one) => ({name: one.holder, token: one.token, from: time - one.from_ago_ms,
                                        to: one.to_ago_ms === null ? null : time - one.to_ago_ms, why: one.why, first: one.first}));
}

function takeState(state) {
    page.state = state;
    page.at = performance.now();
    page.time = Date.now();
    page.parts = historyOf(state, page.time);
    if (page.lost)
        addEvent(`connected to ${location.host} again`);
    page.lost = false;
    get("content").hidden = false;
    document.title = `${shown(state.election)}: ${shown(state.leader) || "no leader"}`;
}

let asking = false, again = 0, lastAsk = -Infinity;

async function askState() {
    if (asking)
        return;
    asking = true;
    lastAsk = performance.now();
    try {
        const response = await fetch("/state", {signal: AbortSignal.timeout(ANSWER_MS), credentials: "same-origin", redirect: "error", cache: "no-store"});
        if (!response.ok)
            throw new Error(`status ${response.status}`);
        takeState(await response.json());
        setText(get("message"), "");
    } catch (error) {
        if (!page.state)
            setText(get("health"), `cannot reach the candidate: ${shown(error.message)}`);
        else if (!page.lost)
            addEvent(`lost the connection to ${location.host}`);
        page.lost = true;
    }
    asking = false;
    draw();
}

function askSoon() {
    clearTimeout(again);
    again = setTimeout(askState, Math.max(0, lastAsk + STATE_SOON_MS - performance.now()));
}

/* ---- drawing ---- */

function leaderRow(state) {
    const last = page.parts.at(-1);
    return last && last.to === null && last.name === state.leader ? last : null;
}

/* One sentence: who leads, for how long, and what is wrong. */
function sentenceOf(state, age) {
    const bad = [];
    if (!state.stored)
        bad.push(state.kind === "peer" ? "no contact with a quorum of the other peers" : "the store does not answer");
    if (!state.healthy)
        bad.push("this candidate is not healthy");
    const away = state.members.filter((member) => !member.self && member.status !== "alive" && member.status !== "left");
    if (away.length)
        bad.push(`${away.length} of ${state.member_count} members ${away.length === 1 ? "is" : "are"} suspected (${
            away.slice(0, 3).map((member) => shown(member.name)).join(", ")})`);
    if (state.splits)
        bad.push(`two leaders were seen at once, ${state.splits === 1 ? "once" : `${state.splits} times`}`);
    const tail = bad.length ? `; ${bad.join("; ")}` : "";
    const last = page.parts.at(-1), gap = gapsOf(page.parts, page.time).at(-1);
    if (!state.leader) {
        const since = gap?.lasts ? ` for ${span(page.time - gap.from + age)}` : "";
        const why = gap?.lasts && last.why ? `; the last leader ${shown(last.name)}: ${shown(last.why)}` : "";
        return {bad: true, text: `${shown(state.election)}: no leader${since}${why}${tail}`};
    }
    const led = leaderRow(state);
    const how = led ? ` for ${led.first ? "at least " : ""}${span(page.time - led.from + age)}` : "";
    const before = gap && !gap.lasts ? `, last gap ${span(gap.to - gap.from)}` : "";
    const me = state.leader === state.candidate ? `this candidate (${shown(state.candidate)})` : shown(state.leader);
    return {bad: bad.length > 0, text: `${shown(state.election)}: ${me} leads${how}${before}${tail}`};
}

function leftCell(state, age) {
    if (!state.leader)
        return "";
    const teller = state.members.find((member) => member.view?.leading && member.view.left_ms !== null);
    if (state.left_ms === null && teller && state.ttl_ms) {
        const rest = Math.max(0, teller.view.left_ms - teller.view.age_ms - age);
        return {bar: Math.min(1, rest / state.ttl_ms), text: `may act for ${span(rest)} without a renewal`};
    }
    if (state.left_ms === null)
        return `the store does not tell; the leader renews within ${span(state.ttl_ms)}`;
    const left = Math.max(0, state.left_ms - age);
    return state.ttl_ms ? {bar: Math.min(1, left / state.ttl_ms), text: `${(left / 1000).toFixed(1)} of ${span(state.ttl_ms)}`} : "";
}

function roleHere(state) {
    if (state.leading)
        return state.command ? "leads, its command may run" : "leads: /healthz returns 200";
    if (state.leader === state.candidate)
        return `holds the lease, but may not act now (${shown(state.state)})`;
    return shown(state.state) + (state.healthy ? "" : ", not healthy: does not contend");
}

function drawLeader(state, age) {
    const losses = Object.entries(state.losses).map(([reason, count]) => `${shown(reason)} ${count}`).join(", ");
    const rows = [["leader", state.leader ? shown(state.leader) + (state.leader === state.candidate ? " (this candidate)" : "") : "none"],
                  ["token", state.leader ? (state.token === "0" ? "none: writes of a paused leader cannot be rejected" : state.token) : ""],
                  ["time left of the lease", leftCell(state, age)],
                  ["value", shown(state.value)],
                  ["this candidate", shown(state.candidate)],
                  ["its role", roleHere(state)],
                  ["elected here", `${state.elections} ${state.elections === 1 ? "time" : "times"}` + (losses ? `; ended by: ${losses}` : "")],
                  ["store", state.kind === "peer" ? "" : shown(state.store) + (state.stored ? "" : " (does not answer)")]];
    fillTable(get("leader").tBodies[0], rows.filter((row) => row[1] !== "").map(([name, cell]) => ({
        kind: name === "leader" ? (state.leader ? "leader" : "warn") : "", cells: [name, cell]})));
}

/* Peers keep no record of an end. What a member is suspected of now may explain it. */
function whyEnded(state, part) {
    const member = state.members.find((one) => one.name === part.name && !one.self);
    if (part.why || !member || member.status === "alive" || state.leader === part.name)
        return shown(part.why || "not known here");
    return `it does not answer: ${shown(member.status)} for ${span(member.status_for_ms ?? 0)}`;
}

function drawFormer(state, time) {
    const gaps = gapsOf(page.parts, time);
    const rows = page.parts.slice(-ROWS_MAX).reverse();
    fillTable(get("former").tBodies[0], rows.map((part) => {
        const gap = gaps.find((one) => one.after === part);
        return {kind: part.to === null ? "leader" : "",
                cells: [shown(part.name), part.token === "0" ? "" : part.token, new Date(part.from).toISOString().slice(0, 19).replace("T", " ") + "Z",
                        (part.first ? "at least " : "") + span((part.to ?? time) - part.from),
                        part.to === null ? "" : gap ? span(gap.to - gap.from) + (gap.lasts ? " so far" : "") : "no gap seen",
                        part.to === null ? "leads now" : whyEnded(state, part)]};
    }));
    setText(get("former-note"), "As seen by this candidate since it started" +
        (state.dropped ? `; ${state.dropped} older ones are forgotten` : "") + ".");
}

function drawCandidates(state) {
    get("candidates-part").hidden = state.kind === "peer"; // the members are the candidates
    const line = !state.can_list ? "This store does not list candidates."
        : !state.listed ? "asking the store"
            : `${state.candidate_count} ${state.candidate_count === 1 ? "candidate" : "candidates"}${state.queue ? ", elected in this order" : "; the first to try after the lease ends is elected"}.` +
              (state.candidate_count > state.candidates.length ? ` The first ${state.candidates.length} are shown.` : "");
    setText(get("candidates-line"), line);
    get("candidates").hidden = !state.listed;
    fillTable(get("candidates").tBodies[0], state.candidates.map((one) => ({
        kind: one.id === state.leader ? "leader" : "",
        cells: [shown(one.id) + (one.id === state.candidate ? " (this candidate)" : ""), one.id === state.leader ? "leads" : "waits", String(one.priority),
                (one.first ? "at least " : "") + span(one.age_ms)]})));
}

/* What the members that answered say, compared. */
export function verdictOf(members) {
    const views = members.filter((member) => member.view);
    const leading = views.filter((member) => member.view.leading);
    const leaders = [...new Set(views.map((member) => member.view.leader))];
    const silent = members.filter((member) => !member.view && !member.self && member.status !== "left").length;
    const tail = silent ? `; ${silent} did not answer` : "";
    if (leading.length > 1)
        return {bad: true, text: `Split: ${leading.map((member) => shown(member.name)).join(" and ")} lead at the same time${tail}.`};
    if (leaders.length > 1)
        return {bad: true, text: `The members see different leaders: ${leaders.map((name) => shown(name) || "none").join(", ")}${tail}.`};
    return {bad: silent > 0 || !leaders[0], text: `${views.length} of ${members.length} members answered and see the same leader: ${
        shown(leaders[0] ?? "") || "none"}${tail}.`};
}

function memberRow(member, most) {
    const view = member.view, suspected = member.status !== "alive" && !member.self;
    const may = !view?.leading ? "" : view.left_ms === null ? "no limit" : span(view.left_ms);
    return {kind: view?.leading ? "leader" : view && view.leader !== most ? "warn" : suspected ? "away" : "",
            cells: [`${shown(member.name)}${member.self ? " (this one)" : ""}${member.voter ? "" : ", no vote"}`, member.self ? "" : shown(member.status),
                    member.self || member.status_for_ms === null ? "" : span(member.status_for_ms), member.self ? "" : member.level > 99 ? "above 99" : member.level.toFixed(2),
                    view ? shown(view.leader) || "none" : "no answer", view ? shown(view.state) : "", view?.term ?? "",
                    view && view.token !== "0" ? view.token : "", may, view ? (member.self ? "here" : `${span(view.age_ms)} before`) : ""]};
}

function drawMembers(state) {
    get("members-part").hidden = !state.members.length;
    if (!state.members.length)
        return;
    const verdict = verdictOf(state.members);
    setText(get("members-line"), verdict.text + (state.member_count > state.members.length ? ` The first ${state.members.length} are shown.` : ""));
    get("members-line").className = verdict.bad ? "warn" : "good";
    const counts = new Map();
    for (const member of state.members)
        if (member.view)
            counts.set(member.view.leader, (counts.get(member.view.leader) ?? 0) + 1);
    const most = [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
    fillTable(get("members").tBodies[0], state.members.map((member) => memberRow(member, most)));
}

function draw() {
    const {state} = page;
    if (!state)
        return;
    const age = performance.now() - page.at, old = age > OLD_MS, time = page.time + (old ? 0 : age);
    const health = sentenceOf(state, age);
    get("health").className = health.bad || old ? "bad" : "";
    setText(get("health"), health.text);
    get("age").className = old ? "old" : "";
    setText(get("age"), (old ? `no data for ${span(age)}: everything below is as old; trying to connect` : `live, data ${span(age)} old`) +
        ` · ${location.host} · ${state.kind} ${shown(state.version)} · read-only` + (page.reconnects ? ` · ${page.reconnects} reconnects` : ""));
    drawLeader(state, age);
    drawTimeline(get("timeline"), page.parts, time, Number(get("window").value));
    drawFormer(state, time);
    drawMembers(state);
    drawCandidates(state);
}

/* ---- events ---- */

function takeEvent(event) {
    let one = {};
    try {
        one = JSON.parse(event.data);
    } catch {
        return; // not ours
    }
    page.live = true;
    if (one.event !== "status")
        addEvent(`${one.level === "warning" || one.level === "error" ? `${one.level}: ` : ""}${one.message ?? one.event}`, one.time, one.level);
    askSoon();
}

function follow() {
    const source = new EventSource("/events");
    for (const name of ["message", "status", "log", "event"])
        source.addEventListener(name, takeEvent);
    source.onopen = () => {
        page.reconnects += page.opened ? 1 : 0;
        page.opened = true;
        askSoon();
    };
    // the browser connects again by itself, except after a refusal
    source.onerror = () => {
        page.live = false;
        if (source.readyState === EventSource.CLOSED)
            setTimeout(follow, 5000);
    };
    page.source = source;
}

get("filter").addEventListener("submit", (event) => event.preventDefault());
get("window").addEventListener("change", draw);
setInterval(askState, STATE_MS);
setInterval(draw, DRAW_MS);
askState();
follow();
