/* The dashboard of one node. Two streams feed it: what the node knows about itself and the others, and all changes of
 * keys. Only the time left of leases has to be asked for, every two seconds at most. */
import {Refused, ask, follow, setToken, toBase64, toText} from "./api.js";
import {Elections, isShown} from "./elections.js";
import {drawTimeline} from "./timeline.js";
import {addEvent, drawClients, drawContent, drawGroups, drawNodes, get, healthOf, shown, span, WINDOW_MS} from "./view.js";

const AGAIN_MS = 1000;
const AGAIN_MAX_MS = 5000;
const LEASES_MS = 2000;
const LEASES_MAX = 20;
const READ_MAX = 5000;
const VALUES_AT_ONCE = 16;
const DRAW_MS = 250;
const OLD_MS = 3000;
const LEADS_MAX = 50;

const page = {state: null, at: 0, elections: new Elections(), user: "", streams: new AbortController(), reads: "", watches: false, drawn: 0,
              leads: [], reconnects: 0};
window.page = page; // for tests and for curious operators

const number = (text) => Number(text ?? 0);
const milliseconds = (text) => number(text) / 1e6;

function toState(answer, before) {
    const header = answer.header ?? {};
    const syncs = number(answer.syncs), syncNs = number(answer.syncNs);
    const newSyncs = before ? syncs - before.syncs : 0;
    const state = {
        self: header.member_id, term: header.raft_term ?? "0", leader: answer.leader ?? "", version: answer.version ?? "",
        commit: number(answer.commitIndex), applied: number(answer.appliedIndex), leaderFor: milliseconds(answer.leaderForNs),
        leaderForLonger: answer.leaderForLonger ?? false, handOver: milliseconds(answer.handOverNs),
        leaderlessFor: milliseconds(answer.leaderlessForNs), leaderChanges: number(answer.leaderChanges), syncs, syncNs,
        syncMs: newSyncs > 0 ? (syncNs - before.syncNs) / newSyncs / 1e6 : before?.syncMs ?? null,
        clientCount: number(answer.clientCount), clients: answer.clients ?? [], keys: number(answer.keys), leases: number(answer.leases),
        watchers: number(answer.watchers), bytes: number(answer.bytes), quota: number(answer.quota), errors: answer.errors ?? [],
        admin: answer.admin ?? false, authEnabled: answer.authEnabled ?? false,
        nodes: (answer.nodes ?? []).map((node) => ({
            id: node.ID, name: node.name ?? "", clientURL: node.clientURL ?? "", isLearner: node.isLearner ?? false,
            connected: node.connected ?? false, match: number(node.matchIndex), roundTrip: milliseconds(node.roundTripNs),
            protocol: node.protocol ?? 0})),
        nameOf: (id) => state.nodes.find((node) => node.id === id)?.name || id};
    return state;
}

/* The leaders of the cluster since the page was opened; the first one with its real beginning. */
function noteLeader(before, after) {
    const last = page.leads.at(-1), time = Date.now();
    if (last && last.to === null && (last.id !== after.leader || last.token !== after.term)) {
        last.to = time - Math.min(after.leader ? after.leaderFor + after.handOver : after.leaderlessFor, time - last.from);
        last.why = after.leader === last.id ? "a new term" : after.nodes.find((node) => node.id === last.id)?.connected
            ? "another node leads; it is still connected" : "it is not connected any more";
    }
    if (after.leader && (!last || last.to !== null))
        page.leads.push({id: after.leader, name: after.nameOf(after.leader), token: after.term, label: `term ${after.term}`, from: time - after.leaderFor, to: null, why: "",
                         first: after.leaderForLonger});
    page.leads.splice(0, Math.max(0, page.leads.length - LEADS_MAX));
}

/* What changed from one state to the next, as events. */
function tell(before, after) {
    if (before.leader !== after.leader)
        addEvent(after.leader ? `node ${after.nameOf(after.leader)} leads the cluster in term ${after.term}` +
                 (after.handOver ? `, after ${span(after.handOver)} without a leader` : "")
                 : `no leader: ${before.nameOf(before.leader)} is lost`);
    for (const node of after.nodes) {
        const old = before.nodes.find((one) => one.id === node.id);
        if (!old)
            addEvent(`node ${node.name || node.id} is a member now`);
        else if (old.connected !== node.connected)
            addEvent(`node ${node.name || node.id} ${node.connected ? "is connected" : "is not connected any more"}`);
    }
    for (const old of before.nodes)
        if (!after.nodes.some((one) => one.id === old.id))
            addEvent(`node ${old.name || old.id} was removed`);
}

function takeState(answer) {
    const before = page.state;
    if (before && performance.now() - page.at > OLD_MS) {
        page.reconnects++;
        addEvent(`connected to ${location.host} again, after ${span(performance.now() - page.at)} without data`);
    }
    page.state = toState(answer, before);
    page.at = performance.now();
    noteLeader(before, page.state);
    if (before)
        tell(before, page.state);
    get("content").hidden = false;
    get("login").hidden = true;
    setMessage("");
    draw();
}

