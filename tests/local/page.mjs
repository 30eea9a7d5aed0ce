// Opens the page in Chromium, without a network and with its own policy, and uses it: every sample, files of every size and kind, a
// forecast, light and dark mode, three widths. Fails for any request, error, violation of the policy or of axe-core.
//
//   node tests/local/page.mjs PAGE AXE [DIRECTORY]      also leaves screenshots in the directory

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [page, axe, directory] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "rollplan-page-"));

/** Chromium, over its debugging pipe: a socket would need the network. */
class Browser {
  #id = 0;
  #pending = new Map();
  #session;
  #rest = Buffer.alloc(0);
  // What must not happen.
  problems = [];

  constructor() {
    const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", `--user-data-dir=${profile}`];
    const isRoot = process.getuid() === 0;
    this.process = spawn("unshare", ["--net", ...(isRoot ? [] : ["--map-current-user"]), "chromium", ...flags], {
      stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
    });
    this.process.stdio[4].on("data", (chunk) => this.#receive(chunk));
  }

  #receive(chunk) {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    for (let end; (end = this.#rest.indexOf(0)) >= 0; this.#rest = this.#rest.subarray(end + 1)) {
      const message = JSON.parse(this.#rest.subarray(0, end).toString());
      if (message.id) {
        const { resolve, reject } = this.#pending.get(message.id);
        if (message.error) reject(new Error(JSON.stringify(message.error)));
        else resolve(message.result);
      } else this.#notice(message);
    }
  }

