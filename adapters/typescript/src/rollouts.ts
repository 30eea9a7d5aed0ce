/** The control loop of one Deployment: observe it, request a plan, carry it out. */

import { clone, create, mergeFromBinary, toBinary } from "@bufbuild/protobuf";
import { durationMs, timestampNow } from "@bufbuild/protobuf/wkt";

import { ApiError, NotFoundError, StalledError, WaitTimeoutError } from "./errors.js";
import type { PlanCanaryResponse } from "./gen/rollplan/v1/canary_pb.js";
import type { ForecastRolloutResponse } from "./gen/rollplan/v1/forecast_pb.js";
import {
  PlanOptionsSchema,
  SnapshotSchema,
  type ComputeStatusResponse,
  type PlanOptions,
  type PlanRolloutResponse,
  type Snapshot,
  type Step,
} from "./gen/rollplan/v1/plan_pb.js";
import { Outlook, Phase, type RolloutReport, type Verdict } from "./gen/rollplan/v1/report_pb.js";
import type { Revision, RollbackResponse } from "./gen/rollplan/v1/revision_pb.js";
import type { Api } from "./kubernetes.js";
import { DEPLOYMENT, EVENT, POD, REPLICA_SET, TERMINATING_REPLICAS, type Key, type Kind, type KubeObject } from "./objects.js";
import type { CanaryOptions, ForecastOptions, Reader, RolloutsOptions, StatusOptions, SyncResult, WaitOptions } from "./options.js";
import { pause, type CallOptions, type Planner } from "./planner.js";
import { States, type OwnerState } from "./state.js";
import { carryOut, type Failure } from "./steps.js";

interface Observed {
  readonly owner: KubeObject;
  readonly state: OwnerState;
  readonly snapshot: Snapshot;
}

/** Reads Deployments of one kind, requests plans for them, and carries the plans out. Calls may run concurrently. */
export class Rollouts {
  readonly #planner: Planner;
  readonly #api: Api;
  readonly #kind: Kind;
  readonly #reader: Reader;
  readonly #options: PlanOptions;
  readonly #statusIntervalMs: number;
  readonly #states = new States();

