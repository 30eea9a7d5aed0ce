/** Waiting, delays and the native controller, which the corpus of tests/conformance does not cover. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { create, type MessageInitShape } from "@bufbuild/protobuf";

import {
  Answer,
  Api,
  DEPLOYMENT,
  NativeControllerError,
  NotFoundError,
  parseObject,
  Planner,
  Rollouts,
  StalledError,
  WaitTimeoutError,
  type Kind,
  type KubeObject,
  type ListOptions,
  type RolloutsOptions,
} from "../src/index.js";
import { Failure } from "../src/steps.js";
import {
  ApiCallSchema,
  CanaryAction,
  CanaryPhase,
  ChangeEffect,
  ComputeStatusResponseSchema,
  ForecastRolloutResponseSchema,
  OnFailure,
  Outlook,
  Phase,
  PlanCanaryResponseSchema,
  PlanRolloutResponseSchema,
  StepSchema,
  Verb,
  type ComputeStatusResponse,
  type ForecastRolloutRequestSchema,
  type ForecastRolloutResponse,
  type PlanCanaryRequestSchema,
  type PlanCanaryResponse,
  type PlanRolloutResponse,
  type PlanRolloutRequestSchema,
  type ComputeStatusRequestSchema,
} from "../src/v1.js";

const KEY = { namespace: "shop", name: "web" };

function deployment(metadata: object = {}): KubeObject {
  const it = { metadata: { ...KEY, uid: "web-uid", resourceVersion: "10", ...metadata }, spec: { selector: {}, template: {} } };
  return parseObject(JSON.stringify(it), DEPLOYMENT);
}

/** An API server with one Deployment. */
class Cluster extends Api {
  owner: KubeObject | undefined = deployment();
  answers: Answer[] = [];
  /** The events by field selector. */
  events = new Map<string, KubeObject[]>();
  readonly calls: string[] = [];

  constructor() {
    super({ server: "http://127.0.0.1:1" });
  }

  override get(): Promise<KubeObject | undefined> {
    return Promise.resolve(this.owner);
  }

  override list(_: Kind, { fieldSelector = "" }: ListOptions): Promise<KubeObject[]> {
    return Promise.resolve(this.events.get(fieldSelector) ?? []);
  }

  override request({ method, path }: { method: string; path: string }): Promise<Answer> {
    this.calls.push(`${method} ${path}`);
    return Promise.resolve(this.answers.shift() ?? new Answer(0));
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
  assert.equal((await rollouts.sync(KEY)).response, undefined);
  await assert.rejects(rollouts.plan(KEY), NotFoundError);
});

function statusUpdate(phase: Phase): PlanRolloutResponse {
  const call = { verb: Verb.PATCH, path: "/status", kind: "Deployment" };
  const action = { case: "updateDeploymentStatus" as const, value: {} };
  return create(PlanRolloutResponseSchema, { steps: [{ call, action, onFailure: OnFailure.STOP }], report: { phase } });
}

test("the status of progress is delayed, the end of a rollout is not", async () => {
  const { cluster, planner, rollouts } = setUp({ statusIntervalMs: 50_000 });
  planner.plans.push(statusUpdate(Phase.PROGRESSING), statusUpdate(Phase.COMPLETE));
  cluster.answers = [new Answer(200, Buffer.from(deployment({ resourceVersion: "11" }).json))];
  const { requeueAfterMs = 0 } = await rollouts.sync(KEY);
  assert.ok(requeueAfterMs > 0 && requeueAfterMs <= 50_000);
  assert.deepEqual(cluster.calls, []);
  await rollouts.sync(KEY);
  assert.deepEqual(cluster.calls, ["PATCH /status"]);
});

test("the native controller suspends the work", async () => {
  const { cluster, planner, rollouts } = setUp();
  const written = (time: string): KubeObject =>
    deployment({ managedFields: [{ manager: "kube-controller-manager", subresource: "status", time }] });
  planner.plans.push(create(PlanRolloutResponseSchema), create(PlanRolloutResponseSchema));
  cluster.owner = written("2026-11-20T10:00:00Z");
  await rollouts.sync(KEY); // writes before the first observation are allowed
  await rollouts.sync(KEY);
  cluster.owner = written("2026-11-20T10:00:05Z");
  for (let i = 0; i < 2; i++) await assert.rejects(rollouts.sync(KEY), NativeControllerError);
  planner.reports.push(UNDECIDED);
  assert.equal((await rollouts.status(KEY)).report, UNDECIDED.report);
});

test("syncs of one Deployment exclude each other", async () => {
  const { cluster, planner, rollouts } = setUp();
  planner.plans.push(statusUpdate(Phase.COMPLETE), statusUpdate(Phase.COMPLETE));
  cluster.answers = ["11", "12"].map((it) => new Answer(200, Buffer.from(deployment({ resourceVersion: it }).json)));
  await Promise.all([rollouts.sync(KEY), rollouts.sync(KEY)]);
  // The second one plans with what the first one wrote.
  const sent = planner.planned.map((it) => it.snapshot?.objects?.[0] ?? "");
  assert.deepEqual(sent.map((it) => /"resourceVersion":"(\d+)"/.exec(it)?.[1]), ["10", "11"]);
});

test("a write that is answered with something else is an error, and the ReplicaSets are read again", async () => {
  const { cluster, planner, rollouts } = setUp();
  planner.plans.push(statusUpdate(Phase.COMPLETE));
  cluster.answers = [new Answer(200, Buffer.from("<html>"))];
  await assert.rejects(rollouts.sync(KEY), { name: "ApiError", code: 200 });
});

function rejection(code: number, reason: string, ...causes: string[]): Answer {
  const details = { causes: causes.map((it) => ({ reason: it })) };
  return new Answer(code, Buffer.from(JSON.stringify({ kind: "Status", reason, details, code })));
}

const OUTCOMES: [Answer, rejected: boolean, doubts: boolean][] = [
  [rejection(403, "Forbidden"), true, false],
  [rejection(422, "Invalid", "FieldValueInvalid"), true, false],
  [rejection(422, "Invalid"), false, true],
  [rejection(409, "Conflict"), false, true],
  [rejection(409, "AlreadyExists"), true, true],
  [rejection(404, "NotFound"), true, true],
  [rejection(500, "InternalError"), true, true],
  [rejection(504, "Timeout"), false, true],
  [new Answer(502, Buffer.from("<html>")), false, true],
  [new Answer(0), false, true],
];

for (const [answer, rejected, doubts] of OUTCOMES) {
  test(`a failure with ${answer.code} ${answer.status.reason ?? ""} is judged by code and reason`, () => {
    const failure = new Failure(create(StepSchema), create(ApiCallSchema, { kind: "ReplicaSet" }), answer);
    assert.deepEqual([failure.rejected, failure.raisesDoubts], [rejected, doubts]);
  });
}
