/** Time, so that tests can replace the clock. */

import { CancelledError } from "../errors.js";

/** A monotonic clock with timers. Times are in milliseconds. */
export interface Clock {
  now(): number;
  /** Calls back after a delay, unless the returned function is called before. */
  after(ms: number, call: () => void): () => void;
}

/** The clock of the process. */
export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  after(ms, call) {
    const timer = setTimeout(call, ms);
    return () => {
      clearTimeout(timer);
    };
  },
};

/** Sleeps, and throws CancelledError as soon as the signal is aborted. */
export function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(new CancelledError());
      return;
    }
    const wake = (): void => {
      signal.removeEventListener("abort", interrupt);
      resolve();
    };
    const stop = clock.after(ms, wake);
    const interrupt = (): void => {
      stop();
      reject(new CancelledError());
    };
    signal.addEventListener("abort", interrupt, { once: true });
  });
}
