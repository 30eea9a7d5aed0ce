/** The planner in this process, as WebAssembly: the same answers as the service, without one. */

import { readFile } from "node:fs/promises";

import { fromBinary, toBinary, type DescMessage, type DescMethodUnary, type MessageShape } from "@bufbuild/protobuf";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";

import { CancelledError, PlannerError } from "./errors.js";
import { attemptError, type AttemptOptions, type Transport } from "./transport.js";
import { Engine, Trap, type Module } from "./wasm.js";

declare const WebAssembly: { compile(bytes: Uint8Array): Promise<Module> };

// In the root of the package.
const FILE = new URL("../rollplan.wasm", import.meta.url);

// Some 20 seconds of work: a forecast of 5,000 pods in 1,000 samples needs half of it.
const CHECKS_MAX = 100_000_000n;

/** How to plan in this process. */
export interface LocalOptions {
  /**
   * The maximum number of times that a call checks whether to stop. A call that needs more fails with "deadline_exceeded".
   * The planner does not have a clock, so deadlines have no effect, and the same request always needs the same number. The
   * default, 100 million, is enough for a forecast of 5,000 pods in 1,000 samples.
   */
  readonly checksMax?: bigint | undefined;
}

/** A transport that calls the planner in this process. */
export function localTransport(options: LocalOptions = {}): Transport {
  return new LocalTransport(options.checksMax ?? CHECKS_MAX);
}

class LocalTransport implements Transport {
  readonly #checks: bigint;
  #engine: Promise<Engine> | undefined;

  constructor(checks: bigint) {
    this.#checks = checks;
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageShape<I>,
    { signal }: AttemptOptions,
  ): Promise<MessageShape<O>> {
    const engine = await (this.#engine ??= compiled().then((module) => new Engine(module)));
    if (signal?.aborted) throw new CancelledError();
    const { code, bytes } = answer(engine, method.name, toBinary(method.input, request), this.#checks);
    if (code === 0) return fromBinary(method.output, bytes);
    // The same form as the error of a call over gRPC.
    const status = { "grpc-status": String(code), "grpc-status-details-bin": Buffer.from(bytes).toString("base64") };
    throw attemptError(findTrailerError(new Headers(status)), undefined, FILE.pathname);
  }

  close(): void {
    this.#engine = undefined;
  }
}

function answer(engine: Engine, method: string, request: Uint8Array, checks: bigint): ReturnType<Engine["call"]> {
  try {
    return engine.call(method, request, { checks });
  } catch (error) {
    if (!(error instanceof Trap)) throw error;
    throw new PlannerError("internal", error.message, { reason: "INTERNAL_ERROR", cause: error });
  }
}

let compiling: Promise<Module> | undefined;

/** The module, compiled once for all planners. */
function compiled(): Promise<Module> {
  return (compiling ??= readFile(FILE).then(
    (bytes) => WebAssembly.compile(bytes),
    (error: unknown) => {
      const hint = "in a checkout, build it first: bash tests/run build_wasm";
      throw new PlannerError("failed_precondition", `${FILE.pathname}: ${String(error)}; ${hint}`, { cause: error });
    },
  ));
}
