/** Leader election, with a stopped clock. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Election } from "../src/controller/lease.js";
import { createLog } from "../src/controller/log.js";
import { Metrics } from "../src/controller/metrics.js";
import { Answer, CancelledError, type ApiRequest } from "../src/index.js";
import { FakeClock } from "./fake_clock.js";

interface Lease {
  metadata: { resourceVersion?: string };
  spec: { holderIdentity: string; leaseTransitions: number; leaseDurationSeconds: number; acquireTime: string; renewTime: string };
}

/** An API server with one lease, which enforces resourceVersion. */
class Leases {
  text = "";
  state: "up" | "down" | "forbidden" | "hanging" = "up";

  get lease(): Lease {
    return JSON.parse(this.text) as Lease;
  }

  request({ method, body = "" }: ApiRequest, signal?: AbortSignal): Promise<Answer> {
    if (this.state === "down") return Promise.resolve(new Answer(0));
    if (this.state === "forbidden") return Promise.resolve(new Answer(403, Buffer.from('{"message":"leases is forbidden"}')));
    if (this.state === "hanging") {
      return new Promise((_, reject) => {
        signal?.addEventListener("abort", () => { reject(new CancelledError()); });
      });
    }
    return Promise.resolve(this.#answer(method, body));
  }

  #answer(method: string, body: string): Answer {
    if (method === "GET") return this.text ? new Answer(200, Buffer.from(this.text)) : new Answer(404);
    if ((this.text === "") !== (method === "POST")) return new Answer(409);
    const sent = (JSON.parse(body) as Lease).metadata.resourceVersion;
    const version = this.text ? this.lease.metadata.resourceVersion : undefined;
    if (sent !== version) return new Answer(409);
    const next = `"resourceVersion":"${Number(version ?? 0) + 1}"`;
    this.text = version ? body.replace(/"resourceVersion":"\d+"/, next) : body.replace('"metadata":{', `"metadata":{${next},`);
    return new Answer(200, Buffer.from(this.text));
  }
}

function electionOf(api: Leases, clock: FakeClock, identity: string): Election {
  const log = createLog("error", () => undefined);
  return new Election({ api, clock, log, namespace: "system", name: "lease", identity, durationMs: 15_000 });
}

test("one of two leads until it releases the lease", async () => {
  const [leases, clock, stop] = [new Leases(), new FakeClock(), new AbortController()];
  const [first, second] = [electionOf(leases, clock, "first"), electionOf(leases, clock, "second")];
  assert.ok(await first.acquire(stop.signal));
  assert.equal(leases.lease.spec.leaseTransitions, 0);
  assert.match(leases.lease.spec.renewTime, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  let acquired = false;
  void second.acquire(stop.signal).then((it) => (acquired = it));
  await clock.advance(10_000);
  assert.equal(acquired, false);
  await first.release();
  assert.equal(leases.lease.spec.holderIdentity, "");
  await clock.advance(2_000);
  assert.equal(acquired, true);
  assert.deepEqual([leases.lease.spec.holderIdentity, leases.lease.spec.leaseTransitions], ["second", 1]);
  await first.release(); // no longer its own
  assert.equal(leases.lease.spec.holderIdentity, "second");
});

test("a standby reports the holder of the lease", async () => {
  const [leases, clock, stop] = [new Leases(), new FakeClock(), new AbortController()];
  const lines: string[] = [];
  const metrics = new Metrics();
  const log = createLog("info", (line) => lines.push((JSON.parse(line) as { message: string }).message));
  const options = { api: leases, clock, log, namespace: "system", name: "lease", durationMs: 15_000, observer: metrics.observeLease };
  const [first, second] = [new Election({ ...options, identity: "first" }), new Election({ ...options, identity: "second" })];
  const holder = async (): Promise<string> =>
    (await metrics.registry.metrics()).split("\n").filter((it) => it.startsWith("rollplan_controller_lease_holder")).join();
  assert.ok(await first.acquire(stop.signal));
  assert.equal(await holder(), 'rollplan_controller_lease_holder{lease="system/lease",holder="first",self="true"} 1');
  const acquired = second.acquire(stop.signal);
  await clock.advance(6_000); // it is read every two seconds, and reported once
  assert.equal(await holder(), 'rollplan_controller_lease_holder{lease="system/lease",holder="first",self="false"} 1');
  leases.state = "forbidden";
  await clock.advance(2_000);
  leases.state = "up";
  await first.release();
  await clock.advance(2_000);
  assert.ok(await acquired);
  assert.equal(await holder(), 'rollplan_controller_lease_holder{lease="system/lease",holder="second",self="true"} 1');
  assert.deepEqual(lines, [
    "acquired the lease system/lease: first",
    "waiting for the lease system/lease, which another adapter holds: first",
    "cannot read the lease system/lease: leases is forbidden (403)",
    "acquired the lease system/lease: second",
  ]);
});

test("a lease that is not renewed is taken over and lost", async () => {
  const [leases, clock, stop] = [new Leases(), new FakeClock(), new AbortController()];
  const [first, second] = [electionOf(leases, clock, "first"), electionOf(leases, clock, "second")];
  assert.ok(await first.acquire(stop.signal));
  let acquired = false;
  void second.acquire(stop.signal).then((it) => (acquired = it));
  await clock.advance(14_000);
  assert.equal(acquired, false);
  await clock.advance(3_000);
  assert.equal(acquired, true);
  let kept: boolean | undefined;
  void first.keep(stop.signal).then((it) => (kept = it));
  await clock.advance(12_000);
  assert.equal(kept, false);
  stop.abort();
});

for (const state of ["down", "hanging"] as const) {
  test(`a leader gives up before its lease ends while the API server is ${state}`, async () => {
    const [leases, clock, stop] = [new Leases(), new FakeClock(), new AbortController()];
    const leader = electionOf(leases, clock, "leader");
    assert.ok(await leader.acquire(stop.signal));
    let kept: boolean | undefined;
    void leader.keep(stop.signal).then((it) => (kept = it));
    await clock.advance(60_000);
    assert.equal(kept, undefined);
    leases.state = state;
    await clock.advance(6_000);
    assert.equal(kept, undefined);
    await clock.advance(8_000);
    assert.equal(kept, false);
    stop.abort();
  });
}

test("a leader that is stopped has not lost its lease, and other fields of it are kept", async () => {
  const [leases, clock, stop] = [new Leases(), new FakeClock(), new AbortController()];
  leases.text =
    '{"metadata":{"resourceVersion":"7","annotations":{"a":"b"}},"future":9007199254740993,"spec":{"strategy":"OldestEmulationVersion"}}';
  const leader = electionOf(leases, clock, "leader");
  assert.ok(await leader.acquire(stop.signal));
  assert.match(leases.text, /"annotations":\{"a":"b"\}.*"future":9007199254740993.*"strategy":"OldestEmulationVersion"/);
  const keeping = leader.keep(stop.signal);
  await clock.advance(4_000);
  stop.abort();
  assert.equal(await keeping, true);
  assert.equal(await leader.acquire(stop.signal), false);
});
