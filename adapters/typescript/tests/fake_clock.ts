/** A clock that only advances when a test moves it. */

import type { Clock } from "../src/controller/clock.js";

interface Timer {
  readonly at: number;
  readonly call: () => void;
}

/** Runs all pending promises. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 10; i++) await new Promise(setImmediate);
}

export class FakeClock implements Clock {
  #now = 1_000_000;
  readonly #timers = new Set<Timer>();

  now(): number {
    return this.#now;
  }

  after(ms: number, call: () => void): () => void {
    const timer = { at: this.#now + ms, call };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Moves the clock, and runs due timers in order. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (;;) {
      const [next] = [...this.#timers].filter((it) => it.at <= end).sort((a, b) => a.at - b.at);
      if (!next) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.call();
      await settle();
    }
    this.#now = end;
  }
}
