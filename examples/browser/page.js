import { load, loadInWorker } from "./digits/digits.js";

// The model takes 360 images of 8 x 8 at once, with brightnesses of up to 16. What is drawn is the first of them.
const IMAGES = 360;
const SIDE = 8;
const WHITE = 16;
const CALLS = 50;

const element = (id) => document.getElementById(id);
const canvas = element("drawing");
const context = canvas.getContext("2d", { willReadFrequently: true });
// As thick as in the images that the model was trained on.
context.lineWidth = 50;
context.lineCap = context.lineJoin = "round";
context.strokeStyle = "#fff";

const scaled = new OffscreenCanvas(64, 64).getContext("2d", { willReadFrequently: true });

const bars = Array.from({ length: 10 }, (_, digit) => {
  const row = element("scores").insertRow();
  row.insertCell().textContent = digit;
  return row.insertCell().appendChild(Object.assign(document.createElement("meter"), { max: 1 }));
});

/** The brightness of 8 x 8 squares around what is drawn: as in the model's training images, a digit is as high as its image. */
function pixels() {
  const { width, height } = canvas;
  const drawn = context.getImageData(0, 0, width, height).data;
  let [left, top, right, bottom] = [width, height, 0, 0];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (drawn[4 * (y * width + x) + 3] === 0) continue;
      [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x + 1), Math.max(bottom, y + 1)];
    }
  }
  const sums = new Float32Array(SIDE * SIDE);
  if (right <= left) return sums;
  const scale = scaled.canvas.width / Math.max(right - left, bottom - top);
  const [w, h] = [(right - left) * scale, (bottom - top) * scale];
  scaled.clearRect(0, 0, scaled.canvas.width, scaled.canvas.height);
  const [x, y] = [(scaled.canvas.width - w) / 2, (scaled.canvas.height - h) / 2];
  scaled.drawImage(canvas, left, top, right - left, bottom - top, x, y, w, h);
  const square = scaled.canvas.width / SIDE;
  const { data } = scaled.getImageData(0, 0, scaled.canvas.width, scaled.canvas.height);
  for (let at = 0; at < data.length / 4; at++) {
    const [x, y] = [at % scaled.canvas.width, Math.floor(at / scaled.canvas.width)];
    sums[Math.floor(y / square) * SIDE + Math.floor(x / square)] += data[4 * at + 3];
  }
  return sums.map((sum) => Math.round((WHITE * sum) / (255 * square * square)));
}

function show(scores, digit) {
  element("digit").textContent = digit;
  const powers = Array.from(scores, (score) => Math.exp(score - Math.max(...scores)));
  const sum = powers.reduce((a, b) => a + b);
  bars.forEach((bar, index) => (bar.value = powers[index] / sum));
}

function clear() {
  context.clearRect(0, 0, canvas.width, canvas.height);
  element("digit").textContent = "";
  bars.forEach((bar) => (bar.value = 0));
}

async function measure(where, call) {
  for (let i = 0; i < CALLS; i++) await call();
  const start = performance.now();
  for (let i = 0; i < CALLS; i++) await call();
  const time = (performance.now() - start) / CALLS;
  const row = element("speed").insertRow();
  for (const text of [where, time.toFixed(3), Math.round((1000 * IMAGES) / time)]) row.insertCell().textContent = text;
}

const [model, worker] = await Promise.all([load(), loadInWorker()]);
// Written in place for each call, and passed without a copy.
const images = model.tensor("f32", [IMAGES, SIDE * SIDE]);

function classify() {
  images.data.set(pixels());
  const [scores, digits] = model.classify(images);
  show(scores.data.subarray(0, 10), digits.data[0]);
  scores.free();
  digits.free();
}

let last;
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  last = [event.offsetX, event.offsetY];
});
canvas.addEventListener("pointermove", (event) => {
  if (!event.buttons || !last) return;
  context.beginPath();
  context.moveTo(...last);
  context.lineTo((last = [event.offsetX, event.offsetY])[0], last[1]);
  context.stroke();
  classify();
});
element("clear").addEventListener("click", clear);
element("measure").addEventListener("click", async () => {
  try {
    await measure("page", () => model.classify(images).forEach((tensor) => tensor.free()));
    const all = new Float32Array(IMAGES * SIDE * SIDE);
    await measure("worker, with copies", () => worker.classify(all));
  } catch (error) {
    element("status").textContent = `${error.status ?? error.name}: ${error.message}`;
  }
});
document.body.dataset.ready = "true";