  #notice({ method, params }) {
    if (method === "Network.requestWillBeSent" && !/^(file|data|blob):/.test(params.request.url)) this.problems.push(params.request.url);
    if (method === "Runtime.exceptionThrown") this.problems.push(JSON.stringify(params.exceptionDetails));
    if (method === "Log.entryAdded" && params.entry.level === "error") this.problems.push(params.entry.text);
    if (method === "Runtime.consoleAPICalled" && params.type === "error") this.problems.push(JSON.stringify(params.args));
  }

  send(method, params = {}) {
    const id = ++this.#id;
    const { promise, resolve, reject } = Promise.withResolvers();
    this.#pending.set(id, { resolve, reject });
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId: this.#session })}\0`);
    return promise;
  }

  async open(url) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    this.#session = sessionId;
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await this.send(`${domain}.enable`);
    await this.send("Page.navigate", { url });
    await this.until("document.readyState === 'complete' && document.querySelectorAll('#sample option').length > 1");
  }

  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    assert.ok(!exceptionDetails, JSON.stringify(exceptionDetails));
    return result.value;
  }

  async until(condition) {
    const end = Date.now() + 60_000;
    while (!(await this.evaluate(condition))) {
      if (Date.now() > end) assert.fail(`not within a minute: ${condition}: ${await this.message()}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  message() {
    return this.evaluate("document.getElementById('message').textContent");
  }

  async look(width, scheme) {
    await this.send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: false });
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
  }

  async screenshot(name) {
    if (!directory) return;
    const { data } = await this.send("Page.captureScreenshot", { captureBeyondViewport: true });
    writeFileSync(join(directory, `${name}.png`), Buffer.from(data, "base64"));
  }

  close() {
    this.process.kill("SIGKILL");
    rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
  }
}

const RESULT = "!document.getElementById('result').hidden";
const FAILED = "document.getElementById('message').classList.contains('error')";
const DONE = `${RESULT} || ${FAILED}`;

/** Drops a file whose content is an expression. */
function drop(browser, name, content) {
  return browser.evaluate(`{
    const transfer = new DataTransfer();
    transfer.items.add(new File([${content}], ${JSON.stringify(name)}, { lastModified: Date.parse("2026-11-20T23:27:30Z") }));
    document.getElementById("message").textContent = "";
    document.getElementById("message").classList.remove("error");
    document.getElementById("result").hidden = true;
    document.body.dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: transfer }));
  }`);
}

async function violations(browser) {
  await browser.evaluate(readFileSync(axe, "utf8"));
  const found = await browser.evaluate(
    "axe.run().then(it => ({ passes: it.passes.length, violations: it.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' ')) }))",
  );
  assert.ok(found.passes > 10);
  return found.violations;
}

async function choose(browser, sample) {
  await browser.evaluate(`{
    const select = document.getElementById("sample");
    document.getElementById("result").hidden = true;
    document.getElementById("message").classList.remove("error");
    select.value = ${JSON.stringify(sample)};
    select.dispatchEvent(new Event("change"));
  }`);
  await browser.until(DONE);
  assert.ok(!(await browser.evaluate(FAILED)), `${sample}: ${await browser.message()}`);
}

const browser = new Browser();
try {
  await browser.open(pathToFileURL(resolve(page)).href);
  const samples = await browser.evaluate("[...document.querySelectorAll('#sample option')].map(it => it.value).filter(Boolean)");
  assert.ok(samples.length >= 15);
  assert.deepEqual(await violations(browser), []);
  const verdicts = new Set();
  let steps = 0;
  for (const [index, sample] of samples.entries()) {
    await choose(browser, sample);
    const seen = await browser.evaluate(`({
      verdict: document.getElementById("verdict").innerText, verdictClass: document.getElementById("verdict").className,
      counts: document.querySelectorAll("#counts dd").length, blockers: document.querySelectorAll("#blockers article").length,
      steps: document.querySelectorAll("#steps li").length, revisions: document.querySelectorAll("#revisions tr").length,
      text: document.getElementById("status-text").textContent })`);
    assert.ok(seen.verdict.length > 10 && seen.text.length > 20 && seen.counts > 4, JSON.stringify({ sample, seen }));
    if (sample.startsWith("stuck-")) assert.ok(seen.blockers > 0 && seen.verdictClass !== "good", JSON.stringify({ sample, seen }));
    verdicts.add(seen.verdictClass);
    steps += seen.steps;
    await browser.evaluate("document.querySelector('#change button').click()");
    await browser.until("document.getElementById('forecast').children.length > 0");
    for (const width of index < 4 || directory ? [360, 768, 1440] : [360]) {
      for (const scheme of ["light", "dark"]) {
        await browser.look(width, scheme);
        const excess = await browser.evaluate("document.documentElement.scrollWidth - innerWidth");
        assert.ok(excess <= 0, `${sample} at ${width} pixels is ${excess} pixels too wide`);
        if (width === 360 || index < 2) assert.deepEqual(await violations(browser), [], `${sample} ${width} ${scheme}`);
        await browser.screenshot(`${sample}.${width}.${scheme}`);
      }
    }
  }
  assert.ok(steps > 20, String(steps));
  // Rollouts that are complete, that need a change, and that continue look different.
  assert.deepEqual([...verdicts].sort(), ["", "bad", "good"]);

  await choose(browser, "mid-rollout");
  await browser.evaluate(`{
    document.getElementById("image").value = "registry.example/web:next";
    document.getElementById("replicas").value = 4;
    document.getElementById("forecast").replaceChildren();
    document.querySelector("#change button").click();
  }`);
  await browser.until("document.querySelector('#forecast svg')");
  assert.match(await browser.evaluate("document.querySelector('#forecast h3').textContent"), /change/);
  assert.equal(await browser.evaluate("getComputedStyle(document.querySelector('#forecast svg .new')).fill !== 'rgb(0, 0, 0)'"), true);

  const example = readFileSync(new URL("../../examples/mid-rollout.json", import.meta.url), "utf8");
  await drop(browser, "state.json", JSON.stringify(example));
  await browser.until(DONE);
  assert.match(await browser.message(), /^Deployment shop\/web: /);
  // 15 MB: the same state with the pods of others.
  const list = JSON.parse(example);
  const pod = list.items.find((it) => it.kind === "Pod");
  const others = Math.ceil(15e6 / JSON.stringify(pod).length);
  await drop(browser, "large.json", `(() => {
    const list = ${JSON.stringify(list)};
    const pod = ${JSON.stringify(pod)};
    for (let i = 0; i < ${others}; i++) {
      const metadata = { ...pod.metadata, name: "other-" + i, uid: "other-" + i, labels: { app: "other" }, ownerReferences: [] };
      list.items.push({ ...pod, metadata });
    }
    return JSON.stringify(list);
  })()`);
  await browser.until(DONE);
  assert.match(await browser.message(), /^Deployment shop\/web: /);

  const wrong = {
    "photo.png": ["new Uint8Array([137, 80, 78, 71, 13, 10, 26, 10, 0, 255, 254])", /YAML|UTF-8|control/],
    "table.txt": [JSON.stringify("NAME   READY   UP-TO-DATE   AVAILABLE   AGE\nweb    3/3     3            3           5d\n"), /table of kubectl/],
    "proxy.html": [JSON.stringify("<!DOCTYPE html><title>502 Bad Gateway</title>"), /HTML, for example the error page of a proxy/],
    "empty.json": ["''", /is empty/],
    "pods.json": [JSON.stringify('{"kind": "List", "items": [{"kind": "ConfigMap"}]}'), /There is no Deployment/],
    "huge.json": ["'x'.repeat(17 << 20)", /more than 16 MiB/],
    "markup.json": [JSON.stringify(example.replaceAll('"web"', '"<img src=x onerror=alert(1)>"')), /./],
  };
  for (const [name, [content, expected]] of Object.entries(wrong)) {
    await drop(browser, name, content);
    await browser.until(DONE);
    assert.match(await browser.message(), expected, name);
    assert.ok(name === "markup.json" || (await browser.evaluate(FAILED)), name);
    assert.equal(await browser.evaluate("document.querySelectorAll('img').length"), 0);
  }
  assert.deepEqual(browser.problems, []);
  console.log(`${samples.length} samples, no violations`);
} finally {
  browser.close();
}
