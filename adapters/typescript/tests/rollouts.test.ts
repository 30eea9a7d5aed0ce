/** The loop of a sync, and single questions. As a whole the loop is tested with the corpus of tests/conformance. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { create, type MessageInitShape } from "@bufbuild/protobuf";

import {
  Answer,
  Api,
  CancelledError,
  DEPLOYMENT,
  NotFoundError,
  parseObject,
  pathOf,
  Planner,
  POD,
  REPLICA_SET,
  Rollouts,
  StalledError,
  WaitTimeoutError,
  type Kind,
  type KubeObject,
  type ListOptions,
  type RolloutsOptions,
} from "../src/index.js";
import {
  CanaryAction,
  durationFromMs,
  CanaryPhase,
  ChangeEffect,
  ComputeStatusResponseSchema,
  ForecastRolloutResponseSchema,
  OnFailure,
  Outlook,
  Phase,
  PlanCanaryResponseSchema,
  PlanRolloutResponseSchema,
  Verb,
  type ComputeStatusResponse,
  type ForecastRolloutRequestSchema,
  type ForecastRolloutResponse,
  type PlanCanaryRequestSchema,
  type PlanCanaryResponse,
  type PlanRolloutResponse,
  type PlanRolloutRequestSchema,
  type StepSchema,
  type SyncResponseSchema,
  type ComputeStatusRequestSchema,
} from "../src/v1.js";

const KEY = { namespace: "shop", name: "web" };

function deployment(metadata: object = {}): KubeObject {
  const it = { metadata: { ...KEY, uid: "web-uid", resourceVersion: "10", ...metadata }, spec: { selector: {}, template: {} } };
  return parseObject(JSON.stringify(it), DEPLOYMENT);
}

function dependent(kind: Kind, name: string, owner: string, version = "1"): KubeObject {
  const ownerReferences = [{ kind: "any", name: "any", uid: owner, controller: true }];
  return parseObject(JSON.stringify({ metadata: { namespace: "shop", name, uid: name, resourceVersion: version, ownerReferences } }), kind);
}

/** An API server with one Deployment. */
class Cluster extends Api {
  owner: KubeObject | undefined = deployment();
  dependents: KubeObject[] = [];
  /** The answers to the next calls, or what is called with one. By default, a call has no answer. */
  answers: (Answer | (() => Answer))[] = [];
  /** The events by field selector. */
  events = new Map<string, KubeObject[]>();
  readonly calls: string[] = [];

  constructor() {
    super({ server: "http://127.0.0.1:1" });
  }

  override get(): Promise<KubeObject | undefined> {
    return Promise.resolve(this.owner);
  }

  override list(kind: Kind, { fieldSelector = "" }: ListOptions): Promise<KubeObject[]> {
    return Promise.resolve(this.events.get(fieldSelector) ?? this.dependents.filter((it) => it.kind === kind.kind));
  }

  override async request({ method, path }: { method: string; path: string }): Promise<Answer> {
    await Promise.resolve();
    this.calls.push(`${method} ${path}`);
    const answer = this.answers.shift() ?? new Answer(0);
    return typeof answer === "function" ? answer() : answer;
  }
}

/** A service that returns these responses. */
class FakePlanner extends Planner {
  readonly plans: PlanRolloutResponse[] = [];
  readonly reports: ComputeStatusResponse[] = [];
  readonly planned: MessageInitShape<typeof PlanRolloutRequestSchema>[] = [];
  readonly judged: MessageInitShape<typeof ComputeStatusRequestSchema>[] = [];
  readonly forecasts: MessageInitShape<typeof ForecastRolloutRequestSchema>[] = [];
  readonly canaries: MessageInitShape<typeof PlanCanaryRequestSchema>[] = [];

  constructor() {
    super({ unary: () => Promise.reject(new Error("not used")), close: () => undefined });
  }

  override planRollout(request: MessageInitShape<typeof PlanRolloutRequestSchema>): Promise<PlanRolloutResponse> {
    this.planned.push(request);
    const plan = this.plans.shift();
    return plan ? Promise.resolve(plan) : Promise.reject(new Error("no plan is left"));
  }

