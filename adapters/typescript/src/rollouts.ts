/** The control loop of one Deployment, which the service leads: docs/guides/adapters.md, "The loop". */

import { randomUUID } from "node:crypto";

import { create } from "@bufbuild/protobuf";
import { durationFromMs, durationMs, timestampNow } from "@bufbuild/protobuf/wkt";

import { ApiError, NotFoundError, PlannerError, StalledError, WaitTimeoutError } from "./errors.js";
import type { PlanCanaryResponse } from "./gen/rollplan/v1/canary_pb.js";
import type { ForecastRolloutResponse } from "./gen/rollplan/v1/forecast_pb.js";
import {
  PlanOptionsSchema,
  SnapshotSchema,
  type Answer,
  type ComputeStatusResponse,
  type PlanOptions,
  type PlanRolloutResponse,
  type Snapshot,
  type Step,
} from "./gen/rollplan/v1/plan_pb.js";
import { Outlook, type RolloutReport, type Verdict } from "./gen/rollplan/v1/report_pb.js";
import type { Revision, RollbackResponse } from "./gen/rollplan/v1/revision_pb.js";
import type { Api } from "./kubernetes.js";
import { DEPLOYMENT, EVENT, keyText, pathOf, POD, REPLICA_SET, type Key, type Kind, type KubeObject } from "./objects.js";
import type { CanaryOptions, ForecastOptions, Reader, RolloutsOptions, StatusOptions, SyncResult, WaitOptions } from "./options.js";
import { pause, type CallOptions, type Planner } from "./planner.js";
import { answerOf, carryOut, Failure, makeCall } from "./steps.js";

/** What is kept of an owner between two syncs. */
class OwnerState {
  readonly uid: string;
  /** What the planner remembers. */
  value: Uint8Array = new Uint8Array();
  /** The answers to the last plan, and to the reads since then. */
  answers: Answer[] = [];
  /** The versions of the objects in the last request. */
  sent = "";
  needsPods = false;
  /** When to send a request even if nothing changes, by the monotonic clock in milliseconds. */
  due = Infinity;

  constructor(uid: string) {
    this.uid = uid;
  }
}

/**
 * Reads Deployments of one kind, requests plans for them, and carries the plans out.
 *
 * `sync` requires that nothing else writes at the same time. With a lease, create one for each leadership.
 */
export class Rollouts {
  readonly #planner: Planner;
  readonly #api: Api;
  readonly #kind: Kind;
  readonly #reader: Reader;
  readonly #options: PlanOptions;
  readonly #statusIntervalMs: number;
  readonly #minIntervalMs: number;
  readonly #session = randomUUID();
  readonly #states = new Map<string, OwnerState>();
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(planner: Planner, api: Api, settings: RolloutsOptions = {}) {
    this.#planner = planner;
    this.#api = api;
    this.#kind = settings.kind ?? DEPLOYMENT;
    this.#reader = settings.reader ?? api;
    this.#options = create(PlanOptionsSchema, { ...settings.options, eventsAsCalls: true, report: true });
    this.#statusIntervalMs = settings.statusIntervalMs ?? 0;
    this.#minIntervalMs = settings.minIntervalMs ?? 0;
  }

  // --- for controllers

