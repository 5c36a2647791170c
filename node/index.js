// Leader election for Node.js; index.d.ts describes every function.
'use strict';
const { performance } = require('node:perf_hooks');
const { setTimeout: pause } = require('node:timers/promises');
const addon = require('./build/bellwether.node');

class LeadershipLost extends Error {
  constructor(reason, cause) {
    super(`leadership lost: ${reason}`, { cause });
    this.name = 'LeadershipLost';
    this.code = 'LEADERSHIP_LOST';
    this.reason = reason;
  }
}

// One leadership, from its election to its end.
class Leadership {
  #candidate;
  #controller = new AbortController();
  #ended = null; // the reason, once resigned

  constructor(candidate) {
    const state = addon.state(candidate);
    this.#candidate = candidate;
    this.token = state.token;
    this.id = state.id;
  }

  get signal() { return this.#controller.signal; }

  get isLeader() { return this.#ended === null && addon.state(this.#candidate).leading; }

  get valid() { return this.#ended === null ? addon.state(this.#candidate).valid : 0; }

  // Why the leadership is over; null while it lasts.
  get reason() {
    if (this.#ended !== null) return this.#ended;
    const state = addon.state(this.#candidate);
    if (state.leading) return null;
    return state.reason === 'none' ? 'expired' : state.reason; // by the clock alone
  }

  check() {
    const reason = this.reason;
    if (reason !== null) throw new LeadershipLost(reason);
  }

  transfer(successor) { addon.transfer(this.#candidate, { successor: String(successor) }); }

  healthy(healthy) { addon.healthy(this.#candidate, { healthy: Boolean(healthy) }); }

  _abort(reason) { this.#controller.abort(reason); }

  _end() {
    this.#ended = this.reason ?? 'shut-down';
    this._abort(new LeadershipLost(this.#ended));
  }
}

function optionsOf(url, election, options, more) {
  const { overdue = 'report', signal: _, ...rest } = options;
  if (overdue !== 'report' && overdue !== 'abort') {
    throw new TypeError(`invalid overdue '${overdue}': expected 'report' or 'abort'`);
  }
  return { ...rest, url: String(url), election: String(election), abort: overdue === 'abort', ...more };
}

// Opens a candidate. `changed` is called after each change of its state.
async function open(options, changed) {
  const candidate = addon.create(options);
  await addon.open(candidate, () => changed(candidate));
  return candidate;
}

async function lead(url, election, work, options = {}) {
  const { signal } = options;
  signal?.throwIfAborted();
  let leadership = null;
  let elected;
  let failed;
  const election_ = new Promise((resolve, reject) => { elected = resolve; failed = reject; });
  election_.catch(() => {}); // an early abort has no reader yet
  const onAbort = () => {
    failed(signal.reason);
    leadership?._abort(signal.reason);
  };
  signal?.addEventListener('abort', onAbort, { once: true });
  let candidate = null;
  try {
    candidate = await open(optionsOf(url, election, options), (self) => {
      const state = addon.state(self);
      if (state.elected) elected();
      if (state.lost) leadership?._abort(new LeadershipLost(leadership.reason));
    });
    await election_;
    leadership = new Leadership(candidate);
    if (!leadership.isLeader) leadership._abort(new LeadershipLost(leadership.reason));
    const result = await work(leadership);
    leadership.check();
    return result;
  } catch (error) {
    const reason = leadership?.reason ?? null;
    throw reason === null || error instanceof LeadershipLost ? error : new LeadershipLost(reason, error);
  } finally {
    signal?.removeEventListener('abort', onAbort);
    leadership?._end();
    if (candidate) await addon.close(candidate);
  }
}

async function* observe(url, election, options = {}) {
  const { signal } = options;
  if (signal?.aborted) return;
  let wake = () => {};
  let seen = 0;
  const onAbort = () => wake();
  signal?.addEventListener('abort', onAbort, { once: true });
  let candidate = null;
  try {
    candidate = await open(optionsOf(url, election, {}, { observer: true }), () => {
      seen++;
      wake();
    });
    for (let shown = 0; !signal?.aborted;) {
      if (shown !== seen) {
        shown = seen;
        yield addon.state(candidate).leader;
      } else {
        await new Promise((resolve) => { wake = resolve; });
      }
    }
  } finally {
    signal?.removeEventListener('abort', onAbort);
    if (candidate) await addon.close(candidate);
  }
}

async function leader(url, election) {
  return addon.leader(addon.create({ url: String(url), election: String(election) }));
}

function checkToken(path, token) {
  addon.guardCheck({ path: String(path) }, token);
}

// The kernel has no wait for the lock that an AbortSignal can end, so holdToken asks again.
const HOLD_RETRY_MS = 10;

async function holdToken(path, token, write, options = {}) {
  const { timeout = Infinity, signal } = options;
  if (typeof timeout !== 'number' || !(timeout >= 0)) {
    throw new TypeError(`invalid timeout '${timeout}': expected milliseconds, 0 or more`);
  }
  if (typeof write !== 'function') throw new TypeError('invalid write: expected a function');
  signal?.throwIfAborted();
  const until = performance.now() + timeout;
  const guard = addon.guardOpen({ path: String(path) }, token);
  try {
    for (let busy; (busy = await addon.guardHold(guard)) !== null;) {
      if (performance.now() >= until) throw busy;
      await pause(HOLD_RETRY_MS);
      signal?.throwIfAborted();
    }
    signal?.throwIfAborted();
    return await write();
  } finally {
    addon.guardClose(guard);
  }
}

module.exports = { lead, observe, leader, checkToken, holdToken, Leadership, LeadershipLost };