  override computeStatus(request: MessageInitShape<typeof ComputeStatusRequestSchema>): Promise<ComputeStatusResponse> {
    this.judged.push(request);
    const report = this.reports.length > 1 ? this.reports.shift() : this.reports[0];
    return report ? Promise.resolve(report) : Promise.reject(new Error("no report is left"));
  }

  override forecastRollout(request: MessageInitShape<typeof ForecastRolloutRequestSchema>): Promise<ForecastRolloutResponse> {
    this.forecasts.push(request);
    return Promise.resolve(create(ForecastRolloutResponseSchema, { effect: ChangeEffect.SCALE_ONLY }));
  }

  override planCanary(request: MessageInitShape<typeof PlanCanaryRequestSchema>): Promise<PlanCanaryResponse> {
    this.canaries.push(request);
    const report = { phase: CanaryPhase.HOLD, eventSelectors: ["type=Warning"] };
    return Promise.resolve(create(PlanCanaryResponseSchema, { report }));
  }
}

function setUp(options: RolloutsOptions = {}): { cluster: Cluster; planner: FakePlanner; rollouts: Rollouts } {
  const cluster = new Cluster();
  const planner = new FakePlanner();
  return { cluster, planner, rollouts: new Rollouts(planner, cluster, options) };
}

function reported(phase: Phase, outlook: Outlook, final: boolean, eventSelectors: string[] = []): ComputeStatusResponse {
  return create(ComputeStatusResponseSchema, { report: { phase, message: "m", verdict: { outlook, final, eventSelectors } } });
}

const UNDECIDED = reported(Phase.PROGRESSING, Outlook.UNDECIDED, false);
// A user may resume it.
const PAUSED = reported(Phase.PAUSED, Outlook.NEEDS_CHANGE, false);

test("a forecast has the pods and the changes", async () => {
  const { planner, rollouts } = setUp();
  const changes = [{ change: { case: "replicas", value: 5 } } as const];
  const { effect } = await rollouts.forecast(KEY, { changes, limits: { podsInQuota: 1 }, samples: 10, seed: 7n });
  assert.equal(effect, ChangeEffect.SCALE_ONLY);
  await rollouts.forecast(KEY);
  const [withChanges, inProgress] = planner.forecasts;
  assert.deepEqual(withChanges?.changes, changes);
  assert.deepEqual([withChanges.limits?.podsInQuota, withChanges.samples, withChanges.seed], [1, 10, 7n]);
  assert.ok(planner.forecasts.every((it) => it.snapshot?.podsComplete && it.snapshot.replicaSetsComplete));
  assert.equal(inProgress?.changes, undefined);
});

test("a plan of a canary has the pods, the events and the parts of the request", async () => {
  const { cluster, planner, rollouts } = setUp();
  const event = deployment({ name: "web.1" });
  cluster.events.set("type=Warning", [event]);
  const [policy, command, verdicts] = [{ pods: "2" }, { action: CanaryAction.PROMOTE }, [{ name: "smoke" }]];
  const { report } = await rollouts.planCanary(KEY, { policy, command, verdicts });
  assert.equal(report?.phase, CanaryPhase.HOLD);
  cluster.events.clear();
  await rollouts.planCanary(KEY);
  const [, given, plain] = planner.canaries;
  assert.ok(given?.snapshot?.podsComplete && given.snapshot.replicaSetsComplete);
  assert.ok(given.snapshot.objects?.includes(event.json));
  assert.deepEqual([given.policy, given.command, given.verdicts], [policy, command, verdicts]);
  assert.deepEqual([plain?.policy, plain?.command], [undefined, undefined]);
});

test("a wait ends when the rollout is complete, and passes the previous verdict", async () => {
  const { planner, rollouts } = setUp();
  planner.reports.push(UNDECIDED, PAUSED, reported(Phase.COMPLETE, Outlook.COMPLETE, true));
  const seen: Phase[] = [];
  const report = await rollouts.wait(KEY, { timeoutMs: 60_000, intervalMs: 1, progress: ({ phase }) => seen.push(phase) });
  assert.equal(report.phase, Phase.COMPLETE);
  assert.deepEqual(seen, [Phase.PROGRESSING, Phase.PAUSED, Phase.COMPLETE]);
  const previous = planner.judged.map((it) => it.previousVerdict);
  assert.deepEqual(previous, [undefined, UNDECIDED.report?.verdict, PAUSED.report?.verdict]);
  assert.ok(planner.judged.every((it) => it.snapshot?.podsComplete));
});

