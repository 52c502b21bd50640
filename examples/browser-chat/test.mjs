// Talks with the model in headless Chromium, and compares the answers with those of the native program, which `tests/answers.rs` writes:
// `node test.mjs [SCREENSHOT.png [ANSWERS.json]]`, by default those of the test's model. Needs `npm install`, and Chromium as `chromium`
// or $CHROMIUM.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import puppeteer from "puppeteer-core";
import { testPage } from "../browser/test_page.mjs";

const FOLDER = fileURLToPath(new URL(".", import.meta.url));
const [screenshot, answers = `${FOLDER}tests/answers.json`] = process.argv.slice(2);

await testPage(puppeteer, { folder: FOLDER, height: 700 }, async (page, text) => {
  const reach = (state) => page.waitForSelector(`body[data-state=${state}]`);
  const messages = () => page.$$eval("#messages li", (items) => items.map((item) => item.textContent));
  const set = (id, value) => page.$eval(`#${id}`, (element, value) => (element.value = value), value);
  const fill = ({ question, temperature, limit, seed }) =>
    Promise.all(Object.entries({ question, temperature, limit, seed }).map(([id, value]) => set(id, value)));
  const answer = async (row) => {
    await fill(row);
    await page.click("#ask");
    await reach("ready");
    assert.equal(await text("#error"), "");
    const status = await text("#status");
    assert.deepEqual([(await messages()).at(-1), Number.parseInt(status)], [row.answer, row.tokens]);
    return status;
  };

  // A file that is no model is an error, and another one can be loaded.
  await (await page.$("#file")).uploadFile(fileURLToPath(import.meta.url));
  await page.waitForFunction(() => document.getElementById("error").textContent !== "");
  assert.match(await text("#error"), /^INVALID_ARGUMENT/);
  assert.equal(await page.$eval("body", (body) => body.dataset.state), "empty");
  await page.click("#beside");
  await reach("ready");

  const conversations = JSON.parse(await readFile(answers, "utf8"));
  for (const rows of conversations) {
    await page.click("#forget");
    assert.deepEqual(await messages(), []);
    for (const row of rows) console.log(`'${row.question}': ${await answer(row)}`);
    assert.equal((await messages()).length, 2 * rows.length);
  }
  if (screenshot) await page.screenshot({ path: screenshot });

  // An answer can be stopped, and the next conversation does not depend on it.
  const [[first]] = conversations;
  await page.click("#forget");
  await fill({ ...first, limit: 100_000 });
  await page.evaluate(() => {
    document.getElementById("ask").click();
    document.getElementById("stop").click();
  });
  await reach("ready");
  assert.match(await text("#status"), /; stopped$/);
  await page.click("#forget");
  await answer(first);
});
