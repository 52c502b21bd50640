// Opens a page of a folder in headless Chromium, `chromium` or $CHROMIUM. `test` gets the page, and a function for the text of an element.
// Errors in the page and in its console fail the test.
import assert from "node:assert/strict";
import { serve } from "./serve.mjs";

// `puppeteer` is the module of the caller, whose folder has it.
export async function testPage(puppeteer, { folder, height }, test) {
  const server = await serve(0, folder);
  const browser = await puppeteer.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
    protocolTimeout: 600_000,
  });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(600_000);
    await page.setViewport({ width: 800, height });
    const errors = [];
    page.on("pageerror", (error) => errors.push(error.message));
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await test(page, (selector) => page.$eval(selector, (element) => element.textContent.trim()));
    assert.deepEqual(errors, []);
  } finally {
    await browser.close();
    server.close();
  }
}