  /**
   * Requests a plan and carries it out, unless nothing has changed. Syncs of one Deployment exclude each other.
   *
   * Call it again when one of the objects changes, and after `requeueAfterMs`, but not before `notBeforeMs`. After an error, which
   * means that an object could not be read or that the service did not answer, call it again with a backoff.
   *
   * @throws CancelledError when it was cancelled, perhaps in the middle of the plan.
   */
  async sync(key: Key, { signal }: CallOptions = {}): Promise<SyncResult> {
    const name = keyText(key);
    const run = (): Promise<SyncResult> => this.#sync(key, signal);
    const result = (this.#last.get(name) ?? Promise.resolve()).then(run, run);
    this.#last.set(name, result);
    try {
      return await result;
    } finally {
      if (this.#last.get(name) === result) this.#last.delete(name);
    }
  }

  async #sync(key: Key, signal: AbortSignal | undefined): Promise<SyncResult> {
    const name = keyText(key);
    const owner = await this.#reader.get(this.#kind, key, signal);
    let state = this.#states.get(name);
    if (owner && state?.uid !== owner.uid) this.#states.set(name, (state = new OwnerState(owner.uid)));
    if (!owner || !state) return this.#forget(name);
    const objects = await this.#dependents(owner, state.needsPods, signal);
    const now = performance.now();
    if (state.answers.length === 0 && versionsOf(objects) === state.sent && now < state.due) {
      return { exists: true, failures: [], notBeforeMs: 0, ...(state.due < Infinity && { requeueAfterMs: state.due - now }) };
    }
    const failures: Failure[] = [];
    const response = await this.#request(owner, objects, state, failures, signal);
    if (!response) return this.#forget(name);
    const { notBefore, atLatest } = response.sync ?? {};
    const sent = versionsOf(objects);
    state.sent = ""; // until the plan has been carried out
    state.answers = [];
    const failed = await carryOut(this.#api, response.steps, state.answers, signal);
    state.sent = sent;
    state.due = atLatest ? performance.now() + durationMs(atLatest) : Infinity;
    const requeueAfterMs = failed.length > 0 ? 0 : atLatest && durationMs(atLatest);
    return {
      exists: true,
      response,
      failures: [...failures, ...failed],
      notBeforeMs: notBefore ? durationMs(notBefore) : 0,
      ...(requeueAfterMs !== undefined && { requeueAfterMs }),
    };
  }

  #forget(name: string): SyncResult {
    this.#states.delete(name);
    return { exists: false, failures: [], notBeforeMs: 0 };
  }

  // --- for scripts

  /** The next writes, without making them. */
  async plan(key: Key, options: CallOptions = {}): Promise<PlanRolloutResponse> {
    // With the strategy Recreate, plans depend on the pods.
    const snapshot = await this.snapshot(key, { pods: true, ...options });
    return this.#planner.planRollout({ snapshot, options: this.#options }, options);
  }

  /** Makes the calls of a plan or a rollback in order. Returns the failed calls. The last of them may have ended it. */
  apply(steps: Iterable<Step>, { signal }: CallOptions = {}): Promise<Failure[]> {
    return carryOut(this.#api, steps, [], signal);
  }

  /**
   * The state of the rollout, with its pods and, if they may explain it, events. Pass the previous verdict when polling.
   */
  async status(key: Key, options: StatusOptions = {}): Promise<ComputeStatusResponse> {
    const { previous, failOn = [], signal } = options;
    const snapshot = await this.snapshot(key, { pods: true, signal });
    const request = { snapshot, options: this.#options, failOn, ...(previous && { previousVerdict: previous }) };
    const response = await this.#planner.computeStatus(request, options);
    const hasEvents = await this.#addEvents(key, snapshot, response.report?.verdict?.eventSelectors, signal);
    return hasEvents ? this.#planner.computeStatus(request, options) : response;
  }

  /**
   * Polls until the rollout is complete.
   *
   * @throws StalledError if it certainly needs a change to complete, or if its deadline has passed.
   * @throws WaitTimeoutError after `timeoutMs`.
   */
  async wait(key: Key, { timeoutMs, intervalMs = 2_000, failOn = [], progress, signal }: WaitOptions): Promise<RolloutReport> {
    const end = performance.now() + timeoutMs;
    let previous: Verdict | undefined;
    for (;;) {
      const { report } = await this.status(key, { previous, failOn, signal });
      if (!report) throw new ApiError(`wait for ${key.namespace}/${key.name}`, 0, "the service sent no report");
      previous = report.verdict;
      progress?.(report);
      if (previous?.final && previous.outlook === Outlook.COMPLETE) return report;
      if (previous?.final) throw new StalledError(report);
      if (performance.now() + intervalMs > end) throw new WaitTimeoutError(report);
      await pause(intervalMs, signal);
    }
  }

  /** The steps that roll a Deployment back to a revision, by default the previous one. Pass them to `apply`. */
  async rollback(key: Key, options: CallOptions & { readonly toRevision?: bigint } = {}): Promise<RollbackResponse> {
    const snapshot = await this.snapshot(key, options);
    return this.#planner.rollback({ snapshot, toRevision: options.toRevision ?? 0n, options: this.#options }, options);
  }

  /** The revisions of a Deployment, oldest first. */
  async revisions(key: Key, options: CallOptions = {}): Promise<Revision[]> {
    return (await this.#planner.listRevisions({ snapshot: await this.snapshot(key, options) }, options)).revisions;
  }

  /** What changes of a Deployment will do, before they are applied. Without changes, how the rollout in progress continues. */
  async forecast(key: Key, { signal, ...request }: ForecastOptions = {}): Promise<ForecastRolloutResponse> {
    const snapshot = await this.snapshot(key, { pods: true, signal });
    return this.#planner.forecastRollout({ ...request, snapshot, options: this.#options }, { signal });
  }

  /**
   * The next write of the canary of a Deployment that the native Deployment controller manages, and a report.
   *
   * Pass the steps to `apply`, and plan again after each change, and after the `requeueAfter` of the response.
   */
  async planCanary(key: Key, { signal, ...request }: CanaryOptions = {}): Promise<PlanCanaryResponse> {
    const snapshot = await this.snapshot(key, { pods: true, signal });
    const response = await this.#planner.planCanary({ ...request, snapshot }, { signal });
    const selectors = response.steps.length === 0 ? response.report?.eventSelectors : [];
    const hasEvents = await this.#addEvents(key, snapshot, selectors, signal);
    return hasEvents ? this.#planner.planCanary({ ...request, snapshot }, { signal }) : response;
  }

  /** The Deployment and its objects. A report, a forecast and a canary need the pods. */
  async snapshot(key: Key, { pods = false, signal }: CallOptions & { readonly pods?: boolean } = {}): Promise<Snapshot> {
    const owner = await this.#reader.get(this.#kind, key, signal);
    if (!owner) throw new NotFoundError(`${this.#kind.kind} ${key.namespace}/${key.name} not found`);
    return this.#snapshot(await this.#dependents(owner, pods, signal), owner, pods);
  }

  // --- the parts of a sync

  /**
   * Requests a plan, and makes the reads that it requires, until there are none. If it requires pods, they are added to the objects.
   * Undefined if the owner does not exist anymore.
   */
  async #request(
    owner: KubeObject,
    objects: KubeObject[],
    state: OwnerState,
    failures: Failure[],
    signal: AbortSignal | undefined,
  ): Promise<PlanRolloutResponse | undefined> {
    const statusInterval = durationFromMs(this.#statusIntervalMs);
    const minInterval = durationFromMs(this.#minIntervalMs);
    const ownerPath = pathOf(this.#kind, owner.key.namespace, owner.key.name);
    let hasPods = state.needsPods;
    for (;;) {
      const { value, answers } = state;
      const sync = { value, session: this.#session, answers, statusInterval, minInterval };
      const snapshot = this.#snapshot(objects, owner, hasPods);
      const response = await this.#planner.planRollout({ snapshot, options: this.#options, sync }, { signal });
      if (!response.sync) throw new PlannerError("unimplemented", "the service is older than this package: it does not know sync");
      const { reads } = response.sync;
      state.value = response.sync.value;
      state.needsPods = response.sync.watchPods;
      if (state.needsPods && !hasPods) {
        objects.push(...(await this.#pods(objects, owner.key.namespace, signal)));
        hasPods = true;
        continue;
      }
      if (reads.length === 0) return response;
      for (const { id, call } of reads) {
        if (!call) continue;
        const answer = await makeCall(this.#api, call, signal);
        if (answer.code === 404 && call.path === ownerPath) return undefined;
        if (!answer.ok && answer.code !== 404) failures.push(new Failure(`read ${call.path}`, answer));
        state.answers = [...state.answers, answerOf(id, answer)];
      }
    }
  }

  #snapshot(objects: readonly KubeObject[], { apiVersion, kind, key }: KubeObject, podsComplete: boolean): Snapshot {
    return create(SnapshotSchema, {
      now: timestampNow(),
      objects: objects.map((it) => it.json),
      target: { apiVersion, kind, ...key, resource: this.#kind.plural },
      replicaSetsComplete: true,
      podsComplete,
    });
  }

  /** The owner, its ReplicaSets, those without a controller, from which the planner selects, and perhaps the pods of these. */
  async #dependents(owner: KubeObject, withPods: boolean, signal: AbortSignal | undefined): Promise<KubeObject[]> {
    const { namespace } = owner.key;
    const sets = await this.#reader.controlledBy(REPLICA_SET, namespace, new Set([owner.uid, undefined]), signal);
    return [owner, ...sets, ...(withPods ? await this.#pods(sets, namespace, signal) : [])];
  }

  #pods(sets: readonly KubeObject[], namespace: string, signal: AbortSignal | undefined): Promise<KubeObject[]> {
    return this.#reader.controlledBy(POD, namespace, new Set(sets.map((it) => it.uid)), signal);
  }

  /** Adds the events that these field selectors match. Returns whether there are any. */
  async #addEvents(
    { namespace }: Key,
    snapshot: Snapshot,
    selectors: readonly string[] = [],
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const before = snapshot.objects.length;
    try {
      for (const fieldSelector of selectors) {
        const events = await this.#api.list(EVENT, { namespace, fieldSelector, signal });
        snapshot.objects.push(...events.map((it) => it.json));
      }
    } catch (error) {
      // A verdict without events is less certain, but never wrong.
      if (!(error instanceof ApiError && error.code === 403)) throw error;
    }
    return snapshot.objects.length > before;
  }
}

/** The versions of objects, in an order that does not depend on the reader. */
function versionsOf(objects: readonly KubeObject[]): string {
  return objects.map((it) => `${it.uid} ${it.version}`).sort().join();
}
