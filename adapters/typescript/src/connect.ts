/** The service over gRPC and Connect, with connect-node. */

import { readFileSync } from "node:fs";

import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { Transport as ConnectClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { attemptError, serviceUrl, type AttemptOptions, type Transport } from "./transport.js";

// The limit of the service, and room for the envelope.
const READ_BYTES_MAX = 16 << 20;

/** How to connect to the service. */
export interface ConnectOptions {
  /** A file with the certificates of the authorities to trust, instead of those that Node.js trusts. */
  readonly caFile?: string | undefined;
}

/** Calls the service over HTTP/2. */
class ConnectNodeTransport implements Transport {
  readonly #sessions: Http2SessionManager;
  readonly #client: ConnectClient;
  readonly #url: string;

  constructor(url: string, options: ConnectOptions, connect: (sessions: Http2SessionManager) => ConnectClient) {
    this.#url = serviceUrl(url);
    const tls = options.caFile === undefined ? {} : { ca: readFileSync(options.caFile) };
    // Without pings, calls on a connection whose peer has silently disappeared would hang for about 15 minutes.
    this.#sessions = new Http2SessionManager(url, { pingIntervalMs: 30_000, pingTimeoutMs: 10_000 }, tls);
    this.#client = connect(this.#sessions);
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    { timeoutMs, signal }: AttemptOptions,
  ): Promise<MessageShape<O>> {
    try {
      // A message is one of its initializers, which the compiler cannot see for a generic one.
      const init = request as MessageInitShape<I>;
      return (await this.#client.unary(method, signal, timeoutMs, undefined, init)).message;
    } catch (error) {
      throw attemptError(error, signal, this.#url);
    }
  }

  close(): void {
    this.#sessions.abort();
  }
}

/** A transport with gRPC. */
export function grpcTransport(url: string, options: ConnectOptions = {}): Transport {
  return new ConnectNodeTransport(url, options, (sessionManager) =>
    createGrpcTransport({ baseUrl: url, sessionManager, readMaxBytes: READ_BYTES_MAX }),
  );
}

/** A transport with Connect, and with protobuf or JSON. */
export function connectTransport(url: string, options: ConnectOptions & { readonly json?: boolean } = {}): Transport {
  return new ConnectNodeTransport(url, options, (sessionManager) =>
    createConnectTransport({
      baseUrl: url,
      httpVersion: "2",
      sessionManager,
      useBinaryFormat: !options.json,
      readMaxBytes: READ_BYTES_MAX,
    }),
  );
}
