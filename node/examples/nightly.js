// A job that runs on one instance at a time, and stops in time when its leadership is lost.
//
//     node nightly.js STORE FILE ROUNDS
//
// Start it as often as you like. Each instance that is elected appends ROUNDS lines to FILE, and
// hands over. It holds a guard during each write, so that a former leader never writes after a newer
// one. SIGTERM ends it cleanly.
'use strict';
const fs = require('node:fs/promises');
const { setTimeout: pause } = require('node:timers/promises');
const { lead, holdToken, LeadershipLost } = require('..');

const [store, path, rounds] = process.argv.slice(2);
const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());

async function work({ signal, token }) {
  for (let round = 1; round <= Number(rounds) && !stop.signal.aborted; round++) {
    const write = () => fs.appendFile(path, `token ${token} round ${round}\n`);
    await holdToken(path, token, write, { signal }); // rejects with ESTALE if a newer leader has written
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
