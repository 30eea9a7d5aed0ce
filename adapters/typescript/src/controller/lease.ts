/**
 * Leader election with a Lease, as client-go does it: only one adapter writes. @kubernetes/client-node (2) has none.
 */

import { CancelledError } from "../errors.js";
import { parseExactly } from "../json.js";
import type { Answer, ApiRequest } from "../kubernetes.js";
import { pathOf, type Kind } from "../objects.js";
import { sleep, type Clock } from "./clock.js";
import type { Log } from "./log.js";

const LEASE: Kind = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", plural: "leases" };

/** A lease, with its other fields. */
interface Lease {
  readonly spec?: LeaseSpec | undefined;
}

interface LeaseSpec {
  holderIdentity?: string;
  leaseDurationSeconds?: number;
  acquireTime?: string;
  renewTime?: string;
  leaseTransitions?: number;
}

/** The API calls that a lease needs. */
export interface LeaseApi {
  request(request: ApiRequest, signal?: AbortSignal): Promise<Answer>;
}

/** The name of the lease, and the identity of its holder. */
export interface ElectionOptions {
  readonly api: LeaseApi;
  readonly clock: Clock;
  readonly log: Log;
  readonly namespace: string;
  readonly name: string;
  readonly identity: string;
  readonly durationMs: number;
  /** Called with the lease, its holder, and whether that is this process, whenever the holder changes. */
  readonly observer?: (lease: string, holder: string, isSelf: boolean) => void;
}

/** Holds a lease, or waits for it. */
export class Election {
  readonly #options: ElectionOptions;
  readonly #retryMs: number;
  readonly #renewWithinMs: number;
  // The last observation of the lease, and its local time: the clocks of other machines do not matter.
  #seen = "";
  #seenAt = 0;
  #held = false;
  // The holder, and the error of the last attempt, that were logged last.
  #reported = { holder: "", error: "" };

  constructor(options: ElectionOptions) {
    this.#options = options;
    this.#retryMs = (options.durationMs * 2) / 15;
    this.#renewWithinMs = (options.durationMs * 2) / 3;
  }

  /** Waits for the lease. False if the signal was aborted before. */
  async acquire(signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#options;
    while (!signal.aborted) {
      if (await this.#try()) return true;
      await sleep(clock, this.#retryMs, signal).catch(() => undefined);
    }
    return false;
  }

  /** Renews the lease. False if it is lost, which must end all writes; true if the signal was aborted. */
  async keep(signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#options;
    let renewed = clock.now();
    for (;;) {
      try {
        await sleep(clock, this.#retryMs, signal);
      } catch {
        return true;
      }
      const started = clock.now();
      if (await this.#tryBefore(renewed + this.#renewWithinMs)) {
        renewed = started;
      } else if (clock.now() - renewed >= this.#renewWithinMs) {
        this.#held = false;
        return false;
      }
    }
  }

  /** Lets another adapter take over at once. */
  async release(): Promise<void> {
    if (!this.#held) return;
    const answer = await this.#read();
    if (!answer.ok) return;
    const lease = parseExactly(answer.text) as Lease;
    if (lease.spec?.holderIdentity !== this.#options.identity) return;
    const spec = { ...lease.spec, holderIdentity: "", leaseDurationSeconds: 1, renewTime: microTime() };
    await this.#write("PUT", { ...lease, spec });
  }

  /** Makes an attempt that ends at a time at the latest: the lease expires even without an answer. */
  async #tryBefore(end: number): Promise<boolean> {
    const { clock } = this.#options;
    const controller = new AbortController();
    const stop = clock.after(Math.max(0, end - clock.now()), () => {
      controller.abort();
    });
    try {
      return await this.#try(controller.signal);
    } catch (error) {
      if (error instanceof CancelledError) return false;
      throw error;
    } finally {
      stop();
    }
  }

  async #try(signal?: AbortSignal): Promise<boolean> {
    const { namespace, name, identity, durationMs, clock } = this.#options;
    const answer = await this.#read(signal);
    if (answer.code === 404) {
      const lease = { apiVersion: LEASE.apiVersion, kind: LEASE.kind, metadata: { namespace, name }, spec: this.#mine({}) };
      return this.#acquire("POST", lease, signal);
    }
    if (!answer.ok) {
      this.#report(this.#reported.holder, `${answer.message || "no answer"} (${answer.code})`);
      return false;
    }
    const lease = parseExactly(answer.text) as Lease;
    const spec = lease.spec ?? {};
    const { holderIdentity: holder = "", renewTime = "", leaseDurationSeconds: seconds } = spec;
    const now = clock.now();
    if (this.#seen !== `${holder} ${renewTime}`) {
      this.#seen = `${holder} ${renewTime}`;
      this.#seenAt = now;
    }
    const heldMs = seconds === undefined ? durationMs : seconds * 1000;
    if (holder !== "" && holder !== identity && now < this.#seenAt + heldMs) {
      this.#held = false;
      this.#report(holder);
      return false;
    }
    return this.#acquire("PUT", { ...lease, spec: this.#mine(spec) }, signal);
  }

  async #acquire(method: "POST" | "PUT", lease: Lease, signal?: AbortSignal): Promise<boolean> {
    this.#held = await this.#write(method, lease, signal);
    if (this.#held) this.#report(this.#options.identity);
    return this.#held;
  }

  /** Reports changes: a standby is ready and does nothing, like an adapter without work. */
  #report(holder: string, error = ""): void {
    const { namespace, name, identity, log, observer } = this.#options;
    if (this.#reported.holder === holder && this.#reported.error === error) return;
    this.#reported = { holder, error };
    const [lease, isSelf] = [`${namespace}/${name}`, holder === identity];
    observer?.(lease, holder, isSelf);
    if (error) log.warn(`cannot read the lease ${lease}: ${error}`);
    else if (isSelf) log.info(`acquired the lease ${lease}: ${holder}`);
    else log.info(`waiting for the lease ${lease}, which another adapter holds: ${holder}`);
  }

  #mine(spec: LeaseSpec): LeaseSpec {
    const { identity, durationMs } = this.#options;
    const changed = spec.holderIdentity !== identity;
    const now = microTime();
    return {
      ...spec,
      holderIdentity: identity,
      leaseDurationSeconds: Math.max(1, Math.round(durationMs / 1000)),
      acquireTime: changed ? now : (spec.acquireTime ?? now),
      renewTime: now,
      leaseTransitions: spec.renewTime === undefined ? 0 : (spec.leaseTransitions ?? 0) + (changed ? 1 : 0),
    };
  }

  #read(signal?: AbortSignal): Promise<Answer> {
    const { api, namespace, name } = this.#options;
    return api.request({ method: "GET", path: pathOf(LEASE, namespace, name), timeoutMs: this.#renewWithinMs }, signal);
  }

  async #write(method: "POST" | "PUT", lease: Lease, signal?: AbortSignal): Promise<boolean> {
    const { api, namespace, name } = this.#options;
    const body = JSON.stringify(lease);
    const path = pathOf(LEASE, namespace, method === "PUT" ? name : "");
    const request = { method, path, contentType: "application/json", body, timeoutMs: this.#renewWithinMs };
    return (await api.request(request, signal)).ok;
  }
}

/** The current time as a MicroTime of Kubernetes, with six digits. */
function microTime(): string {
  return new Date().toISOString().replace("Z", "000Z");
}