/* ---- elections ---- */

function toPair(kv) {
    return {key: toText(kv.key), value: toText(kv.value), lease: kv.lease ?? "0", create: kv.create_revision ?? "0", mod: kv.mod_revision ?? "0"};
}

function range() {
    const prefix = get("prefix").value;
    if (!prefix)
        return {key: "AA==", range_end: "AA=="};
    const end = new TextEncoder().encode(prefix);
    end[end.length - 1]++; // no byte of UTF-8 is 255
    return {key: toBase64(prefix), range_end: btoa(String.fromCharCode(...end))};
}

/* Values may be large, so only those that show an election are read. */
async function readValues(kvs, revision) {
    const wanted = kvs.filter((kv) => isShown(toText(kv.key), kv.lease ?? "0"));
    for (let from = 0; from < wanted.length; from += VALUES_AT_ONCE) {
        const part = wanted.slice(from, from + VALUES_AT_ONCE);
        const success = part.map((kv) => ({request_range: {key: kv.key, revision}}));
        const answer = await ask("/v3/kv/txn", {success});
        part.forEach((kv, i) => {
            kv.value = answer.responses[i].response_range?.kvs?.[0]?.value;
        });
    }
}

async function watchKeys(signal) {
    const read = await ask("/v3/kv/range", {...range(), limit: READ_MAX, keys_only: true});
    await readValues(read.kvs ?? [], read.header.revision);
    const note = read.more ? `More than ${READ_MAX} keys: only the first ones were read. Give the beginning of the keys.` : "";
    page.elections.load((read.kvs ?? []).map(toPair), {time: Date.now(), live: false});
    setNote(note);
    const create = {...range(), start_revision: String(BigInt(read.header.revision) + 1n)};
    await follow("/v3/watch", {create_request: create}, (answer) => {
        if (answer.canceled)
            throw new Error(answer.cancel_reason || "the watch was cancelled");
        page.watches = true;
        const events = (answer.events ?? []).map((event) => ({...toPair(event.kv), isDelete: event.type === "DELETE"}));
        for (const sentence of page.elections.apply(events, {time: Date.now(), live: true}))
            addEvent(sentence);
        draw();
    }, false, signal);
}

async function askLeases() {
    const members = page.elections.list().flatMap((group) => page.elections.queue(group).slice(0, 3)).slice(0, LEASES_MAX);
    for (const member of members) {
        const asked = performance.now();
        const answer = await ask("/v3/lease/timetolive", {ID: member.lease});
        const granted = number(answer.grantedTTL);
        // the server rounds down
        member.left = granted ? {seconds: Math.min(granted, number(answer.TTL) + 0.5), granted, at: asked} : undefined;
    }
}

/* ---- drawing ---- */

function setMessage(text) {
    get("message").textContent = text;
}

function setNote(text) {
    get("elections-note").textContent = text;
}

function drawAge(age) {
    const line = get("age");
    const old = age > OLD_MS;
    line.className = old ? "old" : "";
    line.textContent = (old ? `no data for ${span(age)}: everything below is as old; trying to connect` : `live, data ${span(age)} old`) +
        ` · ${location.host}` + (page.user ? ` · ${page.user}` : "") + (page.state.admin ? "" : " · read-only") +
        (page.reconnects ? ` · ${page.reconnects} reconnects` : "");
}

function drawNow() {
    const {state, elections} = page, time = Date.now();
    page.drawn = performance.now();
    if (!state)
        return;
    const age = performance.now() - page.at;
    const health = healthOf(state, age);
    get("health").className = health.bad || age > OLD_MS ? "bad" : "";
    if (get("health").textContent !== health.text)
        get("health").textContent = health.text;
    drawAge(age);
    const actions = {timeline: drawTimeline, ...(state.admin && age < OLD_MS ? {handOver, drain, resign} : {})};
    drawNodes(state, actions);
    drawTimeline(get("leads"), page.leads, age < OLD_MS ? time : time - age, WINDOW_MS);
    const groups = elections.list();
    drawGroups(get("elections"), elections, groups.filter((group) => !elections.isLock(group)), time, actions);
    drawGroups(get("locks"), elections, groups.filter((group) => elections.isLock(group)), time, actions);
    drawClients(state);
    drawContent(state);
}

let drawing = 0;

/* At most once per DRAW_MS, however fast events come. */
function draw() {
    if (drawing)
        return;
    drawing = setTimeout(() => {
        drawing = 0;
        drawNow();
    }, Math.max(0, DRAW_MS - (performance.now() - page.drawn)));
}

/* ---- actions ---- */

function confirmAction(title, text, yes, act) {
    const dialog = get("dialog");
    get("dialog-title").textContent = title;
    get("dialog-text").textContent = text;
    get("dialog-yes").textContent = yes;
    get("dialog-yes").onclick = async () => {
        dialog.close();
        try {
            await act();
            setMessage("");
        } catch (error) {
            setMessage(`${title}: ${shown(error.message)}`);
        }
    };
    get("dialog-no").onclick = () => dialog.close();
    dialog.showModal();
}

