/**
 * A Deployment controller: watches feed `Rollouts.sync`, which carries out the plans of the service, or of the planner in this process.
 *
 *     node controller.ts --mode=custom-resource|takeover --planner=HOST:PORT|--in-process [--kubeconfig=FILE]
 *
 * Run a single replica, in takeover mode only if the Deployment controller of kube-controller-manager is disabled. This example
 * has no lease, no probe for that controller, no metrics, no health endpoints, no limit of concurrent syncs, and no choice of
 * namespaces. The Go adapter has all of them: docs/reference/adapters.md. Other flags of that adapter are ignored.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import { Api, DEPLOYMENT, keyText, PLANNED_DEPLOYMENT, Planner, POD, REPLICA_SET, Rollouts } from "rollplan";
import type { Key, Kind, KubeObject, Reader } from "rollplan";

const KINDS: Readonly<Record<string, Kind>> = { takeover: DEPLOYMENT, "custom-resource": PLANNED_DEPLOYMENT };
const WATCH_SECONDS = 300;
const RETRY_MIN_MS = 1_000;
const RETRY_MAX_MS = 30_000;
// The longest delay of a timer in Node.js.
const TIMER_MAX_MS = 2 ** 31 - 1;

/** The objects of a kind. The informers of the official client are not used, because they lose integers beyond 2^53. */
class Cache {
  readonly objects = new Map<string, KubeObject>();
  readonly #follow: (listed: () => void) => Promise<never>;
  #listed: Promise<void> | undefined;

  /** Calls back with each object that has changed, as it was and as it is. */
  constructor(api: Api, kind: Kind, changed: (before?: KubeObject, after?: KubeObject) => void) {
    const put = (name: string, after?: KubeObject): void => {
      const before = this.objects.get(name);
      if (after) this.objects.set(name, after);
      else this.objects.delete(name);
      if (before?.version !== after?.version) changed(before, after);
    };
    this.#follow = async (listed) => {
      for (;;) {
        try {
          const { objects, version } = await api.listPage(kind);
          const names = new Set(objects.map((it) => keyText(it.key)));
          for (const name of [...this.objects.keys()]) if (!names.has(name)) put(name);
          for (const it of objects) put(keyText(it.key), it);
          listed();
          for await (const { type, object } of api.watch(kind, { version, seconds: WATCH_SECONDS })) {
            put(keyText(object.key), type === "DELETED" ? undefined : object);
          }
        } catch (error) {
          console.error(String(error));
        }
        await sleep(RETRY_MIN_MS);
      }
    };
  }

  /** Starts the watch, unless it has been started, and waits until the first list has arrived. */
  start(): Promise<void> {
    return (this.#listed ??= new Promise((resolve) => void this.#follow(resolve)));
  }
}

/** When an owner is synced next. */
interface Task {
  dueMs: number;
  notBeforeMs: number;
  timer?: NodeJS.Timeout;
  isRunning: boolean;
  failures: number;
}

class Controller implements Reader {
  readonly #caches: ReadonlyMap<Kind, Cache>;
  readonly #rollouts: Rollouts;
  readonly #tasks = new Map<string, Task>();

  constructor(api: Api, planner: Planner, kind: Kind) {
    const owners = new Cache(api, kind, (before, after) => {
      this.#schedule((after ?? before)?.key);
    });
    const sets = new Cache(api, REPLICA_SET, (before, after) => {
      for (const it of [before, after]) {
        if (it?.controller?.kind === kind.kind) this.#schedule({ namespace: it.key.namespace, name: it.controller.name });
        // Any owner of the namespace may adopt it. The service decides which one does.
        const adopters = it && !it.controller ? [...owners.objects.values()] : [];
        for (const { key } of adopters) if (key.namespace === it?.key.namespace) this.#schedule(key);
      }
    });
    const pods = new Cache(api, POD, (before, after) => {
      const set = before && sets.objects.get(keyText({ ...before.key, name: before.controller?.name ?? "" }));
      // With the strategy Recreate, new pods are created after the old ones have been deleted.
      if (!after && set?.controller?.kind === kind.kind) this.#schedule({ ...set.key, name: set.controller.name });
    });
    this.#caches = new Map([[kind, owners], [REPLICA_SET, sets], [POD, pods]]);
    this.#rollouts = new Rollouts(planner, api, { kind, reader: this, statusIntervalMs: 500, minIntervalMs: 100 });
    void sets.start().then(() => owners.start()); // in this order, because owners are synced as soon as they are known
  }

