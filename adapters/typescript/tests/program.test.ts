/** The command line of the controller, and its endpoints. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { address, boolean, count, duration, help, parseFlags, positive, UsageError } from "../src/controller/flags.js";
import { createLog } from "../src/controller/log.js";
import { Metrics } from "../src/controller/metrics.js";
import { Endpoint, probes, type Page } from "../src/controller/serve.js";
import { PlannerError } from "../src/index.js";

const REQUIRED = ["--mode=custom-resource", "--planner=p:1"];

test("durations are written as in Go", () => {
  assert.deepEqual(["100ms", "1m30s", "2h", "0", "1.5s"].map(duration), [100, 90_000, 7_200_000, 0, 1_500]);
});

test("invalid values are refused", () => {
  const cases: [(text: string) => unknown, string][] = [
    [duration, "5"],
    [duration, "s"],
    [boolean, "yes"],
    [boolean, "toString"],
    [address, "host:x"],
    [address, "host:65536"],
    [positive, "0"],
    [positive, ""],
    [count, "1.5"],
  ];
  for (const [read, text] of cases) assert.throws(() => read(text), UsageError, text);
});

test("flags have the defaults and the forms of the Go adapter", () => {
  const flags = parseFlags([...REQUIRED, "--leader-elect=false", "--namespaces=a, b", "--metrics-bind-address", "0"]);
  assert.ok(flags);
  assert.deepEqual(flags.namespaces, ["a", "b"]);
  assert.equal(flags["metrics-bind-address"], undefined);
  assert.deepEqual(flags["health-probe-bind-address"], { host: "", port: 8081 });
  assert.deepEqual([flags.workers, flags["min-interval"]], [5, 100]);
  assert.equal(parseFlags([...REQUIRED, "--leader-elect-namespace=default", "--leader-elect"])?.["leader-elect"], true);
  assert.deepEqual(address("[::1]:80"), { host: "::1", port: 80 });
});

test("an invalid command line names the flag", () => {
  const cases: [string[], RegExp][] = [
    [["--planner=p:1"], /--mode is required/],
    [["--mode=constructor", "--planner=p:1"], /--mode: invalid value "constructor"/],
    [[...REQUIRED, "--workers=x"], /--workers: invalid value "x"/],
    [[...REQUIRED, "--unknown"], /--unknown/],
    [REQUIRED, /--leader-elect-namespace/],
    [["--mode=takeover", "--planner=p:1", "--leader-elect=false"], /--native-controller-probe=0/],
  ];
  for (const [args, message] of cases) assert.throws(() => parseFlags(args), { name: "Error", message });
  assert.ok(parseFlags(["--mode=takeover", "--planner=p:1", "--leader-elect=false", "--native-controller-probe=0"]));
});

test("the help has every flag with its default", () => {
  assert.equal(parseFlags(["--help"]), undefined);
  assert.match(help(), /--planner-timeout\n {6}.*\(10s\)/);
});

async function endpoint(context: TestContext, pages: Record<string, Page>): Promise<string> {
  const listening = await Endpoint.listen({ host: "127.0.0.1", port: 0 }, pages);
  context.after(() => {
    listening.close();
  });
  return `http://127.0.0.1:${listening.port}`;
}

test("readiness follows the service, and each change is logged with its reason", async (context) => {
  const errors = [new PlannerError("unavailable", "away"), new PlannerError("unavailable", "away")];
  const lines: string[] = [];
  const log = createLog("info", (line) => lines.push((JSON.parse(line) as { message: string }).message));
  const check = (): Promise<void> => {
    const error = errors.pop();
    return error ? Promise.reject(error) : Promise.resolve();
  };
  const url = await endpoint(context, probes(check, log));
  const read = async (path: string): Promise<string> => {
    const response = await fetch(url + path);
    return `${response.status} ${await response.text()}`;
  };
  assert.equal(await read("/readyz"), "500 PlannerError: unavailable: away");
  assert.equal(await read("/readyz"), "500 PlannerError: unavailable: away");
  assert.equal(await read("/readyz"), "200 ok");
  assert.equal(await read("/readyz"), "200 ok");
  assert.deepEqual(lines, ["not ready: the service does not answer: unavailable: away", "ready"]);
  assert.equal(await read("/healthz"), "200 ok");
  assert.equal(await read("/constructor"), "404 not found");
});

test("attempts to call the service are measured by their code in Go", async (context) => {
  const metrics = new Metrics();
  metrics.collectProcess();
  metrics.observePlanner(3, "ok");
  metrics.observePlanner(3, "deadline_exceeded");
  const page = { type: metrics.registry.contentType, read: () => metrics.registry.metrics() };
  const response = await fetch(`${await endpoint(context, { "/metrics": page })}/metrics`);
  assert.match(response.headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
  const text = await response.text();
  assert.match(text, /request_duration_seconds_count\{code="OK"\} 1/);
  assert.match(text, /request_duration_seconds_count\{code="DeadlineExceeded"\} 1/);
  assert.match(text, /process_resident_memory_bytes/);
});

test("a message is one line of the log, whatever a cluster puts into it", () => {
  const lines: string[] = [];
  const log = createLog("WARN", (line) => lines.push(line));
  log.info("not shown");
  log.error('first\n{"level":"error"}\u001b[31m');
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /^\{"time":"[^"]*","level":"error","message":"first\\n\{\\"level\\":\\"error\\"\}\\u001b\[31m"\}\n$/);
});
