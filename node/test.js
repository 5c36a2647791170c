// Tests of the package on the real library. Verdicts depend on states and tokens, not on times.
'use strict';
const assert = require('node:assert');
const { execFile } = require('node:child_process');
const { getEventListeners } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { setTimeout: pause } = require('node:timers/promises');
const bellwether = require('.');

const ttl = 30000; // long: a stalled machine loses no leadership by it, and nothing waits for it

function place(context) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'lib-node-'));
  context.after(() => fs.rmSync(directory, { recursive: true }));
  return { directory, db: path.join(directory, 'e.db'), store: 'sqlite:' + path.join(directory, 'e.db') };
}

// Starts a leadership that lasts until end() is called.
async function leading(store, options) {
  let end;
  const over = new Promise((resolve) => { end = resolve; });
  const started = {};
  await new Promise((resolve, reject) => {
    started.done = bellwether.lead(store, 'e', async (lead) => {
      started.lead = lead;
      resolve();
      await over;
    }, { ttl, ...options });
    started.done.catch(reject);
  });
  return { ...started, end };
}

const aborted = (signal) => new Promise((resolve) => {
  if (signal.aborted) resolve();
  signal.addEventListener('abort', resolve, { once: true });
});

// Runs a program with the package; it may use `lead`, `store` and `fs`.
function program(context, text, store) {
  const script = `const { lead } = require(${JSON.stringify(__dirname)});
    const fs = require('node:fs'); const store = ${JSON.stringify(store)}; ${text}`;
  const child = execFile(process.execPath, ['-e', script]);
  context.after(() => child.kill('SIGKILL'));
  child.ended = new Promise((resolve) => { child.on('exit', (code, signal) => resolve({ code, signal })); });
  child.said = new Promise((resolve) => { child.stdout.once('data', resolve); });
  return child;
}

test('work_leads_and_releases', async (t) => {
  const { store } = place(t);
  for (const want of [1n, 2n]) {
    let kept;
    const result = await bellwether.lead(store, 'e', async (lead) => {
      kept = lead;
      lead.check();
      assert.equal(lead.token, want);
      assert.equal(lead.id, 'a');
      assert.ok(lead.isLeader && !lead.signal.aborted && lead.reason === null);
      assert.ok(lead.valid > 0 && lead.valid <= ttl);
      return 'done';
    }, { ttl, id: 'a' });
    assert.equal(result, 'done');
    assert.ok(!kept.isLeader && kept.signal.aborted && kept.valid === 0 && kept.reason === 'shut-down');
    assert.throws(() => kept.check(), bellwether.LeadershipLost);
  }
});

test('error_of_the_work_is_passed_on_and_releases', async (t) => {
  const { store } = place(t);
  await assert.rejects(bellwether.lead(store, 'e', () => { throw new RangeError('x'); }, { ttl }), RangeError);
  assert.equal(await bellwether.lead(store, 'e', (lead) => lead.token, { ttl }), 2n);
});

test('second_candidate_waits_for_the_first', async (t) => {
  const { store } = place(t);
  const first = await leading(store);
  let second = null;
  const waiting = bellwether.lead(store, 'e', (lead) => { second = lead.token; }, { ttl });
  await pause(100);
  assert.equal(second, null);
  first.end();
  await waiting;
  assert.ok(second > first.lead.token);
  await first.done;
});

test('signal_ends_the_wait_for_the_election', async (t) => {
  const { store } = place(t);
  const first = await leading(store);
  const never = () => assert.fail('two leaders');
  await assert.rejects(bellwether.lead(store, 'e', never, { ttl, signal: AbortSignal.abort() }), { name: 'AbortError' });
  await assert.rejects(bellwether.lead(store, 'e', never, { ttl, signal: AbortSignal.timeout(1) }), { name: 'TimeoutError' });
  await assert.rejects(bellwether.lead(store, 'e', never, { ttl, signal: AbortSignal.timeout(100) }), { name: 'TimeoutError' });
  first.end();
  await first.done;
});

test('signal_aborts_the_work_and_the_leadership_is_kept_until_it_ends', async (t) => {
  const { store } = place(t);
  const stop = new AbortController();
  await assert.rejects(bellwether.lead(store, 'e', async (lead) => {
    setImmediate(() => stop.abort());
    await aborted(lead.signal);
    assert.ok(lead.isLeader);
    lead.signal.throwIfAborted();
  }, { ttl, signal: stop.signal }), { name: 'AbortError' });
});

test('loss_aborts_the_work_with_its_reason', async (t) => {
  const { store } = place(t);
  await assert.rejects(bellwether.lead(store, 'e', async (lead) => {
    lead.healthy(false);
    await aborted(lead.signal);
    assert.equal(lead.signal.reason.reason, 'unhealthy');
    assert.equal(lead.reason, 'unhealthy');
    assert.ok(!lead.isLeader);
  }, { ttl }), { name: 'LeadershipLost', reason: 'unhealthy' });
});

