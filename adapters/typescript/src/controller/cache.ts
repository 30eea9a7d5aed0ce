/**
 * A cache of the objects of a kind, kept up to date by a watch.
 *
 * The informer of @kubernetes/client-node (2) is not used. Its watch reads events with JSON.parse, which rounds integers beyond
 * 2^53. With another watch and lists with pages, it would only be a map of objects that stops at the first error: it does not
 * pass the old object to handlers, and nothing can wait for its end.
 */

import { ApiError, CancelledError } from "../errors.js";
import type { Api, ListOptions, WatchOptions } from "../kubernetes.js";
import { keyText, type Key, type Kind, type KubeObject, type Page, type WatchEvent } from "../objects.js";
import { sleep, type Clock } from "./clock.js";
import type { Log } from "./log.js";

// The duration of a watch. The API server spreads the ends of watches. The first and the longest delay after a failure.
const WATCH_SECONDS = 300;
const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 5_000;
// A watch that ends earlier, and without an event, has failed.
const WATCH_MIN_MS = 1_000;

/** Called with the old and the new version of an object. Undefined if it was created or deleted. */
export type ChangeHandler = (before: KubeObject | undefined, after: KubeObject | undefined) => void;

/** The source of a cache. */
export interface Source {
  list(kind: Kind, options: ListOptions): Promise<Page>;
  watch(kind: Kind, options: WatchOptions): AsyncIterable<WatchEvent>;
}

/** The part of an API server that a cache needs. */
export function sourceOf(api: Api): Source {
  return { list: (kind, options) => api.listPage(kind, options), watch: (kind, options) => api.watch(kind, options) };
}

/** The parameters of a cache. */
export interface CacheOptions {
  readonly kind: Kind;
  readonly source: Source;
  readonly clock: Clock;
  readonly log: Log;
  /** Empty for all namespaces. */
  readonly namespace: string;
  readonly labelSelector?: string;
  readonly changed: ChangeHandler;
}

/** The objects of a kind, in one namespace or in all. */
export class Cache {
  readonly kind: Kind;
  readonly #options: CacheOptions;
  readonly #objects = new Map<string, KubeObject>();
  readonly #controlled = new Map<string, Map<string, KubeObject>>();
  readonly #synced = Promise.withResolvers<undefined>();
  #run: Promise<void> | undefined;
  // The resourceVersion up to which the objects are known. Empty if they must be listed.
  #version = "";

  constructor(options: CacheOptions) {
    this.kind = options.kind;
    this.#options = options;
    this.#synced.promise.catch(() => undefined); // callers that wait for it get the error
  }

  // --- reading

  get(key: Key): KubeObject | undefined {
    return this.#objects.get(keyText(key));
  }

  /** The objects of a controller. Undefined stands for objects without one. */
  controlledBy(namespace: string, uid: string | undefined): KubeObject[] {
    return Array.from(this.#controlled.get(indexOf(namespace, uid))?.values() ?? []);
  }

  all(): IterableIterator<KubeObject> {
    return this.#objects.values();
  }

  // --- the watch

  /** Starts the watch, unless it has been started, and waits until the first list has arrived. */
  async start(signal: AbortSignal): Promise<void> {
    this.#run ??= this.#follow(signal);
    await this.#synced.promise;
  }

  /** Waits until a watch whose signal was aborted has ended. */
  async ended(): Promise<void> {
    await this.#run;
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { log, clock } = this.#options;
    let delay = RETRY_MIN_MS;
    while (!signal.aborted) {
      try {
        if (!this.#version) this.#version = await this.#list(signal);
        await this.#watch(signal);
        delay = RETRY_MIN_MS;
      } catch (error) {
        if (error instanceof CancelledError) break;
        if (error instanceof ApiError && (error.code === 404 || error.code === 410)) this.#version = ""; // it is too old
        const expected = error instanceof ApiError && error.code === 410;
        log[expected ? "info" : "warn"](String(error));
        await sleep(clock, delay * (1 + Math.random()), signal).catch(() => undefined);
        delay = Math.min(delay * 2, RETRY_MAX_MS);
      }
    }
    this.#synced.reject(new CancelledError());
  }

  async #list(signal: AbortSignal): Promise<string> {
    const { kind, source, namespace, labelSelector } = this.#options;
    const { objects, version } = await source.list(kind, { namespace, labelSelector, signal });
    const listed = new Set(objects.map((it) => keyText(it.key)));
    for (const it of objects) this.#put(it);
    for (const it of [...this.#objects.values()]) if (!listed.has(keyText(it.key))) this.#remove(it);
    this.#synced.resolve(undefined);
    return version;
  }

  /** Follows a watch to its end. */
  async #watch(signal: AbortSignal): Promise<void> {
    const { kind, source, clock, namespace, labelSelector } = this.#options;
    const options = { namespace, labelSelector, signal, version: this.#version, seconds: WATCH_SECONDS };
    const start = clock.now();
    let events = 0;
    for await (const { type, object, version } of source.watch(kind, options)) {
      this.#version = version;
      events++;
      if (!object) continue; // a bookmark
      if (type === "DELETED") this.#remove(object);
      else this.#put(object);
    }
    if (events === 0 && clock.now() - start < WATCH_MIN_MS) throw new ApiError(`watch ${kind.plural}`, 0, "it ended at once");
  }

  #put(it: KubeObject): void {
    const name = keyText(it.key);
    const before = this.#objects.get(name);
    if (before?.uid === it.uid && before.version >= it.version) return;
    if (before) this.#unindex(before);
    this.#objects.set(name, it);
    const index = indexOf(it.key.namespace, it.controller?.uid);
    const siblings = this.#controlled.get(index) ?? new Map<string, KubeObject>();
    this.#controlled.set(index, siblings.set(name, it));
    this.#options.changed(before, it);
  }

  #remove(it: KubeObject): void {
    const name = keyText(it.key);
    const before = this.#objects.get(name);
    if (before?.uid !== it.uid) return;
    this.#objects.delete(name);
    this.#unindex(before);
    this.#options.changed(before, undefined);
  }

  #unindex(it: KubeObject): void {
    const index = indexOf(it.key.namespace, it.controller?.uid);
    const siblings = this.#controlled.get(index);
    siblings?.delete(keyText(it.key));
    if (siblings?.size === 0) this.#controlled.delete(index);
  }
}

function indexOf(namespace: string, uid = ""): string {
  return `${namespace}/${uid}`;
}
