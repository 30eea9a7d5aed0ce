/** The probe for the native Deployment controller. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { createLog } from "../src/controller/log.js";
import { Probe } from "../src/controller/probe.js";
import { Answer, type ApiRequest } from "../src/index.js";
import { FakeClock } from "./fake_clock.js";

/** An API server with the probe, on which the native controller may be running. */
class Probed {
  generation = 0;
  observed = 0;
  created = 0;
  native = false;
  down = false;

  request({ method, body = "" }: ApiRequest): Promise<Answer> {
    let code = 200;
    if (this.down) return Promise.resolve(new Answer(0));
    if (method === "POST" && this.generation > 0) code = 409;
    else if (method === "POST") {
      assert.equal((JSON.parse(body) as { spec: { replicas: number } }).spec.replicas, 0);
      this.generation = 1;
      this.created++;
    } else if (this.generation === 0) code = 404;
    else if (method === "PATCH") this.generation++;
    if (this.native) this.observed = this.generation;
    const managedFields = [{ manager: "kube-controller-manager", subresource: "status" }];
    const it = { metadata: { generation: this.generation, managedFields }, status: { observedGeneration: this.observed } };
    return Promise.resolve(new Answer(code, Buffer.from(JSON.stringify(code === 200 ? it : { kind: "Status", code }))));
  }
}

function start(context: TestContext, api: Probed, clock: FakeClock): { probe: Probe; lines: string[] } {
  const lines: string[] = [];
  const log = createLog("info", (line) => lines.push(line));
  const probe = new Probe({ api, clock, log, namespace: "system", waitMs: 25_000 });
  const stop = new AbortController();
  const running = probe.run(stop.signal);
  context.after(() => {
    stop.abort();
    return running;
  });
  return { probe, lines };
}

test("the probe waits through a change of the leader", async (context) => {
  const [server, clock] = [new Probed(), new FakeClock()];
  const { probe, lines } = start(context, server, clock);
  await clock.advance(24_000);
  assert.equal(probe.clear, false);
  assert.deepEqual(lines, []);
  server.native = true; // the native controller becomes the leader
  await clock.advance(4_000);
  assert.equal(probe.clear, false);
  assert.match(lines.join(""), /Stopped the work on all Deployments.*kube-controller-manager has written the status/);
  server.native = false;
  await clock.advance(30_000);
  assert.equal(probe.clear, true);
});

test("the probe detects a native controller that starts later", async (context) => {
  const [server, clock] = [new Probed(), new FakeClock()];
  // A second adapter, which is no longer the leader or has no leader election, changes the same probe.
  const [first, second] = [start(context, server, clock), start(context, server, clock)];
  await clock.advance(600_000);
  assert.deepEqual([first.probe.clear, second.probe.clear, server.created], [true, true, 1]);
  // The native controller observes what has changed before its start.
  server.native = true;
  await clock.advance(4_000);
  assert.deepEqual([first.probe.clear, second.probe.clear], [false, false]);
});

test("the probe is not clear without an answer", async (context) => {
  const [server, clock] = [new Probed(), new FakeClock()];
  server.down = true;
  const { probe } = start(context, server, clock);
  await clock.advance(300_000);
  assert.equal(probe.clear, false);
  server.down = false;
  await clock.advance(60_000);
  assert.equal(probe.clear, true);
});