  constructor(planner: Planner, api: Api, settings: RolloutsOptions = {}) {
    this.#planner = planner;
    this.#api = api;
    this.#kind = settings.kind ?? DEPLOYMENT;
    this.#reader = settings.reader ?? api;
    this.#options = create(PlanOptionsSchema, { eventsAsCalls: true, report: true });
    const given = create(PlanOptionsSchema, settings.options);
    mergeFromBinary(PlanOptionsSchema, this.#options, toBinary(PlanOptionsSchema, given));
    this.#statusIntervalMs = settings.statusIntervalMs ?? 0;
  }

  // --- for controllers

  /**
   * Requests a plan and carries it out.
   *
   * After an error, which means that reading or planning failed, sync again with a backoff.
   */
  sync(key: Key, { signal }: CallOptions = {}): Promise<SyncResult> {
    return this.#states.exclusively(key, async () => {
      let observed = await this.#observe(key, { controlling: true, signal });
      let response = observed && (await this.#plan(observed, signal));
      if (observed && response && !observed.state.verified && writesReplicaSets(response)) {
        const { outdated, others } = await this.#verify(observed, signal);
        if (outdated || others.length > 0) {
          observed = await this.#observe(key, { controlling: true, signal });
          observed?.snapshot.objects.push(...others.map((it) => it.json));
          response = observed && (await this.#plan(observed, signal));
          // The next snapshot does not have the others. If they prevent all writes, they must be listed again.
          if (observed && response) observed.state.verified = others.length === 0 || writesReplicaSets(response);
        }
      }
      if (!observed || !response) return { again: false, rejected: [], cancelled: false };
      const delay = this.#statusDelay(response, observed.state);
      if (delay > 0) return { response, requeueAfterMs: delay, again: false, rejected: [], cancelled: false };
      return this.#carryOut(response, observed.state, signal);
    });
  }

  /** Discards the state of a Deployment. `sync` does so itself if the Deployment does not exist. */
  forget(key: Key): void {
    this.#states.forget(key);
  }

  // --- for scripts

  /** The next writes, without making them. */
  async plan(key: Key, options: CallOptions = {}): Promise<PlanRolloutResponse> {
    const snapshot = await this.snapshot(key, options);
    return this.#planner.planRollout({ snapshot, options: this.#options }, options);
  }

  /** Makes the calls of a plan or a rollback in order. Returns the failed calls. The last of them may have ended it. */
  apply(key: Key, steps: Iterable<Step>, { signal }: CallOptions = {}): Promise<Failure[]> {
    return this.#states.exclusively(key, () => carryOut(this.#api, steps, this.#states.of(key), signal));
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
    const observed = await this.#states.exclusively(key, () => this.#observe(key, { pods, signal }));
    if (!observed) throw new NotFoundError(`${this.#kind.kind} ${key.namespace}/${key.name} not found`);
    return observed.snapshot;
  }

  // --- the parts of a sync

  #plan({ snapshot, state }: Observed, signal: AbortSignal | undefined): Promise<PlanRolloutResponse> {
    const options = clone(PlanOptionsSchema, this.#options);
    if (state.dropsTerminating) options.terminatingReplicas ??= false;
    return this.#planner.planRollout({ snapshot, options }, { signal });
  }

  async #observe(
    key: Key,
    { pods = false, controlling = false, signal }: CallOptions & { pods?: boolean; controlling?: boolean },
  ): Promise<Observed | undefined> {
    const cached = await this.#reader.get(this.#kind, key, signal);
    if (!cached) {
      if (controlling) this.#states.forget(key);
      return undefined;
    }
    const state = this.#states.of(key, cached.uid);
    const now = performance.now();
    if (controlling) state.checkNative(cached, now);
    const owner = state.latest(cached);
    if (!owner) return undefined;
    // The planner selects from the objects without a controller.
    const found = await this.#reader.controlledBy(REPLICA_SET, key.namespace, new Set([owner.uid, undefined]), signal);
    const sets = state.overlay(found, now);
    state.sent = new Map(sets.map((it) => [it.uid, it.version]));
    if (sets.some((it) => it.json.includes(TERMINATING_REPLICAS))) state.dropsTerminating = false;
    const snapshot = create(SnapshotSchema, {
      now: timestampNow(),
      objects: [owner, ...sets].map((it) => it.json),
      target: { apiVersion: owner.apiVersion, kind: owner.kind, ...key, resource: this.#kind.plural },
      replicaSetsComplete: true,
      answers: state.answers,
    });
    if (pods || owner.recreate) {
      const ours = await this.#reader.controlledBy(POD, key.namespace, new Set(sets.map((it) => it.uid)), signal);
      snapshot.objects.push(...ours.map((it) => it.json));
      snapshot.podsComplete = true;
    }
    return { owner, state, snapshot };
  }

  /**
   * Reads the ReplicaSets from the API server, and returns whether the last request had others.
   *
   * Watches of different kinds lag independently: after a restart of the API server, or when a standby becomes the leader, the
   * cache may show the newest template together with old sizes. No precondition covers the sizes of *other* ReplicaSets, which
   * limit how far one may grow. Only this adapter changes sizes, so reading once before the first write is enough, and again
   * after a call whose outcome is not as planned.
   *
   * It also returns those of other controllers that the selector of a custom resource matches. The planner needs them only before
   * the first write: it refuses a custom resource that would run the pods of a Deployment a second time.
   */
  async #verify({ owner, state }: Observed, signal?: AbortSignal): Promise<{ outdated: boolean; others: KubeObject[] }> {
    const sets = await this.#api.replicaSets(owner, signal);
    const isOurs = (it: KubeObject): boolean => !it.controller || it.controller.uid === owner.uid;
    const outdated = sets.filter((it) => isOurs(it) && state.recordRead(it)).length > 0;
    state.verified = true;
    return { outdated, others: this.#kind === DEPLOYMENT ? [] : sets.filter((it) => !isOurs(it)) };
  }

  /** How long to delay a plan that only reports progress. 0 for any other plan. */
  #statusDelay({ steps, report }: PlanRolloutResponse, state: OwnerState): number {
    const [step] = steps;
    const onlyProgress =
      report?.phase === Phase.PROGRESSING &&
      steps.length === 1 &&
      step?.action.case === "updateDeploymentStatus" &&
      step.events.length === 0;
    if (onlyProgress && !state.rejected) {
      state.statusDelayedSince ??= performance.now();
      const delay = this.#statusIntervalMs - (performance.now() - state.statusDelayedSince);
      if (delay > 0) return delay;
    }
    state.statusDelayedSince = undefined;
    return 0;
  }

  async #carryOut(response: PlanRolloutResponse, state: OwnerState, signal: AbortSignal | undefined): Promise<SyncResult> {
    // A plan that reacts to a rejection does not repeat the call. The next one does, after a backoff.
    const reacted = state.rejected;
    state.answers = [];
    state.rejected = false;
    const made = await carryOut(this.#api, response.steps, state, signal);
    const failures = made.filter((it) => !it.namespaceTerminating); // nothing more can be created
    const rejected = failures.filter((it) => it.rejected);
    state.answers = failures.map((it) => it.message);
    state.rejected = rejected.length > 0;
    return {
      response,
      requeueAfterMs: response.requeueAfter && durationMs(response.requeueAfter),
      again: reacted || failures.length > 0,
      rejected,
      cancelled: signal?.aborted ?? false,
    };
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

function writesReplicaSets({ steps }: PlanRolloutResponse): boolean {
  return steps.some((it) => it.call?.kind === REPLICA_SET.kind);
}
