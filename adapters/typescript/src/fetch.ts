/** The service with plain fetch: a POST for each call, with protobuf or JSON (the protocol is Connect). */

import {
  fromBinary,
  fromJsonString,
  toBinary,
  toJsonString,
  type DescMessage,
  type DescMethodUnary,
  type MessageShape,
} from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeFromHttpStatus, errorFromJsonBytes } from "@connectrpc/connect/protocol-connect";

import { attemptError, serviceUrl, type AttemptOptions, type Transport } from "./transport.js";

/** How to send requests. */
export interface FetchOptions {
  /** JSON instead of protobuf. */
  readonly json?: boolean;
  /** Another fetch than the global one, for example one with certificates of its own. */
  readonly fetch?: typeof fetch;
}

// Why a call is aborted.
const LATE = new Error("no answer within the deadline");

/** A transport with fetch. */
export function fetchTransport(url: string, options: FetchOptions = {}): Transport {
  return new FetchTransport(url, options.json ?? false, options.fetch ?? fetch);
}

class FetchTransport implements Transport {
  readonly #url: string;
  readonly #json: boolean;
  readonly #fetch: typeof fetch;

  constructor(url: string, json: boolean, send: typeof fetch) {
    this.#url = serviceUrl(url);
    this.#json = json;
    this.#fetch = send;
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    { timeoutMs, signal }: AttemptOptions,
  ): Promise<MessageShape<O>> {
    // A timer of its own: that of AbortSignal.timeout would outlive the call.
    const abort = new AbortController();
    const cancel = (): void => {
      abort.abort();
    };
    const timer = setTimeout(() => {
      abort.abort(LATE);
    }, timeoutMs);
    signal?.addEventListener("abort", cancel);
    if (signal?.aborted) cancel();
    try {
      const response = await this.#fetch(`${this.#url}/${method.parent.typeName}/${method.name}`, {
        method: "POST",
        headers: {
          "content-type": this.#json ? "application/json" : "application/proto",
          "connect-protocol-version": "1",
          "connect-timeout-ms": String(Math.max(1, Math.floor(timeoutMs))),
        },
        body: this.#json ? toJsonString(method.input, request) : Buffer.from(toBinary(method.input, request)),
        // A redirect is not an answer of the service.
        redirect: "manual",
        signal: abort.signal,
      });
      const body = new Uint8Array(await response.arrayBuffer());
      if (response.status !== 200) throw responseError(response.status, body);
      return this.#decode(method.output, body);
    } catch (error) {
      const expired = abort.signal.reason === LATE && !(error instanceof ConnectError);
      throw attemptError(expired ? new ConnectError(LATE.message, Code.DeadlineExceeded) : error, signal, this.#url);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", cancel);
    }
  }

  close(): void {
    // The connections are those of fetch, which closes idle ones itself.
  }

  #decode<O extends DescMessage>(schema: O, body: Uint8Array): MessageShape<O> {
    try {
      if (!this.#json) return fromBinary(schema, body);
      return fromJsonString(schema, new TextDecoder().decode(body), { ignoreUnknownFields: true });
    } catch (error) {
      throw new ConnectError(`cannot decode the response: ${String(error)}`, Code.Internal);
    }
  }
}

/** The error of an answer of the service, or of a proxy. */
function responseError(status: number, body: Uint8Array): ConnectError {
  const fallback = new ConnectError(`HTTP ${status}, but not from the service`, codeFromHttpStatus(status));
  try {
    return errorFromJsonBytes(body, undefined, fallback);
  } catch (error) {
    return ConnectError.from(error);
  }
}
