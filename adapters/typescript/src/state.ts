/** The state of a Deployment between syncs. */

import { NativeControllerError } from "./errors.js";
import type { StepAnswer } from "./gen/rollplan/v1/plan_pb.js";
import { keyText, REPLICA_SET, type Key, type KubeObject } from "./objects.js";

// How long a created object is assumed to exist although the cache does not show it. If it is deleted while the watch is
// interrupted, the cache never shows it.
const CACHE_LAG_MAX_MS = 60_000;
// How long the native controller must not have written before work on a Deployment is resumed.
const NATIVE_QUIET_PERIOD_MS = 60_000;

/** An object that a call of the adapter returned, until the cache shows it. */
interface Write {
  readonly object: KubeObject;
  created: boolean;
  readonly deleted: boolean;
  readonly at: number;
}

/** The state is discarded when a Deployment is deleted and another one is created with the same name. */
export class OwnerState {
  readonly uid: string;
  // Without these, a lagging watch would make the planner repeat steps that were already carried out.
  readonly #writes = new Map<string, Write>();
  #nativeObserved = false;
  #nativeWrite = "";
  #nativeUntil = 0;

  /** The versions of the ReplicaSets in the last request. */
  sent = new Map<string, bigint>();
  /** Whether the cache, together with our own writes, is known to have all changes of the ReplicaSets. */
  verified = false;
  /** When the first of the delayed status updates was due. Undefined if there is none. */
  statusDelayedSince: number | undefined;
  /** The answers to the calls of the last plan that failed. */
  answers: StepAnswer[] = [];
  /** Whether one of them is a rejection. */
  rejected = false;
  /** Whether the API server has dropped terminatingReplicas from a status write, until a ReplicaSet has this field. */
  dropsTerminating = false;

  constructor(uid: string) {
    this.uid = uid;
  }

  /** Throws if the native controller has written the status since the first observation of the Deployment. */
  checkNative(owner: KubeObject, now: number): void {
    if (owner.nativeStatusWrite > this.#nativeWrite) {
      if (this.#nativeObserved) this.#nativeUntil = now + NATIVE_QUIET_PERIOD_MS;
      this.#nativeWrite = owner.nativeStatusWrite;
    }
    this.#nativeObserved = true;
    if (now < this.#nativeUntil) {
      this.verified = false;
      throw new NativeControllerError();
    }
  }

  /** Stores the object that a write returned. */
  recordWrite(object: KubeObject, { created = false, deleted = false }): void {
    const before = this.#writes.get(object.uid);
    this.#writes.set(object.uid, { object, created: created || (before?.created ?? false), deleted, at: performance.now() });
  }

  /** Stores a ReplicaSet from the API server. Returns whether the last request lacked it or had another version. */
  recordRead(object: KubeObject): boolean {
    if (this.sent.get(object.uid) === object.version) return false;
    const own = this.#writes.get(object.uid);
    if (!own || own.object.version < object.version) this.recordWrite(object, { created: true });
    return true;
  }

  /** Drops the adapter's own write to an object that, according to the API server, does not exist. */
  forgetMissing(kind: string, name: string): void {
    for (const [uid, { object }] of this.#writes) {
      if (object.kind === kind && object.key.name === name) this.#writes.delete(uid);
    }
  }

  /** The newer of the cached object and the result of the adapter's own write. Undefined if the adapter deleted it. */
  latest(cached: KubeObject): KubeObject | undefined {
    const own = this.#writes.get(cached.uid);
    if (!own) return cached;
    if (own.deleted && !cached.deleting) return undefined;
    if (own.deleted || cached.version >= own.object.version) {
      this.#writes.delete(cached.uid);
      return cached;
    }
    return own.object;
  }

  /** The ReplicaSets that the cache will show once it has caught up. */
  overlay(cached: readonly KubeObject[], now: number): KubeObject[] {
    const shown = new Set(cached.map((it) => it.uid));
    const objects = cached.map((it) => this.latest(it)).filter((it) => it !== undefined);
    for (const [uid, own] of this.#writes) {
      if (own.object.kind !== REPLICA_SET.kind) continue;
      if (shown.has(uid)) {
        own.created = false;
      } else if (own.created && !own.deleted && now - own.at < CACHE_LAG_MAX_MS) {
        objects.push(own.object);
      } else {
        // Either the cache has seen the deletion, or a created object is overdue and must be read again.
        this.#writes.delete(uid);
        if (own.created) this.verified = false;
      }
    }
    return objects;
  }
}

/** The states of all Deployments. Syncs of one Deployment exclude each other. */
export class States {
  readonly #states = new Map<string, OwnerState>();
  readonly #last = new Map<string, Promise<unknown>>();

  /** The state of a Deployment. A new one if the Deployment has another UID than before. */
  of(key: Key, uid?: string): OwnerState {
    let state = this.#states.get(keyText(key));
    if (!state || (uid !== undefined && state.uid !== uid)) {
      state = new OwnerState(uid ?? "");
      this.#states.set(keyText(key), state);
    }
    return state;
  }

  /** Discards the state of a Deployment. */
  forget(key: Key): void {
    this.#states.delete(keyText(key));
  }

  /** Runs after all earlier operations on the same Deployment have ended. */
  async exclusively<T>(key: Key, run: () => Promise<T>): Promise<T> {
    const name = keyText(key);
    const before = this.#last.get(name) ?? Promise.resolve();
    const result = before.then(run, run);
    this.#last.set(name, result);
    try {
      return await result;
    } finally {
      if (this.#last.get(name) === result) this.#last.delete(name);
    }
  }
}
