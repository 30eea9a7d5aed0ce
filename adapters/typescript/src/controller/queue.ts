/**
 * A work queue: it contains each key once, one worker handles a key at a time, and keys can be delayed. p-queue and similar
 * packages queue functions: they would run a key twice, also at the same time.
 */

import { keyText, type Key } from "../objects.js";
import type { Clock } from "./clock.js";

/**
 * The first and the longest delay after a failure in milliseconds. The native Deployment controller starts at the same delay, but
 * gives up on a Deployment once the delay reaches 82 s. This one keeps retrying.
 */
export const BACKOFF_MIN_MS = 5;
export const BACKOFF_MAX_MS = 30_000;

interface Delayed {
  readonly at: number;
  readonly cancel: () => void;
}

/** A work queue for asynchronous workers. */
export class Queue {
  readonly #clock: Clock;
  // Waiting keys in order, keys that a worker is handling, and keys among them that were added in the meantime.
  readonly #ready = new Map<string, Key>();
  readonly #working = new Set<string>();
  readonly #again = new Set<string>();
  readonly #delayed = new Map<string, Delayed>();
  readonly #failures = new Map<string, number>();
  readonly #idle: ((key: Key | undefined) => void)[] = [];
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get length(): number {
    return this.#ready.size;
  }

  /** Adds a key, unless it is waiting already. */
  add(key: Key): void {
    const name = keyText(key);
    if (this.#working.has(name)) {
      this.#again.add(name);
      return;
    }
    this.#ready.set(name, key);
    // Deferred, so that a key that one change adds several times is handled once.
    queueMicrotask(() => {
      this.#hand();
    });
  }

  /** Adds a key after a delay. If a key has several delays, the one that ends first counts. */
  addAfter(key: Key, ms: number): void {
    const name = keyText(key);
    const at = this.#clock.now() + ms;
    const before = this.#delayed.get(name);
    if (this.#closed || (before && before.at <= at)) return;
    before?.cancel();
    const cancel = this.#clock.after(ms, () => {
      this.#delayed.delete(name);
      this.add(key);
    });
    this.#delayed.set(name, { at, cancel });
  }

  /** The delay after another failure of a key. It doubles each time. */
  backoff(key: Key): number {
    const name = keyText(key);
    const failures = this.#failures.get(name) ?? 0;
    this.#failures.set(name, failures + 1);
    return Math.min(BACKOFF_MIN_MS * 2 ** failures, BACKOFF_MAX_MS);
  }

  /** Resets the backoff of a key. */
  forget(key: Key): void {
    this.#failures.delete(keyText(key));
  }

  /** Waits for a key, which the caller returns with `done`. Undefined once the queue is closed. */
  get(): Promise<Key | undefined> {
    return new Promise((resolve) => {
      this.#idle.push(resolve);
      this.#hand();
    });
  }

  /** Returns a key. If it was added in the meantime, it is handled again. */
  done(key: Key): void {
    const name = keyText(key);
    this.#working.delete(name);
    if (this.#again.delete(name)) this.add(key);
  }

  /** Ends all workers. */
  close(): void {
    this.#closed = true;
    for (const { cancel } of this.#delayed.values()) cancel();
    this.#delayed.clear();
    this.#hand();
  }

  /** Hands waiting keys to waiting workers. */
  #hand(): void {
    if (this.#closed) {
      for (const worker of this.#idle.splice(0)) worker(undefined);
      return;
    }
    for (const [name, key] of this.#ready) {
      const worker = this.#idle.shift();
      if (!worker) return;
      this.#ready.delete(name);
      this.#working.add(name);
      worker(key);
    }
  }
}
