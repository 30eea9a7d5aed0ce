/** The common interface of gRPC, Connect, fetch, and the planner in this process. */

import type { DescMessage, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import { ConnectError, Code } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { durationMs } from "@bufbuild/protobuf/wkt";

import { causeOf, isCanceled, systemError } from "./cause.js";
import { CancelledError, PlannerError, type RollplanError } from "./errors.js";
import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";

/** The deadline of an attempt, and the signal that cancels it. */
export interface AttemptOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Makes one attempt of a call, and throws PlannerError or CancelledError if it fails. */
export interface Transport {
  unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    options: AttemptOptions,
  ): Promise<MessageShape<O>>;
  /** Closes the connections. */
  close(): void;
}

/**
 * The address of the service, in the form that errors name.
 *
 * @throws PlannerError if it is not a URL: the libraries would report that only in a call, as if it were not available.
 */
export function serviceUrl(address: string): string {
  const url = URL.parse(address);
  if (!url || !["http:", "https:"].includes(url.protocol)) {
    const expected = 'must be a URL such as "http://127.0.0.1:50051"';
    throw new PlannerError("invalid_argument", `address ${JSON.stringify(address)} of the service: ${expected}`);
  }
  return (url.origin + url.pathname).replace(/\/+$/, "");
}

/**
 * Converts an error that an attempt threw. The details are the same with gRPC and with Connect. An error that the service did
 * not report itself names its URL.
 */
export function attemptError(thrown: unknown, signal: AbortSignal | undefined, url: string): RollplanError {
  if (signal?.aborted) return new CancelledError();
  const error = ConnectError.from(thrown, Code.Unavailable);
  const info = error.findDetails(ErrorInfoSchema)[0];
  const retry = error.findDetails(RetryInfoSchema)[0];
  const isLost = !info && error.code !== Code.DeadlineExceeded && (isCanceled(thrown) || systemError(thrown) !== undefined);
  const message = info ? error.rawMessage : `${url}: ${causeOf(thrown, url)}`;
  return new PlannerError(codeToString(isLost ? Code.Unavailable : error.code), message, {
    reason: info?.reason ?? "",
    retryAfterMs: retry && (retry.retryDelay ? durationMs(retry.retryDelay) : 0),
    metadata: info?.metadata ?? {},
    cause: thrown,
  });
}
