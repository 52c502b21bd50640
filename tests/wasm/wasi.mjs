// Runs a program of target wasm32-wasip1 in Node: `node wasi.mjs PROGRAM.wasm [ARGUMENT]...`. It may read and write all files that
// Node may, by absolute paths, and it has the environment of Node.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [, , file, ...rest] = process.argv;
const wasi = new WASI({
  version: "preview1",
  args: [file, ...rest],
  env: process.env,
  preopens: { "/": "/" },
});
// Node 18 has no `getImportObject`.
const imports = { wasi_snapshot_preview1: wasi.wasiImport };
const { instance } = await WebAssembly.instantiate(await readFile(file), imports);
process.exitCode = wasi.start(instance);
