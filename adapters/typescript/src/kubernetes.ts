/** Calls to the Kubernetes API that keep the text of objects. The official client only provides the credentials. */

import http from "node:http";
import https from "node:https";

import type { KubeConfig } from "@kubernetes/client-node";

import { causeOf } from "./cause.js";
import { ApiError, CancelledError } from "./errors.js";
import {
  keyText,
  parseEvent,
  parseList,
  parseObject,
  pathOf,
  type Key,
  type Kind,
  type KubeObject,
  type Page,
  type WatchEvent,
} from "./objects.js";

// The API server ends a request after a minute.
const REQUEST_TIMEOUT_MS = 60_000;
// The maximum delay of the end of a watch.
const WATCH_GRACE_MS = 30_000;
// The number of objects in a page of a list.
const PAGE = 500;
const SOCKETS_MAX = 64;
const LINE_FEED = 0x0a;
// What the official client uses if there is neither a kubeconfig nor a service account.
const DEFAULT_CONTEXT = "loaded-context";
const DEFAULT_SERVER = "http://localhost:8080";

/** Where an answer is from, and why there is none. */
export interface AnswerOrigin {
  readonly server?: string;
  readonly error?: string;
}

/** An answer of the API server. The code is 0 if there was none. */
export class Answer {
  readonly code: number;
  readonly body: Uint8Array;
  readonly #origin: AnswerOrigin;

  constructor(code: number, body: Uint8Array = new Uint8Array(), origin: AnswerOrigin = {}) {
    this.code = code;
    this.body = body;
    this.#origin = origin;
  }

  get ok(): boolean {
    return this.code >= 200 && this.code < 300;
  }

  get text(): string {
    return new TextDecoder().decode(this.body);
  }

  /** The Status in the body; an empty one if there is none. */
  get status(): Status {
    try {
      const parsed = JSON.parse(this.text) as unknown;
      return typeof parsed === "object" && parsed !== null ? parsed : {};
    } catch {
      return {};
    }
  }

  /** The message of the API server, or the address with what was received instead of one. */
  get message(): string {
    if (this.status.message) return this.status.message;
    const { server, error } = this.#origin;
    const text = error ?? this.text.slice(0, 200);
    return server && text ? `${server}: ${text}` : text;
  }
}

/** The part of a Status of Kubernetes that is read. */
export interface Status {
  readonly kind?: string;
  readonly message?: string;
  readonly reason?: string;
  readonly details?: { readonly causes?: { readonly reason?: string }[] | null } | null;
}

/** One request to the API server. */
export interface ApiRequest {
  readonly method: string;
  readonly path: string;
  readonly query?: string;
  readonly contentType?: string;
  readonly body?: string;
  /** When to give up. By default after the minute in which the API server ends a request. */
  readonly timeoutMs?: number;
}

/** How requests are made. */
export interface ApiOptions {
  readonly userAgent?: string;
}

/** The address of the API server, and the authentication of requests. */
export interface Connection {
  readonly server: string;
  /** Sets headers, certificates and perhaps the agent of a request. Called for each: a token may have been renewed. */
  authenticate?(options: https.RequestOptions): Promise<void>;
}

/** The limits of a list. */
export interface ListOptions {
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What to watch, from which resourceVersion, and for how long. */
export interface WatchOptions extends ListOptions {
  readonly version: string;
  readonly seconds: number;
}

/** An API server. */
export class Api {
  readonly #connection: Connection;
  readonly #server: string;
  readonly #userAgent: string;
  readonly #client: typeof http | typeof https;
  readonly #agent: http.Agent;
  // Each watch has its own connection, so that the connections for requests do not run out.
  readonly #watchAgent: http.Agent;

  constructor(connection: Connection, options: ApiOptions = {}) {
    this.#connection = connection;
    this.#server = connection.server.replace(/\/+$/, "");
    this.#userAgent = options.userAgent ?? "rollplan-typescript";
    this.#client = connection.server.startsWith("https:") ? https : http;
    this.#agent = new this.#client.Agent({ keepAlive: true, maxSockets: SOCKETS_MAX });
    this.#watchAgent = new this.#client.Agent();
  }

