/** The control loop. As a whole it is tested on a real control plane (tests/e2e/adapter). */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { create } from "@bufbuild/protobuf";

import type { Source } from "../src/controller/cache.js";
import { Controller, type ControllerOptions } from "../src/controller/controller.js";
import { createLog } from "../src/controller/log.js";
import { Metrics } from "../src/controller/metrics.js";
import { Probe } from "../src/controller/probe.js";
import {
  Answer,
  Api,
  ApiError,
  CancelledError,
  DEPLOYMENT,
  keyText,
  NativeControllerError,
  parseObject,
  PlannerError,
  POD,
  REPLICA_SET,
  type ApiRequest,
  type Kind,
  type KubeObject,
  type Page,
  type Reader,
  type SyncResult,
  type WatchEvent,
} from "../src/index.js";
import { Failure } from "../src/steps.js";
import { ApiCallSchema, Phase, PlanRolloutResponseSchema, RolloutReportSchema, StepSchema } from "../src/v1.js";
import { FakeClock, settle } from "./fake_clock.js";

const DONE: SyncResult = {
  response: create(PlanRolloutResponseSchema, { report: create(RolloutReportSchema, { phase: Phase.COMPLETE }) }),
  again: false,
  rejected: [],
  cancelled: false,
};

/** An API server whose watches show the objects of a test. */
class World implements Source {
  readonly watched: string[] = [];
  readonly #objects = new Map<string, KubeObject[]>();
  readonly #watches = new Map<string, (event: WatchEvent) => void>();
  #version = 100;

