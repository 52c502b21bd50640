// Tests packages of `incarnate web` in Node: `node package.mjs INCARNATE`, with the command line to build them with.
//
// The classifier of digits computes what is expected; fused, with vectors and without, it computes the bits of the native program.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [, , incarnate] = process.argv;
const model = fileURLToPath(new URL("../models/digits/", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "incarnate-web-"));
const run = (...line) => execFileSync(incarnate, line, { stdio: ["ignore", "ignore", "inherit"] });

function npy(file, array) {
  const bytes = readFileSync(file);
  const start = bytes.byteOffset + 10 + bytes.readUInt16LE(8);
  return new array(bytes.buffer.slice(start, bytes.byteOffset + bytes.length));
}
const images = npy(join(model, "test_images.in0.npy"), Float32Array);
const scores = npy(join(model, "test_images.out0.npy"), Float32Array);
const labels = npy(join(model, "test_images.out1.npy"), Int32Array);

async function build(name, ...options) {
  run("web", join(model, "vmvx.vmfb"), "-o", join(folder, name), ...options);
  return (await import(pathToFileURL(join(folder, name, `${name}.js`)))).load();
}

function errors(digits) {
  const statuses = [];
  const wrong = [
    () => digits.classify({ data: new Float32Array(64), shape: [1, 64] }),
    () => digits.classify(new Float32Array(3)),
    () => digits.classify(new Float64Array(360 * 64)),
    () => digits.classify(),
    () => {
      const tensor = digits.tensor("f32", [360, 64]);
      tensor.free();
      return digits.classify(tensor);
    },
  ];
  for (const call of wrong) {
    try {
      call();
    } catch (error) {
      statuses.push(error.status);
    }
  }
  assert.deepEqual(statuses, Array(5).fill("INVALID_ARGUMENT"));
}

let checks = 0;
try {
  const digits = await build("digits");
  const tensor = digits.tensor("f32", [360, 64]);
  tensor.data.set(images);
  for (const argument of [images, { data: images, shape: [360, 64] }, Array.from(images), tensor]) {
    const [found, foundLabels] = digits.classify(argument);
    assert.deepEqual([found.type, found.shape, foundLabels.shape], ["f32", [360, 10], [360]]);
    found.data.forEach((score, at) => assert.ok(Math.abs(score - scores[at]) < 1e-3, `${score}, not ${scores[at]}`));
    assert.deepEqual(foundLabels.data, labels);
    errors(digits);
    checks++;
  }
  const file = join(folder, "native.npy");
  const input = `--input=@${join(model, "test_images.in0.npy")}`;
  run("run", join(model, "vmvx.vmfb"), input, `--output=@${file}`, "--output=");
  const native = npy(file, Uint32Array);
  for (const [name, ...options] of [["fused", "--fused"], ["scalar", "--fused", "--no-simd"]]) {
    const [found] = (await build(name, ...options)).classify(images);
    const bits = found.data.slice();
    assert.deepEqual(new Uint32Array(bits.buffer), native, `${name}: other bits than the native program`);
    checks++;
  }
  console.log(`test result: ok. ${checks} passed; packages in Node ${process.version}`);
} finally {
  rmSync(folder, { recursive: true });
}
