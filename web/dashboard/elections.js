/* Elections and locks, derived from keys. Pure: keys and events in, a model out.
 *
 *   NAME/LEASE                         a candidate, or a client that waits for a lock (empty value); LEASE is its
 *                                      lease in hexadecimal. The one with the lowest create revision holds it.
 *   /bellwether/NAME/candidates/LEASE  id of that candidate (JSON), if it is one of Bellwether's
 *   /bellwether/NAME/record            last leader, and how it ended (JSON)
 *   /bellwether/NAME/note              last request to the leader (JSON)
 *
 * In the last three, '/' and '%' of NAME are %2F and %25. The server keeps no times, so ages count from when the page
 * first saw a key. */

const SIDE = "/bellwether/";
const FORMER_MAX = 20;
const KEYS_MAX = 5000;
const GROUPS_MAX = 1000; // beyond this, elections without candidates are forgotten

function parse(text) {
    try {
        const value = JSON.parse(text);
        return value !== null && typeof value === "object" ? value : {};
    } catch {
        return {};
    }
}

function placeOf(key, lease) {
    const slash = key.lastIndexOf("/");
    const digits = key.slice(slash + 1);
    if (slash < 0 || !/^[0-9a-f]{1,16}$/.test(digits) || BigInt("0x" + digits) !== BigInt.asUintN(64, BigInt(lease)))
        return null;
    return {name: key.slice(0, slash), digits};
}

function sideOf(key) {
    if (!key.startsWith(SIDE))
        return null;
    const [name, what, digits] = key.slice(SIDE.length).split("/");
    return what ? {name: name.replaceAll("%2F", "/").replaceAll("%25", "%"), what, digits: digits ?? ""} : null;
}

/* Whether a key belongs to an election or a lock. */
export function isShown(key, lease) {
    return Boolean(sideOf(key) || placeOf(key, lease));
}

export class Elections {
    constructor() {
        this.groups = new Map(); // by name
        this.places = new Map(); // by key: the group and the member
        this.ignored = 0;        // candidates beyond KEYS_MAX
    }

    forgetEmpty() {
        for (const [name, group] of this.groups)
            if (!group.members.size && !group.ids.size)
                this.groups.delete(name);
    }

    group(name) {
        let group = this.groups.get(name);
        if (!group) {
            if (this.groups.size >= GROUPS_MAX)
                this.forgetEmpty();
            group = {name, members: new Map(), ids: new Map(), record: {}, note: {}, noteRevision: "0", former: [], led: null, freeSince: 0};
            this.groups.set(name, group);
        }
        return group;
    }

    /* Replaces everything by what a read returned. What is known from before is kept: ages, and former leaders. */
    load(pairs, now) {
        const before = this.places;
        this.places = new Map();
        this.ignored = 0;
        for (const group of this.groups.values())
            group.members = new Map();
        for (const pair of pairs)
            this.put(pair, now, before.get(pair.key)?.member);
        for (const group of this.groups.values())
            this.settle(group, now, "ended while this page was not connected", true);
    }

    put(pair, now, known) {
        const side = sideOf(pair.key);
        if (side) {
            this.putSide(this.group(side.name), side, pair);
            return this.group(side.name);
        }
        const place = pair.lease === "0" ? null : placeOf(pair.key, pair.lease);
        if (!place)
            return null;
        if (this.places.size >= KEYS_MAX && !this.places.has(pair.key)) {
            this.ignored++;
            return null;
        }
        const group = this.group(place.name);
        const old = known ?? this.places.get(pair.key)?.member;
        const same = old && old.create === pair.create;
        const member = {key: pair.key, lease: pair.lease, digits: place.digits, create: pair.create, value: pair.value,
                        since: same ? old.since : now.time, isNew: same ? old.isNew : now.live, left: same ? old.left : undefined};
        group.members.set(pair.key, member);
        this.places.set(pair.key, {group, member});
        return group;
    }

    putSide(group, side, pair) {
        if (side.what === "candidates")
            group.ids.set(side.digits, String(parse(pair.value).id ?? ""));
        else if (side.what === "record")
            group.record = parse(pair.value);
        else if (side.what === "note")
            [group.note, group.noteRevision] = [parse(pair.value), pair.mod];
    }

    remove(key) {
        const side = sideOf(key);
        if (side) {
            const group = this.groups.get(side.name);
            if (group && side.what === "candidates")
                group.ids.delete(side.digits);
            return group ?? null;
        }
        const place = this.places.get(key);
        if (!place)
            return null;
        this.places.delete(key);
        place.group.members.delete(key);
        return place.group;
    }

    /* Applies the events of one revision or more. Returns the changes of leadership as sentences. */
    apply(events, now) {
        const changed = new Set();
        for (const event of events) {
            const group = event.isDelete ? this.remove(event.key) : this.put(event, now);
            if (group)
                changed.add(group);
        }
        return [...changed].flatMap((group) => this.settle(group, now, null, false));
    }

    nameOf(group, member) {
        return group.ids.get(member.digits) || member.value || member.digits;
    }

    queue(group) {
        return [...group.members.values()].sort((a, b) => (BigInt(a.create) < BigInt(b.create) ? -1 : 1));
    }

    isLock(group) {
        const members = [...group.members.values()];
        return members.length > 0 && members.every((member) => member.value === "") && !group.ids.size;
    }

    /* Notes a change of the leader, and why the last one ended: only as far as keys and leases show it. */
    settle(group, now, reason, isFirst) {
        const head = this.queue(group)[0];
        const led = group.led;
        if (led && head && led.create === head.create) {
            led.name = this.nameOf(group, head);
            led.member = head;
            return [];
        }
        const told = [];
        if (led) {
            const why = reason ?? this.whyEnded(group, led);
            group.former.unshift({name: led.name, token: led.create, from: led.since, to: now.time, isNew: led.isNew, why});
            group.former.length = Math.min(group.former.length, FORMER_MAX);
            group.freeSince = now.time;
            told.push(`${group.name}: ${led.name} (token ${led.create}) no longer leads: ${why}`);
        }
        group.led = head ? {name: this.nameOf(group, head), create: head.create, since: now.time, isNew: now.live, member: head} : null;
        if (head && !isFirst)
            told.push(`${group.name}: ${group.led.name} leads (token ${head.create})`);
        return told;
    }

    whyEnded(group, led) {
        const {record, note} = group;
        if (record.token === led.create && record.clean)
            return note.kind === 1 && note.token === led.create ? `resigned, asked by ${note.from}` : "released by the holder";
        const left = led.member.left;
        if (!left)
            return "its key is gone";
        const rest = left.seconds - (performance.now() - left.at) / 1000;
        return rest > 1.5 ? "resigned, or its connection closed (the lease had time left)" : "its lease expired";
    }

    /* The groups that have something to show, by name. */
    list() {
        return [...this.groups.values()].filter((group) => group.members.size || group.former.length || group.record.holder)
            .sort((a, b) => (a.name < b.name ? -1 : 1));
    }
}