function handOver(node) {
    const from = shown(page.state.nameOf(page.state.leader)), to = shown(node.name || node.id);
    confirmAction(`Hand over from ${from} to ${to}`,
            `Node ${from} waits until ${to} has its whole log, then ${to} becomes the Raft leader. Changes wait for some milliseconds. ` +
            "Clients stay connected, and leaders of elections and holders of locks stay the same.", "hand over", async () => {
                await ask("/v3/maintenance/transfer-leadership", {targetID: node.id});
                addEvent(`asked to hand over to ${to}`);
            });
}

function drain(node, next) {
    const from = shown(node.name || node.id), to = shown(next.name || next.id);
    confirmAction(`Drain ${from}`,
            `Leadership of the cluster goes to ${to}, which has the most of the log. Then ${from} is a follower and can be stopped for maintenance ` +
            "without an election. Clients stay connected until it stops; then they connect to another node. Leaders of elections and holders of " +
            `locks stay the same. ${from} may be elected again later if it keeps running.`, "drain", async () => {
                await ask("/v3/maintenance/transfer-leadership", {targetID: next.id});
                addEvent(`asked to drain ${from}: ${to} is to lead`);
            });
}

/* Writes a note for the leader, as `bellwether resign` does: the leader itself stops its work and releases. */
async function sendResign(group, token) {
    const escaped = group.name.replaceAll("%", "%25").replaceAll("/", "%2F");
    const key = toBase64(`/bellwether/${escaped}/note`);
    if (group.led?.create !== token)
        throw new Error("another candidate leads meanwhile");
    const note = {kind: 1, serial: String(BigInt(group.note.serial ?? 0) + 1n), from: page.user || "dashboard", to: group.record.holder, token};
    const answer = await ask("/v3/kv/txn", {
        compare: [{target: "MOD", key, mod_revision: group.noteRevision}],
        success: [{request_put: {key, value: toBase64(JSON.stringify(note))}}]});
    if (!answer.succeeded)
        throw new Error("another request to the leader came first; try again");
    addEvent(`asked ${group.record.holder} to resign from ${group.name}`);
}

function resign(group) {
    const token = group.led.create, name = shown(group.led.name);
    confirmAction(`Ask ${name} to resign from ${shown(group.name)}`,
            `${name} (token ${token}) gets a request to resign. It stops its work, confirms that the work is dead and releases ` +
            "leadership; then the next candidate in the queue leads. If it is the only candidate, it may be elected again.",
            "ask to resign", () => sendResign(group, token));
}

/* ---- connecting ---- */

function showLogin(error) {
    page.streams.abort();
    get("login").hidden = false;
    if (!page.state)
        get("health").textContent = "log in to see this cluster";
    setMessage(page.user || error.status !== 400 ? `refused: ${shown(error.message)}` : "");
}

function sleep(ms) {
    return new Promise((resolve) => setTimeout(resolve, ms));
}

/* Repeats `work` after failures until the page logs in as another user. */
async function keep(work, failed, signal) {
    let pause = AGAIN_MS;
    while (!signal.aborted) {
        const begun = performance.now();
        try {
            await work(signal);
        } catch (error) {
            if (signal.aborted)
                return;
            failed(error);
        }
        pause = performance.now() - begun > AGAIN_MAX_MS ? AGAIN_MS : Math.min(AGAIN_MAX_MS, pause * 1.5);
        await sleep(pause * (0.8 + 0.4 * Math.random()));
    }
}

function begin() {
    page.streams.abort();
    page.streams = new AbortController();
    page.watches = false;
    const {signal} = page.streams;
    keep((stop) => follow("/v3/dashboard/observe", {}, takeState, true, stop), (error) => {
        if (error instanceof Refused && error.needsLogin)
            showLogin(error);
        else if (!page.state)
            get("health").textContent = `cannot reach the server: ${shown(error.message)}`;
    }, signal);
    keep(watchKeys, (error) => {
        page.watches = false;
        if (error instanceof Refused)
            setNote(`Elections are not shown: ${shown(error.message)}. A user of a role with permissions gives the beginning of its keys.`);
    }, signal);
    keep(async (stop) => {
        while (!stop.aborted) {
            if (page.state && !document.hidden)
                await askLeases();
            await sleep(LEASES_MS);
        }
    }, () => {}, signal);
}

async function logIn() {
    const name = get("user").value;
    try {
        const answer = await ask("/v3/auth/authenticate", {name, password: get("password").value});
        setToken(answer.token);
        page.user = name;
        page.state = null;
        setMessage("");
        begin();
    } catch (error) {
        setMessage(`cannot log in: ${shown(error.message)}`);
    }
    get("password").value = "";
}

get("login").addEventListener("submit", (event) => {
    event.preventDefault();
    logIn();
});
get("filter").addEventListener("submit", (event) => {
    event.preventDefault();
    page.elections = new Elections();
    begin();
});
setInterval(draw, 1000);
begin();
