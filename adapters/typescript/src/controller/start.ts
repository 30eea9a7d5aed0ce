/** Waits at the start until the API server permits what the controller reads. */

import type { Answer, ApiRequest } from "../kubernetes.js";
import { pathOf, PLANNED_DEPLOYMENT, type Kind } from "../objects.js";
import { sleep, type Clock } from "./clock.js";
import type { Log } from "./log.js";

/**
 * How long a starting controller repeats lists that the API server does not answer or rejects: a starting API server rejects
 * everything until it has loaded the roles. It is shorter than the 60 s of the startup probe in the chart.
 */
export const ACCESS_TIMEOUT_MS = 30_000;
// The limits of the delay between these lists.
const BACKOFF_MIN_MS = 500;
const BACKOFF_MAX_MS = 5_000;

/** The controller cannot work with its permissions, or on this API server. */
export class NoAccessError extends Error {}

/** What to list, and how. */
export interface AccessOptions {
  readonly api: { request(request: ApiRequest, signal?: AbortSignal): Promise<Answer> };
  readonly clock: Clock;
  readonly log: Log;
  readonly kinds: readonly Kind[];
  readonly namespaces: readonly string[];
}

/**
 * Waits until all kinds can be listed in these namespaces: without permission, a watch would never start.
 *
 * @throws NoAccessError if one cannot be listed after a while, or immediately if the API server does not serve its kind.
 * @throws CancelledError if the signal is aborted.
 */
export async function awaitAccess(options: AccessOptions, signal: AbortSignal): Promise<void> {
  const { clock, log } = options;
  const end = clock.now() + ACCESS_TIMEOUT_MS;
  for (let delay = BACKOFF_MIN_MS; ; delay = Math.min(2 * delay, BACKOFF_MAX_MS)) {
    const missing = await checkLists(options, signal);
    if (!missing) return;
    if (clock.now() + delay > end) throw new NoAccessError(`no access to the API server after ${ACCESS_TIMEOUT_MS / 1000} s: ${missing}`);
    log.warn(`no access to the API server yet, trying again in ${delay} ms: ${missing}`);
    await sleep(clock, delay, signal);
  }
}

/** Lists each kind. Returns the first rejection. */
async function checkLists({ api, kinds, namespaces }: AccessOptions, signal: AbortSignal): Promise<string | undefined> {
  for (const namespace of namespaces) {
    for (const kind of kinds) {
      const answer = await api.request({ method: "GET", path: pathOf(kind, namespace), query: "limit=1" }, signal);
      if (answer.code === 404 && kind === PLANNED_DEPLOYMENT) {
        throw new NoAccessError(
          `the API server does not serve ${kind.kind}: apply adapters/config/planneddeployment-crd.yaml, and wait for it with ` +
            "kubectl wait --for=condition=Established crd/planneddeployments.apps.rollplan.dev",
        );
      }
      if (!answer.ok) return `list ${kind.plural}: ${answer.message || "no answer"} (${answer.code})`;
    }
  }
  return undefined;
}
