// Compiles addon.c to build/bellwether.node with the C compiler. Set CFLAGS and LDFLAGS if the
// library is not in a directory that the compiler searches, and CC for another compiler.
'use strict';
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const words = (text) => (text || '').split(/\s+/).filter(Boolean);
const candidates = [process.env.NODE_INCLUDE, path.join(process.execPath, '../../include/node'),
  '/usr/include/node', '/usr/include/nodejs/src'];
const headers = candidates.find((place) => place && fs.existsSync(path.join(place, 'node_api.h')));
if (!headers) {
  console.error('cannot find node_api.h: install libnode-dev, or set NODE_INCLUDE');
  process.exit(1);
}
const out = path.join(__dirname, 'build');
fs.mkdirSync(out, { recursive: true });
execFileSync(process.env.CC || 'cc', ['-std=gnu11', '-O2', '-Wall', '-Wextra', '-fPIC', '-shared',
  '-pthread', '-I', headers, ...words(process.env.CFLAGS), path.join(__dirname, 'addon.c'), '-o',
  path.join(out, 'bellwether.node'), ...words(process.env.LDFLAGS), '-lbellwether'],
{ stdio: 'inherit' });
