/** Calls the WebAssembly module of the planner (bindings/wasm). Also for pages: this file imports nothing. */

/** The part of WebAssembly that is used. Its types are otherwise only in the library of browsers. */
declare const WebAssembly: {
  readonly Instance: new (module: Module, imports: object) => { readonly exports: unknown };
};

/** A compiled module. */
export type Module = object;

/** What the module exports: see bindings/wasm/lib.rs. */
interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer };
  rollplan_input(length: number): number;
  rollplan_call(methodLength: number, isJson: 0 | 1, checks: bigint): number;
  rollplan_output(): number;
  rollplan_output_length(): number;
}

/** An answer: the response, or with a code other than 0 the google.rpc.Status. */
export interface Answered {
  /** A code of gRPC. */
  readonly code: number;
  readonly bytes: Uint8Array;
}

/** How to call. */
export interface Call {
  /** Whether request and response are JSON. */
  readonly json?: boolean;
  /** The budget: the number of checks for an interruption after which the call ends. */
  readonly checks: bigint;
}

/** The module has trapped: it has panicked, or its memory was not enough. */
export class Trap extends Error {
  override readonly name = "Trap";
}

// Memory of WebAssembly never shrinks. An instance that has grown beyond this is discarded; usual requests need a few MiB.
const KEPT_BYTES_MAX = 64 << 20;

const ENCODER = new TextEncoder();

/** An instance of the module, which is replaced after a trap, and after a request that took much memory. */
export class Engine {
  readonly #module: Module;
  #exports: Exports | undefined;

  constructor(module: Module) {
    this.#module = module;
  }

  /** The memory of the instance in bytes. 0 if there is none. */
  get memoryBytes(): number {
    return this.#exports?.memory.buffer.byteLength ?? 0;
  }

  /**
   * Makes a call. Nothing else runs in the meantime.
   *
   * @throws Trap
   */
  call(method: string, request: Uint8Array, { json = false, checks }: Call): Answered {
    // Taken: unless the call ends as it should, the instance is not used again.
    const exports = this.#exports ?? (new WebAssembly.Instance(this.#module, {}).exports as Exports);
    this.#exports = undefined;
    const answered = callInstance(exports, ENCODER.encode(method), request, json, checks);
    if (exports.memory.buffer.byteLength <= KEPT_BYTES_MAX) this.#exports = exports;
    return answered;
  }
}

function callInstance(exports: Exports, name: Uint8Array, request: Uint8Array, json: boolean, checks: bigint): Answered {
  try {
    const input = exports.rollplan_input(name.length + request.length) >>> 0;
    // The buffer is another one whenever the memory has grown.
    const bytes = new Uint8Array(exports.memory.buffer, input, name.length + request.length);
    bytes.set(name);
    bytes.set(request, name.length);
    const code = exports.rollplan_call(name.length, json ? 1 : 0, checks);
    const output = exports.rollplan_output() >>> 0;
    // A copy: the next call overwrites it.
    return { code, bytes: new Uint8Array(exports.memory.buffer, output, exports.rollplan_output_length()).slice() };
  } catch (error) {
    throw new Trap(`the planner has ended unexpectedly: ${String(error)}`, { cause: error });
  }
}