  put(kind: Kind, name: string, { owner, type = "RollingUpdate", uid = name }: { owner?: object; type?: string; uid?: string } = {}) {
    const version = String(++this.#version);
    const ownerReferences = owner ? [{ controller: true, ...owner }] : [];
    const metadata = { namespace: "shop", name, uid, resourceVersion: version, ownerReferences };
    const it = parseObject(JSON.stringify({ metadata, spec: { strategy: { type } } }), kind);
    const watch = this.#watches.get(kind.kind);
    if (watch) watch({ type: "MODIFIED", object: it, version });
    else this.#objects.set(kind.kind, [...(this.#objects.get(kind.kind) ?? []), it]);
    return it;
  }

  remove(kind: Kind, object: KubeObject): void {
    this.#watches.get(kind.kind)?.({ type: "DELETED", object, version: String(++this.#version) });
  }

  list(kind: Kind): Promise<Page> {
    return Promise.resolve({ objects: this.#objects.get(kind.kind) ?? [], version: "100", next: "" });
  }

  async *watch(kind: Kind, { signal, labelSelector = "" }: { signal?: AbortSignal | undefined; labelSelector?: string | undefined }) {
    this.watched.push(`${kind.plural} ${labelSelector}`);
    const events: WatchEvent[] = [];
    let wake: () => void = () => undefined;
    this.#watches.set(kind.kind, (event) => {
      events.push(event);
      wake();
    });
    signal?.addEventListener("abort", () => { wake(); });
    while (!signal?.aborted) {
      for (let next = events.shift(); next; next = events.shift()) yield next;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  }
}

/** An API server that accepts everything. */
class Calls extends Api {
  readonly bodies: string[] = [];

  constructor() {
    super({ server: "http://127.0.0.1:1" });
  }

  override request({ body = "" }: ApiRequest): Promise<Answer> {
    this.bodies.push(body);
    return Promise.resolve(new Answer(201));
  }
}

interface Bench {
  readonly world: World;
  readonly api: Calls;
  readonly clock: FakeClock;
  readonly controller: Controller;
  readonly metrics: Metrics;
  readonly lines: string[];
  /** The synced keys, with the milliseconds since the start. */
  readonly synced: [string, number][];
  /** The results of the syncs of a Deployment, in order. The last one is repeated. */
  readonly outcomes: Map<string, (SyncResult | Error | ((signal: AbortSignal) => Promise<SyncResult>))[]>;
  readonly reader: () => Reader;
}

async function start(context: TestContext, prepare: (world: World) => void, options: Partial<ControllerOptions> = {}): Promise<Bench> {
  const [world, api, clock, metrics] = [new World(), new Calls(), new FakeClock(), new Metrics()];
  const lines: string[] = [];
  const synced: Bench["synced"] = [];
  const outcomes: Bench["outcomes"] = new Map();
  const log = createLog("info", (line) => lines.push(line));
  const begin = clock.now();
  prepare(world);
  let reader: Reader | undefined;
  const controller = new Controller(api, { kind: DEPLOYMENT, log, metrics, clock, source: world, ...options }, (settings) => {
    reader = settings.reader;
    return {
      sync: async (key, { signal }) => {
        synced.push([key.name, clock.now() - begin]);
        const left = outcomes.get(key.name) ?? [DONE];
        const outcome = (left.length > 1 ? left.shift() : left[0]) ?? DONE;
        if (outcome instanceof Error) throw outcome;
        return typeof outcome === "function" && signal ? outcome(signal) : (outcome as SyncResult);
      },
    };
  });
  await controller.startCaches();
  context.after(() => controller.stop({ atOnce: true }));
  return { world, api, clock, controller, metrics, lines, synced, outcomes, reader: () => reader ?? assert.fail() };
}

function names(bench: Bench): string[] {
  return bench.synced.splice(0).map(([name]) => name);
}

test("changes lead to syncs, at most one in the least interval", async (context) => {
  const bench = await start(context, (world) => {
    world.put(DEPLOYMENT, "a");
    world.put(DEPLOYMENT, "b");
  });
  const { world, clock, controller } = bench;
  controller.startWorkers();
  await settle();
  assert.deepEqual(bench.synced, [["a", 0], ["b", 0]]);
  for (let i = 0; i < 5; i++) world.put(DEPLOYMENT, "a");
  await clock.advance(99);
  world.put(DEPLOYMENT, "a");
  await settle();
  assert.equal(bench.synced.length, 2);
  await clock.advance(1);
  assert.deepEqual(bench.synced[2], ["a", 100]);
  assert.deepEqual(world.watched, ["deployments !rollplan.dev/probe", "replicasets "]);
});

test("a ReplicaSet wakes its owner, and an orphan every Deployment of its namespace", async (context) => {
  const bench = await start(context, (world) => {
    world.put(DEPLOYMENT, "a");
    world.put(DEPLOYMENT, "b");
  });
  const { world, clock, controller } = bench;
  controller.startWorkers();
  await clock.advance(1_000);
  names(bench);
  world.put(REPLICA_SET, "a-1", { owner: { kind: "Deployment", name: "a", uid: "a" } });
  world.put(REPLICA_SET, "job-1", { owner: { kind: "Other", name: "b", uid: "x" } });
  await clock.advance(1_000);
  assert.deepEqual(names(bench), ["a"]);
  world.put(REPLICA_SET, "a-1"); // it is released: its previous owner, and all that may adopt it
  await clock.advance(1_000);
  assert.deepEqual(names(bench), ["a", "b"]);
});

test("pods are watched when Recreate needs them, and each one that is deleted wakes it", async (context) => {
  const bench = await start(context, (world) => {
    world.put(DEPLOYMENT, "a", { type: "Recreate" });
    world.put(DEPLOYMENT, "b");
    for (const owner of ["a", "b"]) {
      world.put(REPLICA_SET, `${owner}-1`, { owner: { kind: "Deployment", name: owner, uid: owner } });
      for (const pod of [1, 2]) {
        world.put(POD, `${owner}-1-${pod}`, { owner: { kind: "ReplicaSet", name: `${owner}-1`, uid: `${owner}-1` } });
      }
    }
  });
  const { world, clock, controller } = bench;
  controller.startWorkers();
  await clock.advance(1_000);
  assert.equal(world.watched.length, 2);
  const pods = await bench.reader().controlledBy(POD, "shop", new Set(["a-1", "b-1"]));
  assert.deepEqual(pods.map((it) => it.key.name), ["a-1-1", "a-1-2", "b-1-1", "b-1-2"]);
  await settle();
  assert.equal(world.watched.length, 3);
  names(bench);
  for (const pod of pods) {
    world.remove(POD, pod);
    await clock.advance(1_000);
    assert.deepEqual(names(bench), pod.key.name.startsWith("a") ? ["a"] : []);
  }
});

test("a failure is tried again with a backoff that doubles, and anything unexpected is logged", async (context) => {
  const bench = await start(context, (world) => world.put(DEPLOYMENT, "a"), { minIntervalMs: 0 });
  const { clock, controller, outcomes, lines } = bench;
  const again = { ...DONE, again: true };
  outcomes.set("a", [new ApiError("list", 500, "away"), new TypeError("a mistake"), again, DONE]);
  controller.startWorkers();
  await clock.advance(1_000);
  assert.deepEqual(bench.synced, [["a", 0], ["a", 5], ["a", 15], ["a", 35]]);
  assert.match(lines[0] ?? "", /"level":"warn".*list: away/);
  assert.match(lines[1] ?? "", /"level":"error".*TypeError: a mistake/);
  outcomes.set("a", [again, DONE]);
  bench.world.put(DEPLOYMENT, "a");
  await clock.advance(1_000);
  assert.deepEqual(bench.synced.slice(4), [["a", 1_000], ["a", 1_005]]);
});

test("an unavailable service is called again after one to two seconds", async (context) => {
  const bench = await start(context, (world) => world.put(DEPLOYMENT, "a"));
  bench.outcomes.set("a", [new PlannerError("unavailable", "away"), DONE]);
  bench.controller.startWorkers();
  await bench.clock.advance(999);
  assert.equal(bench.synced.length, 1);
  await bench.clock.advance(1_001);
  assert.equal(bench.synced.length, 2);
});

test("a rejection counts once, and is followed by a sync that reports it", async (context) => {
  const bench = await start(context, (world) => world.put(DEPLOYMENT, "a"));
  const body = Buffer.from('{"reason":"Forbidden","message":"exceeded quota"}');
  const failure = new Failure(create(StepSchema, { summary: "create" }), create(ApiCallSchema), new Answer(403, body));
  bench.outcomes.set("a", [{ ...DONE, again: true, rejected: [failure] }, { ...DONE, again: true }, DONE]);
  bench.controller.startWorkers();
  await bench.clock.advance(1_000);
  assert.deepEqual(bench.synced.map(([, at]) => at), [0, 100, 200]);
  assert.match(bench.lines.join(""), /create: exceeded quota \(403\)/);
  const metrics = await bench.metrics.registry.metrics();
  assert.match(metrics, /rollplan_controller_rejected_calls_total\{reason="Forbidden"\} 1/);
  assert.match(metrics, /rollplan_controller_syncs_total\{outcome="retry"\} 1/);
  assert.match(metrics, /rollplan_controller_rollouts\{phase="complete",verdict="unspecified",certain="false"\} 1/);
  assert.match(metrics, /rollplan_controller_queue_length 0/);
});

test("next to the native controller, a Deployment is not managed, and an event reports it once a minute", async (context) => {
  const bench = await start(context, (world) => world.put(DEPLOYMENT, "a"));
  bench.outcomes.set("a", [new NativeControllerError()]);
  bench.controller.startWorkers();
  await bench.clock.advance(89_000);
  assert.deepEqual(bench.synced.map(([, at]) => at), [0, 30_000, 60_000]);
  assert.equal(bench.api.bodies.length, 2);
  const event = JSON.parse(bench.api.bodies[0] ?? "") as { reason: string; involvedObject: { uid: string } };
  assert.deepEqual([event.reason, event.involvedObject.uid], ["NativeController", "a"]);
});

test("nothing is synced before the probe is clear", async (context) => {
  const clock = new FakeClock();
  const body = Buffer.from('{"metadata":{"generation":2},"status":{"observedGeneration":0}}');
  const api = { request: () => Promise.resolve(new Answer(200, body)) };
  const probe = new Probe({ api, clock, log: createLog("error", () => undefined), namespace: "system", waitMs: 25_000 });
  const bench = await start(context, (world) => world.put(DEPLOYMENT, "a"), { probe, clock });
  bench.controller.startWorkers();
  await clock.advance(25_000);
  assert.deepEqual(bench.synced, []);
  await clock.advance(6_000);
  assert.equal(bench.synced.length, 1);
});

test("every Deployment is synced again after the resync interval, and when a plan says so", async (context) => {
  const bench = await start(context, (world) => {
    world.put(DEPLOYMENT, "a");
    world.put(DEPLOYMENT, "b");
  });
  bench.outcomes.set("b", [{ ...DONE, requeueAfterMs: 2_000_000 }, DONE]);
  bench.controller.startWorkers();
  await bench.clock.advance(3_600_000);
  const expected = [["a", 0], ["b", 0], ["b", 2_000_000], ["a", 3_600_000], ["b", 3_600_000]];
  assert.deepEqual(bench.synced, expected);
});

test("the state of a deleted Deployment is discarded", async (context) => {
  const bench = await start(context, () => undefined);
  const owner = bench.world.put(DEPLOYMENT, "a");
  await settle();
  bench.controller.startWorkers();
  await bench.clock.advance(1_000);
  bench.outcomes.set("a", [{ again: false, rejected: [], cancelled: false }]);
  bench.world.remove(DEPLOYMENT, owner);
  await bench.clock.advance(1_000);
  assert.deepEqual(names(bench), ["a", "a"]);
  assert.equal(await bench.reader().get(DEPLOYMENT, owner.key), undefined, keyText(owner.key));
  assert.match(await bench.metrics.registry.metrics(), /rollplan_controller_rollouts\{phase="complete",verdict="unspecified",certain="false"\} 0/);
});

test("syncs may finish for five seconds when the controller stops, but not when it has lost its lease", async (context) => {
  for (const [atOnce, expected] of [[false, 5_000], [true, 0]] as const) {
    const bench = await start(context, (world) => {
      world.put(DEPLOYMENT, "a");
      world.put(DEPLOYMENT, "b");
    }, { workers: 1 });
    const { clock, controller } = bench;
    const begin = clock.now();
    let cancelledAt: number | undefined;
    bench.outcomes.set("a", [
      (signal) =>
        new Promise((_, reject) => {
          signal.addEventListener("abort", () => {
            cancelledAt = clock.now() - begin;
            reject(new CancelledError());
          });
        }),
    ]);
    controller.startWorkers();
    await settle();
    let stopped = false;
    void controller.stop({ atOnce }).then(() => (stopped = true));
    await clock.advance(4_999);
    assert.equal(stopped, atOnce);
    await clock.advance(1);
    assert.equal(cancelledAt, expected);
    assert.equal(stopped, true);
    assert.deepEqual(names(bench), ["a"]); // no new sync was started
  }
});
