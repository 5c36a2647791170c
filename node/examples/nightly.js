// A job that runs on one instance at a time, and stops in time when its leadership is lost.
//
//     node nightly.js STORE FILE ROUNDS
//
// Start it as often as you like. Each instance that is elected appends ROUNDS lines to FILE, behind
// a guard that rejects the writes of a former leader, and hands over. SIGTERM ends it cleanly.
'use strict';
const fs = require('node:fs/promises');
const { setTimeout: pause } = require('node:timers/promises');
const { lead, checkToken, LeadershipLost } = require('..');

const [store, path, rounds] = process.argv.slice(2);
const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());

async function work({ signal, token }) {
  for (let round = 1; round <= Number(rounds) && !stop.signal.aborted; round++) {
    checkToken(path, token); // throws ESTALE if a newer leader has written
    await fs.appendFile(path, `token ${token} round ${round}\n`);
    await pause(20, null, { signal }); // rejects when the leadership is lost
  }
}

lead(store, 'nightly', work, { ttl: 30000, overdue: 'abort', signal: stop.signal }).catch((error) => {
  if (error instanceof LeadershipLost) {
    console.error(`stopped: ${error.message}`);
    process.exitCode = 76;
  } else if (error.name !== 'AbortError') {
    console.error(error.message);
    process.exitCode = 1;
  }
});
