/** The client of the service, with deadlines and retries. */

import { setTimeout as sleep } from "node:timers/promises";

import { create, type DescMessage, type DescMethodUnary, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";

import { checkMessage } from "./check.js";
import { connectTransport, grpcTransport, type ConnectOptions } from "./connect.js";
import { CancelledError, PlannerError } from "./errors.js";
import { fetchTransport, type FetchOptions } from "./fetch.js";
import type { PlanCanaryRequestSchema, PlanCanaryResponse } from "./gen/rollplan/v1/canary_pb.js";
import type { ForecastRolloutRequestSchema, ForecastRolloutResponse } from "./gen/rollplan/v1/forecast_pb.js";
import type {
  ComputeStatusRequestSchema,
  ComputeStatusResponse,
  PlanRolloutRequestSchema,
  PlanRolloutResponse,
} from "./gen/rollplan/v1/plan_pb.js";
import type { PlanRestartsRequestSchema, PlanRestartsResponse } from "./gen/rollplan/v1/restart_pb.js";
import type {
  ListRevisionsRequestSchema,
  ListRevisionsResponse,
  RollbackRequestSchema,
  RollbackResponse,
} from "./gen/rollplan/v1/revision_pb.js";
import { RolloutPlanner } from "./gen/rollplan/v1/service_pb.js";
import { localTransport, type LocalOptions } from "./local.js";
import type { Transport } from "./transport.js";

// The deadline of one attempt. The largest plans take well under a second.
const DEFAULT_TIMEOUT_MS = 10_000;
// Low, because callers have a work queue or a loop that retries later.
const ATTEMPTS_MAX = 3;
// Doubles with each attempt.
const FIRST_DELAY_MS = 100;

/** How a client calls the service. */
export interface PlannerOptions {
  /** The deadline of one attempt. */
  readonly timeoutMs?: number | undefined;
  /** Is told how long each attempt took, and its code: "ok", or that of the error. */
  readonly observer?: ((ms: number, code: string) => void) | undefined;
}

/** What cancels a call. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

/**
 * A client of the service.
 *
 * Attempts that fail with "unavailable", or with "resource_exhausted" and a RetryInfo, are repeated, three in all. This is safe
 * because no call of the service has a side effect. After any other error the same request would fail again.
 */
export class Planner {
  readonly #transport: Transport;
  readonly #timeoutMs: number;
  readonly #observer: PlannerOptions["observer"];

  constructor(transport: Transport, options: PlannerOptions = {}) {
    this.#transport = transport;
    this.#observer = options.observer;
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  }

  /** A client over gRPC, for a URL like "http://127.0.0.1:50051". */
  static grpc(url: string, options: PlannerOptions & ConnectOptions = {}): Planner {
    return new Planner(grpcTransport(url, options), options);
  }

  /** A client over Connect, with protobuf or JSON. */
  static connect(url: string, options: PlannerOptions & ConnectOptions & { readonly json?: boolean } = {}): Planner {
    return new Planner(connectTransport(url, options), options);
  }

  /** A client over plain fetch, with protobuf or JSON. */
  static fetch(url: string, options: PlannerOptions & FetchOptions = {}): Planner {
    return new Planner(fetchTransport(url, options), options);
  }

  /** A planner in this process, as WebAssembly, without a service. A call occupies the thread until it ends. */
  static local(options: PlannerOptions & LocalOptions = {}): Planner {
    return new Planner(localTransport(options), options);
  }

  /** The next writes for a Deployment. */
  planRollout(request: MessageInitShape<typeof PlanRolloutRequestSchema>, options?: CallOptions): Promise<PlanRolloutResponse> {
    return this.#call(RolloutPlanner.method.planRollout, request, options);
  }

  /** The status and the report of a Deployment. */
  computeStatus(
    request: MessageInitShape<typeof ComputeStatusRequestSchema>,
    options?: CallOptions,
  ): Promise<ComputeStatusResponse> {
    return this.#call(RolloutPlanner.method.computeStatus, request, options);
  }

  /** The writes that roll a Deployment back. */
  rollback(request: MessageInitShape<typeof RollbackRequestSchema>, options?: CallOptions): Promise<RollbackResponse> {
    return this.#call(RolloutPlanner.method.rollback, request, options);
  }

  /** The revisions of a Deployment. */
  listRevisions(
    request: MessageInitShape<typeof ListRevisionsRequestSchema>,
    options?: CallOptions,
  ): Promise<ListRevisionsResponse> {
    return this.#call(RolloutPlanner.method.listRevisions, request, options);
  }

  /** Which workloads to restart because their configuration has changed, and the writes for it. */
  planRestarts(
    request: MessageInitShape<typeof PlanRestartsRequestSchema>,
    options?: CallOptions,
  ): Promise<PlanRestartsResponse> {
    return this.#call(RolloutPlanner.method.planRestarts, request, options);
  }

  /** What changes of a Deployment will do, before they are applied. */
  forecastRollout(
    request: MessageInitShape<typeof ForecastRolloutRequestSchema>,
    options?: CallOptions,
  ): Promise<ForecastRolloutResponse> {
    return this.#call(RolloutPlanner.method.forecastRollout, request, options);
  }

  /** The next write of a canary, or of an automatic rollback. */
  planCanary(request: MessageInitShape<typeof PlanCanaryRequestSchema>, options?: CallOptions): Promise<PlanCanaryResponse> {
    return this.#call(RolloutPlanner.method.planCanary, request, options);
  }

  /**
   * Asks whether the service is reachable.
   *
   * @throws PlannerError unless it answers in time.
   */
  async check(timeoutMs: number): Promise<void> {
    const { listRevisions } = RolloutPlanner.method;
    try {
      await this.#transport.unary(listRevisions, create(listRevisions.input), { timeoutMs });
    } catch (error) {
      // It answers: the request is empty.
      if (!(error instanceof PlannerError && error.code === "invalid_argument")) throw error;
    }
  }

  /** Closes the connections. */
  close(): void {
    this.#transport.close();
  }

  async #call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    init: MessageInitShape<I>,
    { signal }: CallOptions = {},
  ): Promise<MessageShape<O>> {
    const request = create(method.input, init);
    checkMessage(method.input, request);
    for (let attempt = 1; ; attempt++) {
      if (signal?.aborted) throw new CancelledError();
      try {
        return await this.#attempt(method, request, signal);
      } catch (error) {
        if (!(error instanceof PlannerError && error.retryable) || attempt === ATTEMPTS_MAX) throw error;
        await pause(retryDelayMs(error, attempt), signal);
      }
    }
  }

  async #attempt<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    signal: AbortSignal | undefined,
  ): Promise<MessageShape<O>> {
    const start = performance.now();
    let code = "ok";
    try {
      return await this.#transport.unary(method, request, { timeoutMs: this.#timeoutMs, signal });
    } catch (error) {
      code = error instanceof PlannerError ? error.code : "canceled";
      throw error;
    } finally {
      this.#observer?.(performance.now() - start, code);
    }
  }
}

/** Sleeps, and throws CancelledError as soon as the signal is aborted. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(ms, undefined, signal && { signal });
  } catch {
    throw new CancelledError();
  }
}

function retryDelayMs(error: PlannerError, attempt: number): number {
  const delay = error.retryAfterMs ?? FIRST_DELAY_MS * 2 ** (attempt - 1);
  // Jitter keeps the clients of a restarted service from calling it all at once.
  return delay * (1 + Math.random() / 2);
}