  async get(kind: Kind, key: Key): Promise<KubeObject | undefined> {
    return (await this.#objects(kind)).get(keyText(key));
  }

  async controlledBy(kind: Kind, namespace: string, uids: ReadonlySet<string | undefined>): Promise<KubeObject[]> {
    const objects = (await this.#objects(kind)).values();
    return [...objects].filter((it) => it.key.namespace === namespace && uids.has(it.controller?.uid));
  }

  /** Pods are watched once an owner needs them. */
  async #objects(kind: Kind): Promise<ReadonlyMap<string, KubeObject>> {
    const cache = this.#caches.get(kind);
    await cache?.start();
    return cache?.objects ?? new Map<string, KubeObject>();
  }

  /** Syncs an owner after a delay, unless it is synced earlier. Its syncs do not overlap. */
  #schedule(key?: Key, delayMs = 0): void {
    if (!key) return;
    const task = this.#tasks.get(keyText(key)) ?? { dueMs: Infinity, notBeforeMs: 0, isRunning: false, failures: 0 };
    this.#tasks.set(keyText(key), task);
    task.dueMs = Math.min(task.dueMs, performance.now() + delayMs);
    if (task.isRunning) return;
    clearTimeout(task.timer);
    const waitMs = Math.max(task.dueMs, task.notBeforeMs) - performance.now();
    task.timer = setTimeout(() => void this.#sync(key, task), Math.min(waitMs, TIMER_MAX_MS));
  }

  async #sync(key: Key, task: Task): Promise<void> {
    task.isRunning = true;
    task.dueMs = Infinity; // changes from now on require another sync
    let delayMs: number | undefined;
    try {
      const { failures, notBeforeMs, requeueAfterMs } = await this.#rollouts.sync(key);
      for (const it of failures) console.error(`${keyText(key)}: ${it.toString()}`);
      task.notBeforeMs = performance.now() + notBeforeMs;
      delayMs = requeueAfterMs;
      task.failures = 0;
    } catch (error) {
      console.error(`${keyText(key)}: ${String(error)}`);
      delayMs = Math.min(RETRY_MIN_MS * 2 ** task.failures++, RETRY_MAX_MS) * (1 + Math.random());
    }
    task.isRunning = false;
    if (task.dueMs < Infinity || delayMs !== undefined) this.#schedule(key, delayMs ?? Infinity);
    else this.#tasks.delete(keyText(key));
  }
}

const text = { type: "string" } as const;
const options = { mode: text, planner: text, "in-process": { type: "boolean" }, kubeconfig: text } as const;
const { mode = "", planner: address, "in-process": isInProcess, kubeconfig } = parseArgs({ options, strict: false }).values;
const kind = KINDS[String(mode)];
if (!kind || (typeof address !== "string" && !isInProcess)) {
  console.error("--mode=custom-resource|takeover and --planner=HOST:PORT or --in-process are required");
  process.exit(2);
}
const planner = isInProcess ? Planner.local() : Planner.grpc(`http://${address}`);
// A plan may be interrupted: its calls have preconditions, and the next start reads the ReplicaSets before it writes.
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => process.exit());
const api = await Api.fromConfig(typeof kubeconfig === "string" ? kubeconfig : undefined);
new Controller(api, planner, kind);
