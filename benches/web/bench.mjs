// Milliseconds of a call of Incarnate and of onnxruntime-web in turn, on one thread of Node:
//
//     node bench.mjs NAME FOLDER PACKAGE
//
// FOLDER has the model of benches/real-models/make.py (model.onnx, in*.npy, out*.npy), PACKAGE is what `incarnate web` wrote.
import { readFileSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import * as ort from "onnxruntime-web/wasm";

const [, , name, folder, place] = process.argv;
const ROUNDS = 7;
const SECONDS = 0.7;

function npy(file) {
  const bytes = readFileSync(file);
  const length = bytes.readUInt16LE(8);
  const header = bytes.toString("latin1", 10, 10 + length);
  const shape = header.match(/'shape': \(([^)]*)\)/)[1].split(",").filter((part) => part.trim()).map(Number);
  const type = header.match(/'descr': '<(f4|i4|i8)'/)[1];
  const data = bytes.buffer.slice(bytes.byteOffset + 10 + length, bytes.byteOffset + bytes.length);
  const [array, onnx] = { f4: [Float32Array, "float32"], i4: [Int32Array, "int32"], i8: [BigInt64Array, "int64"] }[type];
  return { data: new array(data), shape, onnx };
}
const files = (prefix) => readdirSync(folder).filter((file) => file.startsWith(prefix) && file.endsWith(".npy")).sort();
const inputs = files("in").map((file) => npy(join(folder, file)));
const expected = files("out").map((file) => npy(join(folder, file)));

ort.env.wasm.numThreads = 1;
const session = await ort.InferenceSession.create(readFileSync(join(folder, "model.onnx")));
const feeds = {};
session.inputNames.forEach((input, i) => (feeds[input] = new ort.Tensor(inputs[i].onnx, inputs[i].data, inputs[i].shape)));
const peer = () => session.run(feeds);

const packageFile = readdirSync(place).find((file) => file.endsWith(".d.ts")).replace(".d.ts", ".js");
const model = await (await import(pathToFileURL(join(resolve(place), packageFile)))).load();
const call = model[Object.keys(model).find((key) => key !== "tensor")];
const tensors = inputs.map(({ data, shape }) => {
  const type = { Float32Array: "f32", Int32Array: "i32", BigInt64Array: "i64" }[data.constructor.name];
  const tensor = model.tensor(type, shape);
  tensor.data.set(data);
  return tensor;
});
const own = () => [call(...tensors)].flat().forEach((tensor) => tensor.free());

function difference(found) {
  let greatest = 0;
  expected.forEach(({ data }, i) => data.forEach((value, at) => (greatest = Math.max(greatest, Math.abs(Number(value) - Number(found[i][at]))))));
  return greatest;
}
const results = [call(...tensors)].flat();
const ownDifference = difference(results.map((tensor) => tensor.data.slice()));
results.forEach((tensor) => tensor.free());
const peerResults = await peer();
const peerDifference = difference(session.outputNames.map((output) => peerResults[output].data));

async function time(body) {
  const start = performance.now();
  let calls = 0;
  do {
    await body();
    calls++;
  } while (performance.now() - start < SECONDS * 1000);
  return (performance.now() - start) / calls;
}
const least = { own: Infinity, peer: Infinity };
for (let round = 0; round < ROUNDS; round++) {
  least.own = Math.min(least.own, await time(own));
  least.peer = Math.min(least.peer, await time(peer));
}
const cells = [name, least.own.toFixed(3), least.peer.toFixed(3), (least.own / least.peer).toFixed(2), ownDifference.toExponential(1), peerDifference.toExponential(1)];
console.log(`| ${cells.join(" | ")} |`);
