/* Draws the model. Everything that a user or a program has written is set as text, never as HTML. */

const SVG = "http://www.w3.org/2000/svg";
export const WINDOW_MS = 600000;
const EVENTS_MAX = 200;
const SHOWN_MAX = 100;

export function get(id) {
    return document.getElementById(id);
}

export function span(ms) {
    const units = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
    for (const [unit, name] of units)
        if (ms >= 2 * unit || (unit === 1000 && ms >= 1000))
            return `${unit === 1000 && ms < 10000 ? (ms / 1000).toFixed(1) : Math.floor(ms / unit)} ${name}`;
    return ms >= 100 ? `${Math.round(ms)} ms` : `${Number(ms.toPrecision(2))} ms`;
}

/* Control characters would hide what a name really is. */
export function shown(text) {
    // eslint-disable-next-line no-control-regex
    const plain = String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/g,
                                       (letter) => "\\u" + letter.charCodeAt(0).toString(16).padStart(4, "0"));
    return plain.length > 200 ? plain.slice(0, 200) + "…" : plain;
}

export function setText(element, text) {
    if (element.textContent !== text)
        element.textContent = text;
}

/* Content of a cell: a text, or {button, act} or {bar, text}. Elements are reused, so that the focus stays. */
function setCell(td, content) {
    if (typeof content === "string") {
        setText(td, content);
        return;
    }
    const tag = content.button !== undefined ? "BUTTON" : "PROGRESS";
    let element = td.firstElementChild;
    if (element?.tagName !== tag) {
        td.replaceChildren(element = document.createElement(tag), document.createTextNode(""));
        element.type = "button";
    }
    if (tag === "BUTTON") {
        setText(element, content.button);
        element.onclick = content.act;
        element.disabled = !content.act;
        element.title = content.title ?? "";
    } else {
        element.max = 1;
        element.value = content.bar;
        td.lastChild.data = " " + content.text;
    }
}

export function fillTable(body, rows) {
    while (body.rows.length > rows.length)
        body.deleteRow(-1);
    rows.forEach((row, i) => {
        const tr = body.rows[i] ?? body.insertRow();
        if (tr.className !== (row.kind ?? ""))
            tr.className = row.kind ?? "";
        row.cells.forEach((content, j) => setCell(tr.cells[j] ?? tr.insertCell(), content));
    });
}

/* `time`: in the form of ISO 8601; default: now. */
export function addEvent(text, time, level) {
    const list = get("events"), item = document.createElement("li");
    item.textContent = `${String(time ?? new Date().toISOString()).slice(11, 23)}Z  ${shown(text)}`;
    item.className = level === "warning" || level === "error" ? "warn" : "";
    list.prepend(item);
    while (list.children.length > EVENTS_MAX)
        list.lastElementChild.remove();
}

/* ---- nodes ---- */

export function healthOf(state, age) {
    const up = state.nodes.filter((node) => node.connected).length;
    const count = `${up} of ${state.nodes.length} nodes`;
    const away = state.nodes.filter((node) => !node.connected).map((node) => shown(node.name || node.id));
    const lost = away.length ? `; ${away.slice(0, 3).join(", ")} ${away.length > 1 ? "are" : "is"} not connected` : "";
    const errors = lost + (state.errors.length ? `; ${state.errors.join("; ")}` : "");
    if (!state.leader) {
        const how = state.leaderlessFor ? ` for ${span(state.leaderlessFor + age)}` : "";
        return {bad: true, text: `${count}, no leader${how}: changes and elections wait${errors}`};
    }
    const least = state.leaderForLonger ? "at least " : "";
    const last = state.handOver ? `, last hand-over ${span(state.handOver)}` : "";
    return {bad: up < state.nodes.length || state.errors.length > 0,
            text: `${count}, leader ${shown(state.nameOf(state.leader))} for ${least}${span(state.leaderFor + age)}${last}${errors}`};
}

function roleOf(state, node) {
    return node.id === state.leader ? "leader" : !node.connected ? "not connected" : node.isLearner ? "learner" : "follower";
}

function lagOf(state, node) {
    if (node.id === state.leader)
        return "0";
    if (node.match)
        return String(Math.max(0, state.commit - node.match));
    return node.id === state.self ? String(Math.max(0, state.commit - state.applied)) + " to apply" : state.self === state.leader ? "not known yet" : "the leader knows";
}

function handOverCell(state, node, actions) {
    if (node.id === state.leader || node.isLearner || !actions.handOver)
        return "";
    if (state.self !== state.leader)
        return {button: "hand over", title: "only the leader can hand over: open the dashboard of the leader's node"};
    return {button: "hand over", act: node.connected ? () => actions.handOver(node) : null, title: `make ${shown(node.name)} the Raft leader`};
}

/* The node that should lead if the leader goes: connected, most of the log, nearest. */
export function successorOf(state) {
    return state.nodes.filter((node) => node.id !== state.leader && node.connected && !node.isLearner)
        .sort((a, b) => b.match - a.match || a.roundTrip - b.roundTrip)[0] ?? null;
}

function actionCell(state, node, actions) {
    if (node.id !== state.leader || !actions.drain)
        return handOverCell(state, node, actions);
    const next = successorOf(state);
    return state.self !== state.leader ? "" : {button: "drain", act: next ? () => actions.drain(node, next) : null,
        title: next ? `hand over to ${shown(next.name)} before maintenance of this node` : "no other node can lead"};
}