test("a wait ends with a final failure", async () => {
  const { planner, rollouts } = setUp();
  const last = reported(Phase.STALLED, Outlook.NEEDS_CHANGE, true);
  planner.reports.push(UNDECIDED, PAUSED, last);
  const stalled = (error: unknown): boolean => error instanceof StalledError && error.report === last.report;
  await assert.rejects(rollouts.wait(KEY, { timeoutMs: 60_000, intervalMs: 1 }), stalled);
});

test("a status is computed again with the events that may explain it", async () => {
  const { cluster, planner, rollouts } = setUp();
  const unexplained = reported(Phase.PROGRESSING, Outlook.UNDECIDED, false, ["type=Warning", "type=Normal,reason=Pulling"]);
  const last = reported(Phase.STALLED, Outlook.NEEDS_CHANGE, true);
  planner.reports.push(unexplained, unexplained, last);
  // Without events, there is no second request.
  assert.equal(await rollouts.status(KEY), unexplained);
  cluster.events.set("type=Normal,reason=Pulling", [deployment({ name: "web.1" })]);
  assert.equal(await rollouts.status(KEY), last);
});

test("a wait ends with its time, and when it is cancelled", async () => {
  const { planner, rollouts } = setUp();
  planner.reports.push(PAUSED);
  await assert.rejects(rollouts.wait(KEY, { timeoutMs: 20, intervalMs: 5 }), WaitTimeoutError);
  const abort = new AbortController();
  const progress = (): void => {
    abort.abort();
  };
  const cancelled = rollouts.wait(KEY, { timeoutMs: 60_000, intervalMs: 50_000, progress, signal: abort.signal });
  await assert.rejects(cancelled, { name: "CancelledError" });
});

test("a missing Deployment is an error for scripts only", async () => {
  const { cluster, rollouts } = setUp();
  cluster.owner = undefined;
  assert.equal((await rollouts.sync(KEY)).exists, false);
  await assert.rejects(rollouts.plan(KEY), NotFoundError);
});

// --- the loop

const OWNER_PATH = pathOf(DEPLOYMENT, "shop", "web");

function led(sync: MessageInitShape<typeof SyncResponseSchema>, ...steps: MessageInitShape<typeof StepSchema>[]): PlanRolloutResponse {
  return create(PlanRolloutResponseSchema, { sync, steps });
}

function step(path: string, more: Partial<Exclude<MessageInitShape<typeof StepSchema>, { $typeName: string }>> = {}) {
  return { id: path, summary: path, call: { verb: Verb.PATCH, path }, onFailure: OnFailure.STOP, ...more };
}

function read(path: string) {
  return { id: `read ${path}`, call: { verb: Verb.GET, path } };
}

const value = (text: string): Uint8Array => Buffer.from(text);
const ok = (text = ""): Answer => new Answer(200, Buffer.from(text));
const text = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString();

/** The value and the answers in each request. */
function sent({ planned }: FakePlanner): [string, string[]][] {
  return planned.map(({ sync }) => {
    const answers = sync?.answers?.map((it) => `${it.id} ${it.made ? it.httpCode : "-"} ${text(it.body)}${text(it.existing)}`.trim());
    return [text(sync?.value), answers ?? []];
  });
}