  /**
   * The cluster of a kubeconfig, or of KUBECONFIG or ~/.kube/config; inside a cluster without one, that cluster.
   *
   * @throws ApiError if there is none, or if it cannot be read.
   */
  static async fromConfig(kubeconfig?: string, options: ApiOptions = {}): Promise<Api> {
    const config = await newKubeConfig();
    // The variable may be set, but empty.
    const file = [kubeconfig, process.env.KUBECONFIG, "~/.kube/config"].find(Boolean);
    const what = `read the kubeconfig ${file}`;
    try {
      if (kubeconfig === undefined) config.loadFromDefault();
      else config.loadFromFile(kubeconfig);
    } catch (error) {
      throw new ApiError(what, 0, error instanceof Error ? error.message : String(error));
    }
    const cluster = config.getCurrentCluster();
    if (!cluster) throw new ApiError(what, 0, "no current cluster");
    if (config.currentContext === DEFAULT_CONTEXT && cluster.server === DEFAULT_SERVER) {
      const found = "KUBECONFIG is not set, ~/.kube/config does not exist, and this is not a pod of a cluster";
      throw new ApiError("find a cluster", 0, found);
    }
    if (cluster.server.startsWith("http:")) {
      // The client refuses HTTP, as "kubectl proxy" speaks it, unless certificates are not to be verified. There are none.
      config.clusters = config.clusters.map((it) => (it.name === cluster.name ? { ...it, skipTLSVerify: true } : it));
    }
    const authenticate = async (request: https.RequestOptions): Promise<void> => {
      const { agent } = request;
      await config.applyToHTTPSOptions(request);
      // Its agents do not keep connections. A proxy needs one of them.
      if (!cluster.proxyUrl) request.agent = agent;
    };
    return new Api({ server: cluster.server, authenticate }, options);
  }

  /**
   * Makes a request once. The caller decides whether to repeat it. Without an answer, the code is 0.
   *
   * @throws CancelledError when it was cancelled: then its outcome is unknown.
   */
  async request(request: ApiRequest, signal?: AbortSignal): Promise<Answer> {
    if (signal?.aborted) throw new CancelledError();
    try {
      const response = await this.#send(request, this.#agent, request.timeoutMs ?? REQUEST_TIMEOUT_MS, signal);
      return await this.#readAll(response);
    } catch (error) {
      if (signal?.aborted) throw new CancelledError();
      return this.#noAnswer(error);
    }
  }

  /** Reads an object. Undefined if it does not exist. */
  async get(kind: Kind, key: Key, signal?: AbortSignal): Promise<KubeObject | undefined> {
    const what = `read ${kind.kind} ${keyText(key)}`;
    const answer = await this.request({ method: "GET", path: pathOf(kind, key.namespace, key.name) }, signal);
    if (answer.code === 404 && answer.status.kind === "Status") return undefined;
    if (!answer.ok) throw new ApiError(what, answer.code, answer.message);
    return readAnswer(what, answer, (text) => parseObject(text, kind));
  }

  /** Reads all objects of a kind. */
  async list(kind: Kind, options: ListOptions = {}): Promise<KubeObject[]> {
    return (await this.listPage(kind, options)).objects;
  }

  /** Reads all objects of a kind, and the resourceVersion of the list, from which a watch can start. */
  async listPage(kind: Kind, options: ListOptions = {}): Promise<Page> {
    const what = `list ${kind.plural}`;
    const { namespace, labelSelector, fieldSelector, signal } = options;
    const objects: KubeObject[] = [];
    let next = "";
    for (;;) {
      const query = queryOf({ limit: String(PAGE), labelSelector, fieldSelector, continue: next });
      const answer = await this.request({ method: "GET", path: pathOf(kind, namespace), query }, signal);
      if (!answer.ok) throw new ApiError(what, answer.code, answer.message);
      const page = readAnswer(what, answer, (text) => parseList(text, kind));
      objects.push(...page.objects);
      next = page.next;
      if (!next) return { ...page, objects };
    }
  }

