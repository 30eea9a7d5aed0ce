/** The control loop: watches feed a queue, and each key of it is handled by `Rollouts.sync`. */

import { CancelledError, NativeControllerError, PlannerError, RollplanError } from "../errors.js";
import type { Api } from "../kubernetes.js";
import { keyText, POD, REPLICA_SET, type Key, type Kind, type KubeObject } from "../objects.js";
import type { Reader, RolloutsOptions, SyncResult } from "../options.js";
import type { CallOptions } from "../planner.js";
import { Cache, sourceOf, type ChangeHandler, type Source } from "./cache.js";
import { sleep, SYSTEM_CLOCK, type Clock } from "./clock.js";
import { Events } from "./events.js";
import type { Log } from "./log.js";
import type { Metrics } from "./metrics.js";
import { PROBE_LABEL, PROBE_POLL_MS, type Probe } from "./probe.js";
import { BACKOFF_MAX_MS, BACKOFF_MIN_MS, Queue } from "./queue.js";

// The delay while the service is unavailable. Waiting keys are spread over the same time again, so that they do not all call a
// recovered service at once.
const PLANNER_BACKOFF_MS = 1_000;
// The time in which syncs may finish when the controller stops.
const STOP_GRACE_MS = 5_000;

/** Carries out plans. Tests replace Rollouts. */
export interface Syncer {
  sync(key: Key, options: CallOptions): Promise<SyncResult>;
}

/** Options of the controller. */
export interface ControllerOptions {
  readonly kind: Kind;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Empty for all namespaces. */
  readonly namespaces?: readonly string[];
  readonly selector?: string;
  readonly workers?: number;
  /** The minimum time between two syncs of a Deployment. One plan at its end covers all changes within it. */
  readonly minIntervalMs?: number;
  /** The interval in which every Deployment is synced even if nothing changes. */
  readonly resyncIntervalMs?: number;
  /** Nothing is written until the native controller is known not to be running. */
  readonly probe?: Probe | undefined;
  readonly clock?: Clock;
  readonly source?: Source;
}

/** Watches Deployments of one kind, and syncs them. */
export class Controller implements Reader {
  readonly #kind: Kind;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #clock: Clock;
  readonly #probe: Probe | undefined;
  readonly #rollouts: Syncer;
  readonly #events: Events;
  readonly #queue: Queue;
  readonly #workers: number;
  readonly #minIntervalMs: number;
  readonly #resyncIntervalMs: number;
  readonly #lastSync = new Map<string, number>();
  readonly #owners: Cache[];
  readonly #sets: Cache[];
  readonly #pods: Cache[];
  readonly #stop = new AbortController();
  // Syncs that are finishing still read the caches.
  readonly #stopWatches = new AbortController();
  // Each sync has its own signal, because the listeners of a shared one would accumulate.
  readonly #syncs = new Set<AbortController>();
  #running: Promise<void>[] = [];

  /** `rollouts` creates the Rollouts, with the caches of the controller as its reader. */
  constructor(api: Api, options: ControllerOptions, rollouts: (settings: RolloutsOptions) => Syncer) {
    const { kind, log, namespaces = [""], selector = "", clock = SYSTEM_CLOCK, source = sourceOf(api) } = options;
    this.#kind = kind;
    this.#log = log;
    this.#clock = clock;
    this.#probe = options.probe;
    this.#workers = options.workers ?? 5;
    this.#minIntervalMs = options.minIntervalMs ?? 100;
    this.#resyncIntervalMs = options.resyncIntervalMs ?? 3_600_000;
    this.#queue = new Queue(clock);
    this.#events = new Events(api, clock);
    this.#metrics = options.metrics;
    this.#metrics.measureQueue(() => this.#queue.length);
    const caches = (kind: Kind, changed: ChangeHandler, labelSelector = ""): Cache[] =>
      namespaces.map((namespace) => new Cache({ kind, source, clock, log, namespace, labelSelector, changed }));
    this.#owners = caches(kind, this.#ownerChanged, [selector, `!${PROBE_LABEL}`].filter(Boolean).join(","));
    this.#sets = caches(REPLICA_SET, this.#setChanged);
    this.#pods = caches(POD, this.#podChanged);
    this.#rollouts = rollouts({ kind, reader: this });
  }

  // --- starting and stopping

