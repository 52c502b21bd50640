// The worker: loads the program and the model's file, and generates answers. Its messages to the page have the types of `receivers` in page.js.

const ENDS = [null, "end", "length", "context"];
/** Bytes of the longest input: allocations of Rust are smaller than half of the 32-bit address space. */
const LONGEST = 2 ** 31 - 1;

const random = () => crypto.getRandomValues(new Uint32Array(1))[0];
const imports = { page: { now: () => performance.timeOrigin + performance.now(), random } };
const program = WebAssembly.instantiateStreaming(fetch(new URL("./chat.wasm", import.meta.url)), imports)
  .then(({ instance }) => instance.exports);
let exports;
let isLoaded = false;
let isStopped = false;

const send = (type, fields = {}) => postMessage({ type, ...fields });

/** Returns the output of the last call. */
function output() {
  const bytes = new Uint8Array(exports.memory.buffer, exports.output(), exports.output_length());
  return new TextDecoder().decode(bytes);
}

/** Returns what a call returned, or throws its error. */
function checked(result) {
  if (result < 0) throw new Error(output());
  return result;
}

/** Returns memory of the program for an input. It is valid until the next call, which may move the program's memory. */
function input(length) {
  const address = length <= LONGEST ? exports.input(length) >>> 0 : 0;
  if (address === 0) throw new Error(`there is no memory for ${length} bytes`);
  return new Uint8Array(exports.memory.buffer, address, length);
}

/** Copies a file, part by part, to the program's memory, where its weights are used. */
async function load(source) {
  exports = await program;
  let file = source;
  if (typeof source === "string") {
    const response = await fetch(source);
    if (!response.ok) throw new Error(`${source}: ${response.status} ${response.statusText}`);
    file = await response.blob();
  }
  const target = input(file.size);
  const reader = file.stream().getReader();
  let written = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    target.set(part.value, written);
    written += part.value.length;
    send("progress", { done: written / file.size });
  }
  checked(exports.load());
  isLoaded = true;
  send("loaded");
}

/** Yields to messages of the page. A timer would add milliseconds to each token; a message does not. */
function yieldToMessages() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/** Generates an answer. The time starts at the first token: before it, the question is read. */
async function ask({ question, temperature, limit, seed = random() }) {
  isStopped = false;
  const bytes = new TextEncoder().encode(question);
  input(bytes.length).set(bytes);
  checked(exports.ask(temperature, limit, seed));
  let [end, start] = [0, 0];
  while (!end && !isStopped) {
    end = checked(exports.advance());
    if (exports.written() > 0) start ||= performance.now();
    const text = output();
    if (text) send("text", { text });
    await yieldToMessages();
  }
  const seconds = (performance.now() - start) / 1000;
  if (!end) checked(exports.stop());
  send("end", { end: end ? ENDS[end] : "stopped", tokens: exports.written(), seconds });
}

onmessage = async ({ data }) => {
  try {
    if (data.load) await load(data.load);
    else if (data.stop) isStopped = true;
    else if (data.forget) checked(exports.forget());
    else await ask(data.ask);
  } catch (error) {
    // After a trap or a stack overflow, the program's state is inconsistent.
    const isUsable = isLoaded && !(error instanceof WebAssembly.RuntimeError || error instanceof RangeError);
    send("error", { message: error.message, isUsable });
  }
};