test('leadership_is_lost_when_the_store_is_gone', async (t) => {
  const { store, db } = place(t);
  await assert.rejects(bellwether.lead(store, 'e', async (lead) => {
    fs.renameSync(db, db + '.away');
    await aborted(lead.signal);
  }, { ttl: 1000 }), bellwether.LeadershipLost);
});

test('leadership_is_transferred', async (t) => {
  const { store } = place(t);
  const first = await leading(store, { id: 'a' });
  const second = bellwether.lead(store, 'e', (lead) => lead.id, { ttl, id: 'b' });
  while (first.lead.isLeader) {
    try {
      first.lead.transfer('b');
    } catch { /* b is not known yet, or the transfer is under way */ }
    await pause(10);
  }
  await aborted(first.lead.signal);
  assert.equal(first.lead.reason, 'transferred');
  first.end();
  await assert.rejects(first.done, { reason: 'transferred' });
  assert.equal(await second, 'b');
});

test('blocked_event_loop_is_ended_by_the_library', async (t) => {
  const { store, db } = place(t);
  const child = program(t, `lead(store, 'e', () => { fs.writeSync(1, 'leading'); for (;;); },
    { ttl: 1000, overdue: 'abort' });`, store);
  await child.said;
  fs.renameSync(db, db + '.away');
  const { signal } = await child.ended;
  assert.ok(['SIGABRT', 'SIGKILL'].includes(signal), signal);
});

test('exit_while_leading_ends_the_process', async (t) => {
  const { store } = place(t);
  const child = program(t, `lead(store, 'e', () => { fs.writeSync(1, 'leading'); process.exit(7); },
    { ttl: ${ttl} });`, store);
  assert.deepEqual(await child.ended, { code: 7, signal: null });
  assert.equal(await bellwether.lead(store, 'e', (lead) => lead.token, { ttl }), 2n);
});

test('observer_follows_the_leader', async (t) => {
  const { store } = place(t);
  const first = await leading(store, { id: 'a', value: 'here:80' });
  const stop = new AbortController();
  const seen = [];
  let second;
  for await (const leader of bellwether.observe(store, 'e', { signal: stop.signal })) {
    seen.push(leader && leader.id);
    if (leader && leader.id === 'a') {
      assert.deepEqual(leader, { id: 'a', token: 1n, value: 'here:80' });
      first.end();
    } else if (leader === null && !second && seen.includes('a')) {
      await first.done;
      second = await leading(store, { id: 'b' });
    } else if (leader && leader.id === 'b') {
      assert.equal((await bellwether.leader(store, 'e')).id, 'b');
      stop.abort();
    }
  }
  assert.equal(seen.at(-1), 'b');
  second.end();
  await second.done;
  assert.equal(await bellwether.leader(store, 'e'), null);
});

test('guard_rejects_older_tokens', async (t) => {
  const file = path.join(place(t).directory, 'report.csv');
  bellwether.checkToken(file, 7n);
  bellwether.checkToken(file, 7n);
  assert.throws(() => bellwether.checkToken(file, 6n), { code: 'ESTALE' });
  assert.throws(() => bellwether.checkToken(file, 0n), { code: 'ENOTOKEN' });
  assert.throws(() => bellwether.checkToken(file, 8), { code: 'EINVAL' });
  bellwether.checkToken(file, 2n ** 53n + 1n);
  assert.throws(() => bellwether.checkToken(file, 2n ** 53n), { code: 'ESTALE' });
});

const deferred = () => {
  const made = {};
  made.promise = new Promise((resolve) => { made.resolve = resolve; });
  return made;
};

// Two calls exclude each other as two processes do.
test('held_guard_makes_a_newer_leader_wait_for_the_write', async (t) => {
  const file = path.join(place(t).directory, 'report.csv');
  const written = [];
  let newer;
  const result = await bellwether.holdToken(file, 7n, async () => {
    for (const timeout of [0, 30]) {
      await assert.rejects(bellwether.holdToken(file, 8n, () => written.push('early'), { timeout }), { code: 'EBUSY' });
    }
    newer = bellwether.holdToken(file, 8n, () => written.push(8));
    await pause(50);
    written.push(7);
    return 'done';
  });
  assert.equal(result, 'done');
  await newer;
  assert.deepEqual(written, [7, 8]);
  await assert.rejects(bellwether.holdToken(file, 7n, () => written.push('late')), { code: 'ESTALE' });
  assert.deepEqual(written, [7, 8]);
});