test("reads are made before the steps, and their answers are added to those of the last plan", async () => {
  const { cluster, planner, rollouts } = setUp({ statusIntervalMs: 500, minIntervalMs: 0 });
  planner.plans.push(led({ value: value("a") }, step("/1")));
  planner.plans.push(led({ value: value("b"), reads: [read("/list"), read("/other")] }), led({ value: value("c") }, step("/2")));
  cluster.answers = [ok("one"), ok("list"), new Answer(404), ok("two")];
  await rollouts.sync(KEY);
  await rollouts.sync(KEY);
  assert.deepEqual(cluster.calls, ["PATCH /1", "GET /list", "GET /other", "PATCH /2"]);
  const first = "/1 200 one";
  assert.deepEqual(sent(planner), [["", []], ["a", [first]], ["b", [first, "read /list 200 list", "read /other 404"]]]);
  const requests = planner.planned.map((it) => it.sync);
  assert.ok(requests[0]?.session);
  assert.ok(requests.every((it) => it?.session === requests[0]?.session));
  assert.deepEqual(requests[0].statusInterval, durationFromMs(500));
});

test("nothing is requested until something changes or the time has come", async () => {
  const { cluster, planner, rollouts } = setUp();
  planner.plans.push(led({ atLatest: durationFromMs(50_000) }), led({ atLatest: durationFromMs(0) }), led({}), led({}));
  await rollouts.sync(KEY);
  const { response, requeueAfterMs = 0 } = await rollouts.sync(KEY);
  assert.equal(response, undefined);
  assert.ok(requeueAfterMs > 40_000 && requeueAfterMs <= 50_000);
  cluster.dependents = [dependent(REPLICA_SET, "web-1", "web-uid")];
  assert.ok((await rollouts.sync(KEY)).response); // changed
  assert.ok((await rollouts.sync(KEY)).response); // due
  assert.deepEqual(await rollouts.sync(KEY), { exists: true, failures: [], notBeforeMs: 0 });
  cluster.dependents = [dependent(REPLICA_SET, "web-1", "web-uid", "2")];
  assert.ok((await rollouts.sync(KEY)).response);
  assert.equal(planner.plans.length, 0);
});

test("the times are those of the service, and a failure is reported without a delay", async () => {
  const { cluster, planner, rollouts } = setUp({ minIntervalMs: 100 });
  const times = { notBefore: durationFromMs(100), atLatest: durationFromMs(200) };
  planner.plans.push(led(times, step("/1")), led(times));
  const { failures, notBeforeMs, requeueAfterMs } = await rollouts.sync(KEY);
  assert.deepEqual([failures.map(String), notBeforeMs, requeueAfterMs], [["/1: no answer"], 100, 0]);
  const next = await rollouts.sync(KEY);
  assert.deepEqual([next.failures, next.notBeforeMs, next.requeueAfterMs], [[], 100, 200]);
  assert.deepEqual(planner.planned[0]?.sync?.minInterval, durationFromMs(100));
  assert.deepEqual(cluster.calls, ["PATCH /1"]);
});

test("pods are sent once they are needed", async () => {
  const { cluster, planner, rollouts } = setUp();
  cluster.dependents = [dependent(REPLICA_SET, "web-1", "web-uid"), dependent(POD, "web-1-a", "web-1"), dependent(POD, "other", "x")];
  planner.plans.push(led({ watchPods: true }), led({ watchPods: true }), led({ watchPods: true }), led({}), led({}));
  await rollouts.sync(KEY);
  for (const version of ["11", "12", "13"]) {
    cluster.owner = deployment({ resourceVersion: version });
    await rollouts.sync(KEY);
  }
  const snapshots = planner.planned.map((it) => [it.snapshot?.podsComplete, it.snapshot?.objects?.length]);
  assert.deepEqual(snapshots, [[false, 2], [true, 3], [true, 3], [true, 3], [false, 2]]);
});

