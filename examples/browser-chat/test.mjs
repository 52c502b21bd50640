// Talks with the model in headless Chromium, and compares the answers with a file of the native program's: `node test.mjs [SCREENSHOT.png
// [ANSWERS.json]]`, by default those of the test's model. Needs `npm install`, and Chromium as `chromium` or $CHROMIUM.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import puppeteer from "puppeteer-core";
import { serve } from "../browser/serve.mjs";

const FOLDER = fileURLToPath(new URL(".", import.meta.url));
const [screenshot, answers = `${FOLDER}tests/answers.json`] = process.argv.slice(2);

const server = await serve(0, FOLDER);
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
  protocolTimeout: 600_000,
});
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(600_000);
  await page.setViewport({ width: 800, height: 700 });
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  const text = (selector) => page.$eval(selector, (element) => element.textContent.trim());
  const reach = (state) => page.waitForSelector(`body[data-state=${state}]`);
  const messages = () => page.$$eval("#messages li", (items) => items.map((item) => item.textContent));
  const set = (id, value) => page.$eval(`#${id}`, (element, value) => (element.value = value), value);
  const begin = async ({ question, temperature, limit, seed }) => {
    await Promise.all(Object.entries({ question, temperature, limit, seed }).map(([id, value]) => set(id, value)));
    await page.click("#ask");
  };
  const load = async () => {
    await page.click("#beside");
    await page.waitForSelector("body:not([data-state=loading])");
    assert.deepEqual([await text("#error"), await page.$eval("body", (body) => body.dataset.state)], ["", "ready"]);
  };

  await load();
  const rows = JSON.parse(await readFile(answers, "utf8"));
  for (const row of rows) {
    await begin(row);
    await reach("ready");
    assert.equal(await text("#error"), "");
    assert.equal((await messages()).at(-1), row.answer);
    console.log(`'${row.question}': ${await text("#status")}`);
  }
  if (screenshot) await page.screenshot({ path: screenshot });
} finally {
  await browser.close();
  server.close();
}
