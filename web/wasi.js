// The part of WASI (preview 1) that the modules of Bellwether import: arguments, output, memory for nothing else. There are
// no files, no clock and no randomness: a simulated run depends only on its configuration and seed.

const SUCCESS = 0;
const BADF = 8;

export class Exit extends Error {
  constructor(code) {
    super(`exit ${code}`);
    this.code = code;
  }
}

// `write(fd, bytes)` gets the output of the program; fd 1 is standard output, 2 is standard error.
export function wasi(args, write) {
  let memory;
  const encoded = args.map((text) => new TextEncoder().encode(`${text}\0`));
  const view = () => new DataView(memory.buffer);
  const size = encoded.reduce((sum, bytes) => sum + bytes.length, 0);

  function writeAll(fd, vectors, count, written) {
    let total = 0;
    if (fd !== 1 && fd !== 2) return BADF;
    for (let i = 0; i < count; i++) {
      const at = view().getUint32(vectors + 8 * i, true);
      const length = view().getUint32(vectors + 8 * i + 4, true);
      write(fd, new Uint8Array(memory.buffer.slice(at, at + length)));
      total += length;
    }
    view().setUint32(written, total, true);
    return SUCCESS;
  }

  function putArguments(pointers, buffer) {
    for (const bytes of encoded) {
      view().setUint32(pointers, buffer, true);
      new Uint8Array(memory.buffer).set(bytes, buffer);
      pointers += 4;
      buffer += bytes.length;
    }
    return SUCCESS;
  }

  function putTwo(at, first, other, second) {
    view().setUint32(at, first, true);
    view().setUint32(other, second, true);
    return SUCCESS;
  }

  function describe(fd, at) {
    if (fd > 2) return BADF;
    new Uint8Array(memory.buffer).fill(0, at, at + 24);
    view().setUint8(at, 2); // a character device
    return SUCCESS;
  }

  const functions = {
    args_sizes_get: (count, bytes) => putTwo(count, encoded.length, bytes, size),
    args_get: putArguments,
    environ_sizes_get: (count, bytes) => putTwo(count, 0, bytes, 0),
    environ_get: () => SUCCESS,
    fd_write: writeAll,
    fd_fdstat_get: describe,
    proc_exit: (code) => {
      throw new Exit(code);
    },
  };
  return {
    // Everything else fails as for a file descriptor that is not open.
    imports: new Proxy(functions, { get: (table, name) => table[name] ?? (() => BADF) }),
    attach: (instance) => {
      memory = instance.exports.memory;
    },
  };
}
