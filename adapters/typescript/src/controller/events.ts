/** Events of the controller itself. The events of plans are calls of the plans. */

import type { Answer, ApiRequest } from "../kubernetes.js";
import { EVENT, pathOf, type KubeObject } from "../objects.js";
import type { Clock } from "./clock.js";

// The minimum interval between two recordings of the same event.
const INTERVAL_MS = 60_000;

/** Records warnings about Deployments. */
export class Events {
  readonly #api: { request(request: ApiRequest): Promise<Answer> };
  readonly #clock: Clock;
  readonly #last = new Map<string, number>();

  constructor(api: { request(request: ApiRequest): Promise<Answer> }, clock: Clock) {
    this.#api = api;
    this.#clock = clock;
  }

  /** Records a warning, unless it was recorded recently. */
  async warn(about: KubeObject | undefined, reason: string, message: string): Promise<void> {
    if (!about) return;
    const now = this.#clock.now();
    const last = this.#last.get(`${about.uid} ${reason}`);
    if (last !== undefined && now - last < INTERVAL_MS) return;
    this.#last.set(`${about.uid} ${reason}`, now);
    const at = new Date().toISOString().replace(/\.\d+/, "");
    const { namespace, name } = about.key;
    const event = {
      apiVersion: EVENT.apiVersion,
      kind: EVENT.kind,
      metadata: { namespace, name: `${name}.${process.hrtime.bigint().toString(16)}` },
      involvedObject: {
        apiVersion: about.apiVersion,
        kind: about.kind,
        namespace,
        name,
        uid: about.uid,
        resourceVersion: String(about.version),
      },
      type: "Warning",
      reason,
      message,
      source: { component: "rollplan-controller" },
      firstTimestamp: at,
      lastTimestamp: at,
      count: 1,
    };
    const path = pathOf(EVENT, namespace);
    await this.#api.request({ method: "POST", path, contentType: "application/json", body: JSON.stringify(event) });
  }
}