  /** Starts the watches, and returns when all have listed their objects. The watch of pods starts when it is needed. */
  async startCaches(): Promise<void> {
    await Promise.all([...this.#owners, ...this.#sets].map((it) => it.start(this.#stopWatches.signal)));
  }

  /** Starts the workers. Deployments that changed before are in the queue. */
  startWorkers(): void {
    const { signal } = this.#stop;
    this.#running = Array.from({ length: this.#workers }, () => this.#work());
    this.#running.push(this.#resync(signal));
    if (this.#probe) this.#running.push(this.#probe.run(signal));
  }

  /** Lets syncs finish for a while, or cancels them at once because another adapter may already be writing. */
  async stop({ atOnce = false } = {}): Promise<void> {
    this.#queue.close();
    this.#stop.abort();
    const abort = (): void => {
      for (const it of this.#syncs) it.abort();
    };
    const stopWaiting = this.#clock.after(atOnce ? 0 : STOP_GRACE_MS, abort);
    if (atOnce) abort();
    await Promise.all(this.#running);
    stopWaiting();
    this.#stopWatches.abort();
    await Promise.all([...this.#owners, ...this.#sets, ...this.#pods].map((it) => it.ended()));
  }

  // --- reading, for Rollouts

  get(kind: Kind, key: Key): Promise<KubeObject | undefined> {
    return Promise.resolve(this.#find(kind, key));
  }

  async controlledBy(kind: Kind, namespace: string, uids: ReadonlySet<string | undefined>): Promise<KubeObject[]> {
    const caches = this.#cachesOf(kind);
    if (kind === POD) await Promise.all(caches.map((it) => it.start(this.#stopWatches.signal)));
    return caches.flatMap((cache) => Array.from(uids).flatMap((uid) => cache.controlledBy(namespace, uid)));
  }

  #find(kind: Kind, key: Key): KubeObject | undefined {
    for (const cache of this.#cachesOf(kind)) {
      const found = cache.get(key);
      if (found) return found;
    }
    return undefined;
  }

  #cachesOf(kind: Kind): Cache[] {
    return [this.#owners, this.#sets, this.#pods].find((it) => it[0]?.kind === kind) ?? [];
  }

  // --- changes

  readonly #ownerChanged: ChangeHandler = (before, after) => {
    const key = (after ?? before)?.key;
    if (key) this.#queue.add(key);
  };

  readonly #setChanged: ChangeHandler = (before, after) => {
    for (const it of [before, after]) {
      if (!it) continue;
      const { namespace } = it.key;
      // Any Deployment of the namespace may adopt it. The planner decides which one does.
      if (!it.controller) this.#addOwners(namespace);
      else if (it.controller.kind === this.#kind.kind) this.#queue.add({ namespace, name: it.controller.name });
    }
  };

  /** Recreate waits until all old pods are deleted. ReplicaSets do not show that, because their size is 0 much earlier. */
  readonly #podChanged: ChangeHandler = (before, after) => {
    if (!before?.controller || after) return;
    const { namespace } = before.key;
    const set = this.#find(REPLICA_SET, { namespace, name: before.controller.name });
    const owner = set?.controller && this.#find(this.#kind, { namespace, name: set.controller.name });
    if (owner?.recreate) this.#queue.add(owner.key);
  };

  #addOwners(namespace?: string): void {
    for (const cache of this.#owners) {
      for (const { key } of cache.all()) if (namespace === undefined || key.namespace === namespace) this.#queue.add(key);
    }
  }

  // --- the workers

  async #resync(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        await sleep(this.#clock, this.#resyncIntervalMs, signal);
        this.#addOwners();
      }
    } catch (error) {
      if (!(error instanceof CancelledError)) throw error;
    }
  }

  async #work(): Promise<void> {
    for (let key = await this.#queue.get(); key; key = await this.#queue.get()) {
      const delay = await this.#handle(key);
      this.#queue.done(key);
      if (delay !== undefined) this.#queue.addAfter(key, delay);
    }
  }

  /** Syncs a Deployment, and returns when to sync it again. Never throws. */
  async #handle(key: Key): Promise<number | undefined> {
    const name = keyText(key);
    const last = this.#lastSync.get(name);
    const wait = last === undefined ? 0 : last + this.#minIntervalMs - this.#clock.now();
    if (wait > 0) return wait;
    if (this.#probe && !this.#probe.clear) {
      this.#metrics.countSync("native_controller");
      return PROBE_POLL_MS * (1 + Math.random());
    }
    const abort = new AbortController();
    this.#syncs.add(abort);
    try {
      const result = await this.#rollouts.sync(key, { signal: abort.signal });
      this.#lastSync.set(name, this.#clock.now());
      return this.#succeeded(key, result);
    } catch (error) {
      this.#lastSync.set(name, this.#clock.now());
      return await this.#failed(key, error);
    } finally {
      this.#syncs.delete(abort);
    }
  }

  #succeeded(key: Key, { response, rejected, again, requeueAfterMs }: SyncResult): number | undefined {
    this.#metrics.setPhase(key, response?.report);
    if (!response) {
      this.#lastSync.delete(keyText(key));
      this.#queue.forget(key);
      this.#metrics.countSync("synced");
      return undefined;
    }
    if (rejected.length > 0) {
      for (const failure of rejected) {
        this.#log.warn(`${keyText(key)}: ${failure.toString()}`);
        this.#metrics.countRejection(failure.reason);
      }
      // The next sync reports the rejection and requests the backoff, so a rejection counts once.
      this.#metrics.countSync("rejected");
      return Math.max(this.#minIntervalMs, BACKOFF_MIN_MS);
    }
    this.#metrics.countSync(again ? "retry" : "synced");
    if (again) return this.#queue.backoff(key);
    this.#queue.forget(key);
    return requeueAfterMs;
  }

  async #failed(key: Key, error: unknown): Promise<number | undefined> {
    if (error instanceof CancelledError) return undefined;
    const name = keyText(key);
    if (error instanceof NativeControllerError) {
      this.#log.warn(`${name}: ${error.message}`);
      await this.#events.warn(this.#find(this.#kind, key), "NativeController", error.message).catch(() => undefined);
      this.#metrics.countSync("native_controller");
      return BACKOFF_MAX_MS;
    }
    if (error instanceof PlannerError && error.code === "unavailable") {
      this.#log.warn(`${name}: ${error.message}`);
      this.#metrics.countSync("planner_unavailable");
      return PLANNER_BACKOFF_MS * (1 + Math.random());
    }
    if (error instanceof RollplanError) this.#log.warn(`${name}: ${error.message}`);
    else this.#log.error(`${name}: unexpected error: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    this.#metrics.countSync("error");
    return this.#queue.backoff(key);
  }
}
