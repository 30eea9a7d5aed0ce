/** The probe for the native Deployment controller. */

import { ApiError, CancelledError, NativeControllerError } from "../errors.js";
import { readAnswer, type Answer, type ApiRequest } from "../kubernetes.js";
import { DEPLOYMENT, pathOf } from "../objects.js";
import { sleep, type Clock } from "./clock.js";
import type { Log } from "./log.js";

/** Marks a Deployment that only shows whether the native controller is running. No adapter manages it. */
export const PROBE_LABEL = "rollplan.dev/probe";
const PROBE_NAME = "rollplan-native-controller-probe";
/** The interval in which the status of the probe is read. */
export const PROBE_POLL_MS = 2_000;
// The interval in which the probe is changed. The native controller observes changes within a second, also after its start.
const PROBE_INTERVAL_MS = 180_000;

/** The location of the probe, and the time for which its status must not be written. */
export interface ProbeOptions {
  readonly api: { request(request: ApiRequest, signal?: AbortSignal): Promise<Answer> };
  readonly clock: Clock;
  readonly log: Log;
  readonly namespace: string;
  /** It must be longer than a leader change of kube-controller-manager takes. */
  readonly waitMs: number;
}

interface Probed {
  metadata?: { generation?: number; managedFields?: { manager?: string; subresource?: string }[] };
  status?: { observedGeneration?: number };
}

/**
 * Determines whether the native Deployment controller is running before the adapter makes its first write: it changes a
 * Deployment without pods, which no adapter manages, and checks whether its status is written. Then it continues to check.
 */
export class Probe {
  readonly #options: ProbeOptions;
  /** Undefined until the result is known. Null while the native controller is not running. */
  #found: NativeControllerError | null | undefined;

  constructor(options: ProbeOptions) {
    this.#options = options;
  }

  /** Whether the native controller is known not to be running. */
  get clear(): boolean {
    return this.#found === null;
  }

  /** Probes until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    while (!signal.aborted) {
      try {
        await this.#probe(signal);
      } catch (error) {
        if (error instanceof CancelledError) return;
        log.warn(`the probe for the native Deployment controller failed: ${String(error)}`);
        await sleep(clock, PROBE_POLL_MS, signal).catch(() => undefined);
      }
    }
  }

  /** Changes the Deployment, and waits until its status is written or until the next change is due. */
  async #probe(signal: AbortSignal): Promise<void> {
    const { clock, waitMs, namespace } = this.#options;
    const generation = await this.#touch(signal);
    const end = clock.now() + (this.clear ? Math.max(PROBE_INTERVAL_MS, waitMs) : waitMs);
    while (clock.now() < end) {
      await sleep(clock, PROBE_POLL_MS, signal);
      const { status, metadata } = await this.#read(signal);
      if ((status?.observedGeneration ?? 0) >= generation) {
        const writer = metadata?.managedFields?.find((it) => it.subresource === "status")?.manager ?? "another controller";
        this.#decide(new NativeControllerError(`${writer} has written the status of ${namespace}/${PROBE_NAME}`));
        return;
      }
    }
    this.#decide(null);
  }

  #decide(found: NativeControllerError | null): void {
    const before = this.#found;
    this.#found = found;
    if (found && !before) this.#options.log.error(`Stopped the work on all Deployments: ${found.message}`);
    else if (!found && before !== null) this.#options.log.info("The native Deployment controller is not running");
  }

  /** Changes the spec of the probe, or creates it, and returns its generation. */
  async #touch(signal: AbortSignal): Promise<number> {
    // The limit has no effect on a Deployment without ReplicaSets, but each value increments the generation.
    const revisionHistoryLimit = Date.now() % 2 ** 31;
    let answer = await this.#call("PATCH", "application/merge-patch+json", { spec: { revisionHistoryLimit } }, signal);
    if (answer.code === 404) answer = await this.#call("POST", "application/json", this.#deployment(revisionHistoryLimit), signal);
    return readProbe("change", answer).metadata?.generation ?? 0;
  }

  async #read(signal: AbortSignal): Promise<Probed> {
    const path = pathOf(DEPLOYMENT, this.#options.namespace, PROBE_NAME);
    return readProbe("read", await this.#options.api.request({ method: "GET", path }, signal));
  }

  #call(method: "PATCH" | "POST", contentType: string, body: object, signal: AbortSignal): Promise<Answer> {
    const path = pathOf(DEPLOYMENT, this.#options.namespace, method === "PATCH" ? PROBE_NAME : "");
    const query = "fieldManager=rollplan";
    return this.#options.api.request({ method, path, query, contentType, body: JSON.stringify(body) }, signal);
  }

  #deployment(revisionHistoryLimit: number): object {
    const labels = { [PROBE_LABEL]: "native-controller" };
    // It complies with the restricted Pod Security Standard: otherwise the API server would warn about it.
    const securityContext = { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } };
    const pod = {
      securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
      containers: [{ name: "never-started", image: "never-started", securityContext }],
    };
    return {
      apiVersion: DEPLOYMENT.apiVersion,
      kind: DEPLOYMENT.kind,
      metadata: { namespace: this.#options.namespace, name: PROBE_NAME, labels },
      spec: {
        replicas: 0,
        paused: true,
        revisionHistoryLimit,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: pod },
      },
    };
  }
}

function readProbe(verb: string, answer: Answer): Probed {
  const what = `${verb} Deployment ${PROBE_NAME}`;
  if (!answer.ok) throw new ApiError(what, answer.code, answer.message);
  return readAnswer(what, answer, (text) => JSON.parse(text) as Probed);
}
