/** Limits the rate of requests with a token bucket. */

import type { Limiter } from "../kubernetes.js";
import { sleep, type Clock } from "./clock.js";

/** Grants `rate` requests per second, and a burst of `burst`. */
export class TokenBucket implements Limiter {
  readonly #clock: Clock;
  readonly #rate: number;
  readonly #burst: number;
  #tokens: number;
  #at: number;

  constructor(clock: Clock, rate: number, burst: number) {
    this.#clock = clock;
    this.#rate = rate;
    this.#burst = burst;
    this.#tokens = burst;
    this.#at = clock.now();
  }

  async wait(signal: AbortSignal = new AbortController().signal): Promise<void> {
    const now = this.#clock.now();
    this.#tokens = Math.min(this.#burst, this.#tokens + ((now - this.#at) * this.#rate) / 1000) - 1;
    this.#at = now;
    if (this.#tokens < 0) await sleep(this.#clock, (-this.#tokens * 1000) / this.#rate, signal);
  }
}
