// Runs a WebAssembly program with the playground's own WASI: wasm_run.mjs FILE ARGUMENTS...
import { readFileSync, writeSync } from "node:fs";
import { Exit, wasi } from "../../../web/wasi.js";

const [file, ...args] = process.argv.slice(2);
const host = wasi([file, ...args], (fd, bytes) => writeSync(fd, bytes));
const module = await WebAssembly.compile(readFileSync(file));
const names = WebAssembly.Module.imports(module).map((entry) => entry.name);
const imports = Object.fromEntries(names.map((name) => [name, host.imports[name]]));
const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: imports });
host.attach(instance);
try {
  instance.exports._start();
} catch (error) {
  if (!(error instanceof Exit)) throw error;
  process.exitCode = error.code;
}