test("a plan ends as its steps say", async () => {
  const { cluster, planner, rollouts } = setUp();
  const eventCalls = [{ verb: Verb.CREATE, path: "/event" }];
  planner.plans.push(
    led(
      {},
      step("/continue", { onFailure: OnFailure.CONTINUE, eventCalls }),
      step("/done", { onFailure: OnFailure.DONE_IF, doneHttpCodes: [404], eventCalls }),
      { eventCalls },
      step("/stop", { onFailure: OnFailure.DONE_IF, doneHttpCodes: [404], readOnConflict: { verb: Verb.GET, path: "/existing" }, eventCalls }),
      step("/not-made"),
      { eventCalls },
    ),
    led({}),
  );
  const long = new Answer(500, Buffer.alloc(70_000, "x"));
  cluster.answers = [long, new Answer(404), new Answer(403), ok(), new Answer(409), ok("existing")];
  const { failures, requeueAfterMs } = await rollouts.sync(KEY);
  assert.deepEqual([failures.map((it) => it.step?.id), requeueAfterMs], [["/continue", "/stop"], 0]);
  assert.deepEqual(cluster.calls, ["PATCH /continue", "PATCH /done", "POST /event", "POST /event", "PATCH /stop", "GET /existing"]);
  await rollouts.sync(KEY);
  const [, [, answers] = ["", []]] = sent(planner);
  assert.deepEqual(answers, [`/continue 500 ${"x".repeat(65_536)}`, "/done 404", "/stop 409 existing", "/not-made -"]);
});

test("a cancelled call has no code, and the calls after it have no answers", async () => {
  const { cluster, planner, rollouts } = setUp();
  planner.plans.push(led({ value: value("a") }, step("/1"), step("/2"), step("/3")), led({ value: value("b") }));
  const cancel = (): Answer => {
    throw new CancelledError();
  };
  cluster.answers = [ok(), cancel];
  await assert.rejects(rollouts.sync(KEY), CancelledError);
  await rollouts.sync(KEY);
  assert.deepEqual(sent(planner), [["", []], ["a", ["/1 200", "/2 0"]]]);
});

test("if the service does not answer, the same request is sent again", async () => {
  const { cluster, planner, rollouts } = setUp();
  planner.plans.push(led({ value: value("a") }, step("/1")), led({ value: value("b"), reads: [read("/list")] }));
  cluster.answers = [ok(), ok("list")];
  await rollouts.sync(KEY);
  await assert.rejects(rollouts.sync(KEY), /no plan is left/);
  planner.plans.push(led({}));
  await rollouts.sync(KEY);
  const [, , failed, repeated] = sent(planner);
  assert.deepEqual(failed, ["b", ["/1 200", "read /list 200 list"]]);
  assert.deepEqual(repeated, failed);
});

test("an owner that does not exist anymore, or is another one, is forgotten", async () => {
  const { cluster, planner, rollouts } = setUp();
  const first = led({ value: value("a") });
  planner.plans.push(first, led({ value: value("b"), reads: [read(OWNER_PATH)] }), first, led({}));
  await rollouts.sync(KEY);
  cluster.owner = deployment({ resourceVersion: "11" });
  cluster.answers = [new Answer(404)];
  assert.deepEqual(await rollouts.sync(KEY), { exists: false, failures: [], notBeforeMs: 0 });
  await rollouts.sync(KEY);
  cluster.owner = deployment({ uid: "another" });
  await rollouts.sync(KEY);
  assert.deepEqual(sent(planner).map(([value]) => value), ["", "a", "", ""]);
});

test("syncs of one Deployment exclude each other", async () => {
  const { cluster, planner, rollouts } = setUp();
  planner.plans.push(led({ value: value("a") }, step("/1")), led({ value: value("b") }));
  cluster.answers = [ok("one")];
  await Promise.all([rollouts.sync(KEY), rollouts.sync(KEY)]);
  assert.deepEqual(sent(planner), [["", []], ["a", ["/1 200 one"]]]);
});

test("reads that fail are reported, and do not shorten the delay of the service", async () => {
  const { cluster, planner, rollouts } = setUp();
  planner.plans.push(led({ reads: [read("/list"), read("/missing")] }), led({ atLatest: durationFromMs(200) }));
  cluster.answers = [new Answer(403, Buffer.from('{"message":"no permission"}')), new Answer(404)];
  const { failures, requeueAfterMs } = await rollouts.sync(KEY);
  assert.deepEqual([failures.map(String), requeueAfterMs], [["read /list: no permission (403)"], 200]);
});

test("a service without the loop is named", async () => {
  const { planner, rollouts } = setUp();
  planner.plans.push(create(PlanRolloutResponseSchema));
  await assert.rejects(rollouts.sync(KEY), /the service is older than this package/);
});