  /**
   * Follows a watch, which the API server ends after a time. The objects must then be listed again.
   *
   * @throws ApiError if it does not start, or ends with an error.
   */
  async *watch(kind: Kind, options: WatchOptions): AsyncGenerator<WatchEvent> {
    const what = `watch ${kind.plural}`;
    const query = queryOf({
      watch: "true",
      resourceVersion: options.version,
      labelSelector: options.labelSelector,
      timeoutSeconds: String(options.seconds),
    });
    const request = { method: "GET", path: pathOf(kind, options.namespace), query };
    let response: http.IncomingMessage;
    try {
      response = await this.#send(request, this.#watchAgent, options.seconds * 1000 + WATCH_GRACE_MS, options.signal);
    } catch (error) {
      if (options.signal?.aborted) throw new CancelledError();
      throw new ApiError(what, 0, this.#noAnswer(error).message);
    }
    if (response.statusCode !== 200) {
      const answer = await this.#readAll(response).catch(() => new Answer(response.statusCode ?? 0));
      throw new ApiError(what, answer.code, answer.message);
    }
    for await (const line of linesOf(response)) yield readAnswer(what, new Answer(200, line), (text) => parseEvent(text, kind));
  }

  /** The objects with these controllers. Undefined stands for objects without a controller. */
  async controlledBy(
    kind: Kind,
    namespace: string,
    uids: ReadonlySet<string | undefined>,
    signal?: AbortSignal,
  ): Promise<KubeObject[]> {
    return (await this.list(kind, { namespace, signal })).filter((it) => uids.has(it.controller?.uid));
  }

  /** Closes the connections. */
  close(): void {
    this.#agent.destroy();
    this.#watchAgent.destroy();
  }

  #noAnswer(error: unknown): Answer {
    return new Answer(0, undefined, { server: this.#server, error: causeOf(error, this.#server) });
  }

  async #readAll(response: http.IncomingMessage): Promise<Answer> {
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    return new Answer(response.statusCode ?? 0, Buffer.concat(chunks), { server: this.#server });
  }

  /** Sends a request, and returns when the head of the answer has arrived. */
  async #send(
    request: ApiRequest,
    agent: http.Agent,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<http.IncomingMessage> {
    const body = Buffer.from(request.body ?? "");
    const options: https.RequestOptions = {
      method: request.method,
      headers: {
        Accept: "application/json",
        "User-Agent": this.#userAgent,
        // Node.js does not frame the body of a DELETE itself.
        "Content-Length": body.length,
        ...(request.contentType && { "Content-Type": request.contentType }),
      },
      agent,
      ...(signal && { signal }),
    };
    await this.#connection.authenticate?.(options);
    const url = this.#server + request.path + (request.query ? `?${request.query}` : "");
    return new Promise((resolve, reject) => {
      const sent = this.#client.request(url, options, resolve);
      const timer = setTimeout(() => sent.destroy(new Error("no answer within the deadline")), timeoutMs);
      sent.on("close", () => {
        clearTimeout(timer);
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }
}

/** Loads the official client on demand: it takes longer than everything else, and only credentials need it. */
async function newKubeConfig(): Promise<KubeConfig> {
  try {
    return new (await import("@kubernetes/client-node")).KubeConfig();
  } catch (error) {
    throw new Error("kubeconfigs require one more package: npm install @kubernetes/client-node", { cause: error });
  }
}

/** The lines of an answer. Ends without an error when the connection ends. */
async function* linesOf(response: http.IncomingMessage): AsyncGenerator<Buffer> {
  let rest: Buffer[] = [];
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      let start = 0;
      for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
        const line = Buffer.concat([...rest, chunk.subarray(start, end)]);
        rest = [];
        start = end + 1;
        if (line.length > 0) yield line;
      }
      rest.push(chunk.subarray(start));
    }
  } catch {
    return;
  }
}

/**
 * Reads a body.
 *
 * @throws ApiError if it is unexpected, for example the error page of a proxy.
 */
export function readAnswer<T>(what: string, answer: Answer, read: (text: string) => T): T {
  try {
    return read(answer.text);
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError(what, answer.code, error instanceof Error ? error.message : String(error));
  }
}

function queryOf(parameters: Record<string, string | undefined>): string {
  return Object.entries(parameters)
    .filter(([, value]) => value)
    .map(([name, value]) => `${name}=${encodeURIComponent(value ?? "")}`)
    .join("&");
}
