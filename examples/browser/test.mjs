// Draws digits in headless Chromium, and measures: `node test.mjs [SCREENSHOT.png]`. Needs `npm install`, and Chromium as
// `chromium` or $CHROMIUM.
import assert from "node:assert/strict";
import puppeteer from "puppeteer-core";
import { testPage } from "./test_page.mjs";

await testPage(puppeteer, { height: 900 }, async (page, text) => {
  await page.waitForSelector("body[data-ready]");
  const box = await (await page.$("#drawing")).boundingBox();
  const draw = async (points) => {
    await page.click("#clear");
    assert.equal(await text("#digit"), "");
    const [[x, y], ...rest] = points.map(([x, y]) => [box.x + x, box.y + y]);
    await page.mouse.move(x, y);
    await page.mouse.down();
    for (const [x, y] of rest) await page.mouse.move(x, y, { steps: 4 });
    await page.mouse.up();
    return text("#digit");
  };

  const circle = Array.from({ length: 26 }, (_, i) => [128 + 60 * Math.sin(i / 4), 128 - 95 * Math.cos(i / 4)]);
  const strokes = {
    0: circle,
    1: [[95, 75], [140, 30], [140, 230]],
    2: [[80, 80], [100, 40], [150, 35], [180, 80], [150, 140], [75, 225], [190, 225]],
    3: [[80, 50], [140, 30], [175, 70], [130, 120], [180, 170], [140, 225], [75, 205]],
    5: [[180, 35], [95, 35], [90, 110], [150, 110], [180, 160], [150, 220], [80, 215]],
    6: [[150, 30], [95, 100], [80, 170], [110, 225], [165, 215], [175, 165], [130, 140], [90, 165]],
    7: [[70, 40], [190, 40], [110, 230]],
    4: [[120, 30], [70, 150], [190, 150], [160, 100], [150, 235]],
  };
  for (const [digit, points] of Object.entries(strokes)) assert.equal(await draw(points), digit);
  await page.click("#measure");
  await page.waitForFunction(() => document.querySelectorAll("#speed tr").length === 3);
  const rows = await page.$$eval("#speed tr", (rows) => rows.map((row) => row.innerText));
  // Errors of the model are exceptions in the page and in the worker, and both stay usable.
  const failures = await page.evaluate(async () => {
    const { load, loadInWorker } = await import("/digits/digits.js");
    const [model, worker] = [await load(), await loadInWorker()];
    const wrong = { data: new Float32Array(64), shape: [1, 64] };
    const statuses = [];
    try {
      model.classify(wrong);
    } catch (error) {
      statuses.push(`${error.name} ${error.status}`);
    }
    await worker.classify(wrong).catch((error) => statuses.push(`${error.name} ${error.status}`));
    const right = new Float32Array(360 * 64);
    statuses.push(model.classify(right)[1].shape[0], (await worker.classify(right))[1].shape[0]);
    return statuses;
  });
  assert.deepEqual(failures, ["IncarnateError INVALID_ARGUMENT", "IncarnateError INVALID_ARGUMENT", 360, 360]);
  assert.equal(await text("#status"), "");
  if (process.argv[2]) await page.screenshot({ path: process.argv[2] });
  console.log(rows.join("\n"));
  console.log(`the page recognises the digits ${Object.keys(strokes).join(", ")}`);
});
