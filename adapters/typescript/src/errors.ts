/** The errors of this package. */

import type { RolloutReport } from "./gen/rollplan/v1/report_pb.js";

/** Base of all errors of this package. */
export class RollplanError extends Error {
  override get name(): string {
    return this.constructor.name;
  }
}

/** What is known of an error of the service beyond its code and message. */
export interface PlannerErrorDetails {
  /** The stable reason, for example "INVALID_REQUEST". Empty if the error is not one of the service. */
  readonly reason?: string;
  /** When to try again, in milliseconds, if the service says so (RetryInfo). */
  readonly retryAfterMs?: number | undefined;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/** The service did not answer, or answered with an error. docs/reference/api.md lists them. */
export class PlannerError extends RollplanError {
  /** A code of gRPC in lower case, for example "unavailable". */
  readonly code: string;
  readonly reason: string;
  readonly retryAfterMs: number | undefined;
  readonly metadata: Readonly<Record<string, string>>;

  constructor(code: string, message: string, details: PlannerErrorDetails = {}) {
    const reason = details.reason ?? "";
    super(`${code}: ${message}${reason && ` (${reason})`}`, { cause: details.cause });
    this.code = code;
    this.reason = reason;
    this.retryAfterMs = details.retryAfterMs;
    this.metadata = details.metadata ?? {};
  }

  /** Whether the same request may succeed at once, perhaps on another server. */
  get retryable(): boolean {
    return this.code === "unavailable" || (this.code === "resource_exhausted" && this.retryAfterMs !== undefined);
  }
}

/** The run was cancelled by its AbortSignal. */
export class CancelledError extends RollplanError {
  constructor() {
    super("cancelled");
  }
}

/** The API server did not answer a request, refused a read, or answered with something other than an object. */
export class ApiError extends RollplanError {
  /** The HTTP status. 0 without an answer. */
  readonly code: number;

  constructor(what: string, code: number, message: string) {
    super(`${what}: ${message || "no answer"}${code ? ` (${code})` : ""}`);
    this.code = code;
  }
}

/** The Deployment does not exist. */
export class NotFoundError extends RollplanError {}

/** A rollout needs a change to complete. */
export class StalledError extends RollplanError {
  readonly report: RolloutReport;

  constructor(report: RolloutReport) {
    super(report.message);
    this.report = report;
  }
}

/** A rollout is not complete yet. */
export class WaitTimeoutError extends RollplanError {
  readonly report: RolloutReport;

  constructor(report: RolloutReport) {
    super(report.message);
    this.report = report;
  }
}
