/** The common interface of gRPC, Connect and fetch. */

import type { DescMessage, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import { ConnectError, Code } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { durationMs } from "@bufbuild/protobuf/wkt";

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

/** Converts an error that an attempt threw. The details are the same with gRPC and with Connect. */
export function attemptError(thrown: unknown, signal: AbortSignal | undefined): RollplanError {
  if (signal?.aborted) return new CancelledError();
  const error = ConnectError.from(thrown, Code.Unavailable);
  const info = error.findDetails(ErrorInfoSchema)[0];
  const retry = error.findDetails(RetryInfoSchema)[0];
  return new PlannerError(codeToString(error.code), error.rawMessage, {
    reason: info?.reason ?? "",
    retryAfterMs: retry && (retry.retryDelay ? durationMs(retry.retryDelay) : 0),
    metadata: info?.metadata ?? {},
    cause: thrown,
  });
}