function appliedOf(state, node) {
    return node.id === state.self ? String(state.applied) : node.match ? `${node.match} stored` : "";
}

export function drawNodes(state, actions) {
    fillTable(get("nodes").tBodies[0], state.nodes.map((node) => ({
        kind: node.id === state.leader ? "leader" : node.connected ? "" : "away",
        cells: [shown(node.name || node.id) + (node.id === state.self ? " (this node)" : ""), roleOf(state, node),
                node.connected ? state.term : "", node.connected ? appliedOf(state, node) : "",
                node.connected ? lagOf(state, node) : "", node.roundTrip ? span(node.roundTrip) : "",
                node.id === state.self && state.syncMs !== null ? span(state.syncMs) : "", shown(node.clientURL), actionCell(state, node, actions)]})));
    setText(get("here"), `This node: Bellwether ${shown(state.version)}, commit index ${state.commit}. ` +
        `${state.leaderChanges} changes of the leader seen. Only the leader knows the lag and the round trip of the others; ` +
        "each node knows only its own disk.");
}

/* ---- elections ---- */

/* Leaderships of an election, the oldest first. */
function partsOf(group) {
    const parts = group.former.map((old) => ({name: old.name, token: old.token, from: old.from, to: old.to, why: old.why, first: !old.isNew})).reverse();
    if (group.led)
        parts.push({name: group.led.name, token: group.led.create, from: group.led.since, to: null, why: "", first: !group.led.isNew});
    return parts;
}

function leaseCell(member) {
    const left = member.left;
    if (!left)
        return "";
    const seconds = Math.max(0, left.seconds - (performance.now() - left.at) / 1000);
    return {bar: left.granted ? seconds / left.granted : 0, text: `${Math.ceil(seconds)} of ${left.granted} s`};
}

function ageOf(member, time) {
    return (member.isNew ? "" : "at least ") + span(Math.max(0, time - member.since));
}

function makeBox() {
    const box = document.createElement("article");
    for (const tag of ["h3", "p", "table", "p"])
        box.append(document.createElement(tag));
    box.children[2].append(document.createElement("tbody"));
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", "timeline");
    svg.setAttribute("role", "img");
    box.append(svg);
    return box;
}

function formerText(group) {
    if (group.former.length)
        return "before: " + group.former.slice(0, 3).map((old) =>
            `${shown(old.name)} (token ${old.token}, ${old.isNew ? "" : "at least "}${span(old.to - old.from)}): ${shown(old.why)}`).join("; ");
    const {record} = group;
    return !group.led && record.holder ? `before: ${shown(record.holder)} (token ${shown(record.token ?? "")})` : "";
}

function drawGroup(box, elections, group, time, actions) {
    const queue = elections.queue(group);
    const isLock = elections.isLock(group);
    setText(box.children[0], shown(group.name));
    setText(box.children[1], queue.length ? `${queue.length} in the queue` : `nobody holds it for ${span(time - group.freeSince)}`);
    box.children[1].hidden = queue.length === 1;
    const isOurs = group.led && group.record.token === group.led.create && group.record.held;
    fillTable(box.children[2].tBodies[0], queue.slice(0, SHOWN_MAX).map((member, i) => ({
        kind: i === 0 ? "leader" : "",
        cells: [shown(isLock ? member.digits : elections.nameOf(group, member)), i === 0 ? (isLock ? "holds it" : "leads") : `waits, place ${i + 1}`,
                i === 0 ? `token ${member.create}` : "", leaseCell(member), i === 0 && group.led ? ageOf(group.led, time) : ageOf(member, time),
                i === 0 && isOurs && actions.resign ? {button: "ask to resign", act: () => actions.resign(group)} : ""]})));
    setText(box.children[3], formerText(group));
    box.children[3].className = "faint";
    actions.timeline(box.children[4], partsOf(group), time, WINDOW_MS);
}

export function drawGroups(place, elections, groups, time, actions) {
    const some = groups.slice(0, SHOWN_MAX);
    while (place.children.length > some.length)
        place.lastElementChild.remove();
    some.forEach((group, i) => {
        if (!place.children[i])
            place.append(makeBox());
        drawGroup(place.children[i], elections, group, time, actions);
    });
}

export function drawClients(state) {
    setText(get("clients-line"), `${state.clientCount} connections, this page included; ${state.watchers} watchers. ` +
        (state.admin ? "" : "Addresses are shown to admins only."));
    get("clients").hidden = !state.clients.length;
    fillTable(get("clients").tBodies[0], state.clients.map((client) => ({
        cells: [shown(client.address ?? ""), shown(client.protocol ?? ""), client.tls ? "yes" : "no", shown(client.user ?? "")]})));
}

export function drawContent(state) {
    const quota = state.quota ? ` of ${Math.round(state.quota / 1048576)} MiB` : "";
    setText(get("content-line"), `${state.leases} ${state.leases === 1 ? "lease" : "leases"}, ${state.keys} ${state.keys === 1 ? "key" : "keys"}, ${(state.bytes / 1048576).toFixed(1)} MiB${quota}.`);
}