test('stopped_process_keeps_the_guard_until_its_write_has_ended', async (t) => {
  const { directory, store } = place(t);
  const file = path.join(directory, 'report.csv');
  const child = program(t, `const { holdToken } = require(${JSON.stringify(__dirname)});
    holdToken(${JSON.stringify(file)}, 5n, () => { fs.writeSync(1, 'held'); process.kill(process.pid, 'SIGSTOP');
      fs.appendFileSync(${JSON.stringify(file)}, 'five'); });`, store);
  await child.said;
  while (!/\) T /.test(fs.readFileSync(`/proc/${child.pid}/stat`, 'utf8'))) await pause(1); // stopped
  await assert.rejects(bellwether.holdToken(file, 6n, () => assert.fail('two holders'), { timeout: 50 }), { code: 'EBUSY' });
  const newer = bellwether.holdToken(file, 6n, () => fs.appendFileSync(file, ' six'));
  child.kill('SIGCONT');
  await newer;
  assert.equal(fs.readFileSync(file, 'utf8'), 'five six');
});

test('guard_is_released_when_the_write_fails', async (t) => {
  const file = path.join(place(t).directory, 'report.csv');
  await assert.rejects(bellwether.holdToken(file, 1n, () => { throw new RangeError('x'); }), RangeError);
  await assert.rejects(bellwether.holdToken(file, 1n, async () => { throw new RangeError('x'); }), RangeError);
  assert.equal(await bellwether.holdToken(file, 1n, () => 'done', { timeout: 0 }), 'done');
});

test('signal_ends_the_wait_for_the_guard', async (t) => {
  const file = path.join(place(t).directory, 'report.csv');
  const stop = new AbortController();
  const goOn = deferred();
  const inside = deferred();
  const holder = bellwether.holdToken(file, 1n, () => { inside.resolve(); return goOn.promise; });
  await inside.promise;
  const waiting = bellwether.holdToken(file, 1n, () => assert.fail('two holders'), { signal: stop.signal });
  stop.abort(new RangeError('enough'));
  await assert.rejects(waiting, RangeError);
  await assert.rejects(bellwether.holdToken(file, 1n, () => assert.fail('aborted'), { signal: stop.signal }), RangeError);
  goOn.resolve();
  await holder;
});

test('invalid_arguments_of_a_guard_are_named', async (t) => {
  const { directory } = place(t);
  const file = path.join(directory, 'report.csv');
  const write = () => assert.fail('held');
  await assert.rejects(bellwether.holdToken(file, 0n, write), { code: 'ENOTOKEN' });
  await assert.rejects(bellwether.holdToken(file, 8, write), { code: 'EINVAL' });
  await assert.rejects(bellwether.holdToken(file, 8n), /invalid write/);
  await assert.rejects(bellwether.holdToken(file, 8n, write, { timeout: -1 }), /invalid timeout/);
  await assert.rejects(bellwether.holdToken(path.join(directory, 'none', 'file'), 8n, write), /cannot open/);
});

test('invalid_arguments_are_named', async (t) => {
  const { store } = place(t);
  const work = () => assert.fail('elected');
  await assert.rejects(bellwether.lead('nothing://x', 'e', work), { code: 'EINVAL' });
  await assert.rejects(bellwether.lead(store, '', work), { code: 'EINVAL' });
  await assert.rejects(bellwether.lead(store, 'e', work, { ttl: 'soon' }), /invalid ttl/);
  await assert.rejects(bellwether.lead(store, 'e', work, { id: 7 }), /invalid id/);
  await assert.rejects(bellwether.lead(store, 'e', work, { overdue: 'never' }), /invalid overdue/);
  await assert.rejects(bellwether.lead(store, 'e', work, { ttl: 1000, killAfter: 9000 }), { code: 'EINVAL' });
  await assert.rejects(bellwether.leader('nothing://x', 'e'), { code: 'EINVAL' });
});

test('nothing_is_left_behind', async (t) => {
  const { directory, store } = place(t);
  const file = path.join(directory, 'report.csv');
  const descriptors = () => fs.readdirSync('/proc/self/fd').length;
  await bellwether.lead(store, 'e', () => {}, { ttl });
  const before = descriptors();
  const { signal } = new AbortController();
  for (let i = 0; i < 5; i++) {
    await bellwether.lead(store, 'e', () => {}, { ttl });
    await assert.rejects(bellwether.lead(store, '', () => {}, { ttl, signal }));
    await assert.rejects(bellwether.observe('nothing://x', 'e', { signal }).next(), { code: 'EINVAL' });
    await bellwether.holdToken(file, 1n, () => assert.rejects(bellwether.holdToken(file, 1n, () => {}, { timeout: 0, signal })));
  }
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  assert.ok(descriptors() <= before, `${descriptors()} descriptors, ${before} before`);
});
