// Calls the functions of a program that `incarnate web` built. Scripts import the module of their model, which imports this one.

/** An error of the model or of the runtime. The model stays usable. */
export class IncarnateError extends Error {
  constructor(status, message) {
    super(message);
    this.name = "IncarnateError";
    /** The name of the status, such as INVALID_ARGUMENT. */
    this.status = status;
  }
}

// Name of each element type, its number in the runtime, and the array of its elements.
const TYPES = [
  /* types */
];
const BY_NAME = new Map(TYPES.map((row) => [row[0], row]));
const BY_NUMBER = new Map(TYPES.map((row) => [row[1], row]));

const wrong = (message) => new IncarnateError("INVALID_ARGUMENT", message);

/** A tensor in the memory of the program. */
export class Tensor {
  #program;
  #number;

  constructor(program, number) {
    this.#program = program;
    this.#number = number;
    const [, , type, , ...shape] = program.describe(number);
    const row = BY_NUMBER.get(Number(type));
    if (!row) throw wrong(`elements of type ${type} are not supported`);
    /** The name of the element type. */
    this.type = row[0];
    /** The extents. */
    this.shape = shape.map(Number);
    program.registry.register(this, number, this);
  }

  /** The number of the tensor, for the program it is of. */
  of(program) {
    if (program !== this.#program) throw wrong("the tensor is of another model");
    if (!this.#number) throw wrong("the tensor was freed");
    return this.#number;
  }

  /**
   * The elements in place: a view of the program's memory, to be read and written. It is valid until the next call of the model, which
   * may move the memory; get it again after one.
   */
  get data() {
    const [address, bytes] = this.#program.describe(this.of(this.#program));
    const array = BY_NAME.get(this.type)[2];
    return new array(this.#program.exports.memory.buffer, Number(address), Number(bytes) / array.BYTES_PER_ELEMENT);
  }

  /** Releases the memory now, instead of when the tensor is collected. */
  free() {
    if (!this.#number) return;
    this.#program.registry.unregister(this);
    this.#program.exports.incarnate_free(this.#number);
    this.#number = 0;
  }
}

class Program {
  constructor(instance) {
    this.exports = instance.exports;
    this.registry = new FinalizationRegistry((number) => this.exports.incarnate_free(number));
    if (this.exports.incarnate_load() !== 0) throw this.error();
  }

  slots(count) {
    return this.view(this.exports.incarnate_slots(count), count);
  }

  view(address, count) {
    return new BigUint64Array(this.exports.memory.buffer, address, count);
  }

  describe(number) {
    const count = this.exports.incarnate_describe(number);
    if (count === 0) throw this.error();
    return this.slots(count);
  }

  error() {
    const [address, length] = this.view(this.exports.incarnate_error(), 2);
    const bytes = new Uint8Array(this.exports.memory.buffer, Number(address), Number(length));
    const [status, ...message] = new TextDecoder().decode(bytes).split("\n");
    return new IncarnateError(status, message.join("\n"));
  }

  find(name) {
    const bytes = new TextEncoder().encode(name);
    const slots = this.slots(Math.ceil(bytes.length / 8));
    new Uint8Array(slots.buffer, slots.byteOffset, bytes.length).set(bytes);
    const number = this.exports.incarnate_function(bytes.length);
    if (number < 0) throw this.error();
    return number;
  }

  /** A tensor of zeros. */
  tensor(type, shape) {
    const row = BY_NAME.get(type);
    if (!row) throw wrong(`elements of type ${type} are not supported`);
    this.slots(shape.length).set(shape.map(BigInt));
    const number = this.exports.incarnate_tensor(row[1], shape.length);
    if (number === 0) throw this.error();
    return new Tensor(this, number);
  }

  /** The tensor of an argument, and whether it was made for the call. */
  argument(value, { name, type, shape }) {
    if (value instanceof Tensor) return [value, false];
    const given = value?.shape ?? resolved(shape, value, name);
    const elements = value?.data ?? value;
    if (typeof elements?.length !== "number") throw wrong(`${name} is not a tensor, an array, or {data, shape}`);
    const wanted = BY_NAME.get(value?.type ?? type)?.[2];
    if (ArrayBuffer.isView(elements) && wanted && !(elements instanceof wanted)) {
      throw wrong(`${name} is a ${elements.constructor.name}, and its elements are ${type}: pass a ${wanted.name}`);
    }
    const count = given.reduce((product, extent) => product * extent, 1);
    if (elements.length !== count) {
      throw wrong(`${name} has ${elements.length} elements, and its shape ${given.join("x")} has ${count}`);
    }
    const tensor = this.tensor(value?.type ?? type, given);
    tensor.data.set(elements);
    return [tensor, true];
  }

  /** Calls a function of the signature `{name, inputs, outputs}`. */
  call(number, { name, inputs, outputs }, values) {
    if (values.length !== inputs.length) {
      throw wrong(`${name} takes ${inputs.length} arguments, not ${values.length}`);
    }
    const made = [];
    try {
      const numbers = inputs.map((input, index) => {
        if (!input.shape) return bits(input.type, values[index]);
        const [tensor, isMade] = this.argument(values[index], input);
        if (isMade) made.push(tensor);
        return BigInt(tensor.of(this));
      });
      this.slots(numbers.length).set(numbers);
      const count = this.exports.incarnate_call(number);
      if (count < 0) throw this.error();
      const slots = [...this.slots(count)];
      const results = outputs.map((output, index) =>
        output.shape ? new Tensor(this, Number(slots[index])) : value(output.type, slots[index]),
      );
      return results.length === 1 ? results[0] : results;
    } finally {
      made.forEach((tensor) => tensor.free());
    }
  }
}

/** The shape of a plain array: that of the signature, of which one extent may be left to the call. */
function resolved(shape, value, name) {
  if (!shape.includes(null)) return shape;
  const known = shape.reduce((product, extent) => product * (extent ?? 1), 1);
  if (shape.filter((extent) => extent === null).length > 1 || value.length % known !== 0) {
    throw wrong(`${name} needs a shape: pass {data, shape}`);
  }
  return shape.map((extent) => extent ?? value.length / known);
}

const scratch = new DataView(new ArrayBuffer(8));

/** The bits of a number. */
function bits(type, number) {
  if (type === "f32") scratch.setFloat32(0, number);
  else if (type === "f64") scratch.setFloat64(0, number);
  if (type === "f32") return BigInt(scratch.getUint32(0));
  if (type === "f64") return scratch.getBigUint64(0);
  return BigInt.asUintN(64, BigInt(number));
}

/** The number of bits. */
function value(type, slot) {
  scratch.setBigUint64(0, slot);
  if (type === "f32") return scratch.getFloat32(4);
  if (type === "f64") return scratch.getFloat64(0);
  if (type === "i64") return BigInt.asIntN(64, slot);
  return type === "i1" ? slot !== 0n : scratch.getInt32(4);
}

async function instantiate(source) {
  if (source instanceof WebAssembly.Module) return WebAssembly.instantiate(source, {});
  if (ArrayBuffer.isView(source) || source instanceof ArrayBuffer) {
    return (await WebAssembly.instantiate(source, {})).instance;
  }
  if (source instanceof URL && source.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return (await WebAssembly.instantiate(await readFile(source), {})).instance;
  }
  const response = source instanceof Response ? source : await fetch(source);
  if (!response.ok) throw new IncarnateError("UNAVAILABLE", `${response.url}: ${response.status} ${response.statusText}`);
  const isStreamed = response.headers.get("content-type")?.startsWith("application/wasm");
  return (isStreamed
    ? await WebAssembly.instantiateStreaming(response, {})
    : await WebAssembly.instantiate(await response.arrayBuffer(), {})
  ).instance;
}

/** Loads a program with the functions of a table, from a URL, a response, bytes or a compiled module. */
export async function load(source, table) {
  const program = new Program(await instantiate(source));
  const model = { tensor: (type, shape) => program.tensor(type, shape) };
  for (const signature of table) {
    const number = program.find(signature.name);
    model[signature.name] = (...values) => program.call(number, signature, values);
  }
  return model;
}

const plain = (value) =>
  value instanceof Tensor ? { data: value.data.slice(), shape: value.shape, type: value.type } : value;

/** In a worker: calls the functions of a model for the page. */
export function serve(loaded) {
  addEventListener("message", async ({ data: { id, name, values, source } }) => {
    try {
      const model = await loaded(source);
      if (!name) return postMessage({ id });
      const result = model[name](...values);
      const all = Array.isArray(result) ? result : [result];
      const results = all.map(plain);
      all.forEach((one) => one instanceof Tensor && one.free());
      const buffers = results.map((one) => one?.data?.buffer).filter(Boolean);
      postMessage({ id, result: Array.isArray(result) ? results : results[0] }, buffers);
    } catch (error) {
      postMessage({ id, status: error.status ?? "INTERNAL", message: error.message });
    }
  });
}

/** In a page: a model whose functions run in a worker and return promises. */
export async function connect(worker, source, table) {
  const pending = new Map();
  let next = 0;
  const send = (message) =>
    new Promise((resolve, reject) => {
      pending.set(++next, { resolve, reject });
      worker.postMessage({ id: next, ...message });
    });
  worker.onmessage = ({ data: { id, result, status, message } }) => {
    const { resolve, reject } = pending.get(id);
    pending.delete(id);
    if (status) reject(new IncarnateError(status, message));
    else resolve(result);
  };
  worker.onerror = (event) => {
    for (const { reject } of pending.values()) reject(new IncarnateError("UNAVAILABLE", event.message));
    pending.clear();
  };
  await send({ source });
  const model = { terminate: () => worker.terminate() };
  for (const { name } of table) model[name] = (...values) => send({ name, values });
  return model;
}
