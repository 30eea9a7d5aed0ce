/** Calls to the Kubernetes API that keep the text of objects. Only the credentials are those of the official client. */

import http from "node:http";
import https from "node:https";

import { ApiError, CancelledError } from "./errors.js";
import { parseList, parseObject, pathOf, REPLICA_SET, type Key, type Kind, type KubeObject } from "./objects.js";

// The API server ends a request after a minute.
const REQUEST_TIMEOUT_MS = 60_000;
// Objects in a page of a list.
const PAGE = 500;
const SOCKETS_MAX = 64;

/** An answer of the API server. Without one, the code is 0. */
export class Answer {
  readonly code: number;
  readonly body: Uint8Array;

  constructor(code: number, body: Uint8Array = new Uint8Array()) {
    this.code = code;
    this.body = body;
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

  get message(): string {
    return this.status.message ?? this.text.slice(0, 200);
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
}

/** Where the API server is, and what authenticates a request to it. */
export interface Connection {
  readonly server: string;
  /** Sets headers, certificates and perhaps the agent of a request. Called for each: a token may have been renewed. */
  authenticate?(options: https.RequestOptions): Promise<void>;
}

/** What a list is limited to. */
export interface ListOptions {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  readonly signal?: AbortSignal | undefined;
}

/** An API server. */
export class Api {
  readonly #connection: Connection;
  readonly #client: typeof http | typeof https;
  readonly #agent: http.Agent;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#client = connection.server.startsWith("https:") ? https : http;
    this.#agent = new this.#client.Agent({ keepAlive: true, maxSockets: SOCKETS_MAX });
  }

  /** The cluster of a kubeconfig, or of KUBECONFIG or ~/.kube/config; inside a cluster without one, that cluster. */
  static async fromConfig(kubeconfig?: string): Promise<Api> {
    // Loaded when it is needed: it takes longer than all of the rest.
    const { KubeConfig } = await import("@kubernetes/client-node");
    const config = new KubeConfig();
    if (kubeconfig === undefined) config.loadFromDefault();
    else config.loadFromFile(kubeconfig);
    const cluster = config.getCurrentCluster();
    if (!cluster) throw new ApiError("read the kubeconfig", 0, "no current cluster");
    if (cluster.server.startsWith("http:")) {
      // The client refuses HTTP, as "kubectl proxy" speaks it, unless certificates are not to be verified. There are none.
      config.clusters = config.clusters.map((it) => (it.name === cluster.name ? { ...it, skipTLSVerify: true } : it));
    }
    return new Api({
      server: cluster.server,
      authenticate: async (options) => {
        const { agent } = options;
        await config.applyToHTTPSOptions(options);
        // Its agents do not keep connections. A proxy needs one of them.
        if (!cluster.proxyUrl) options.agent = agent;
      },
    });
  }

  /**
   * Makes one request, once: whether to repeat it is for the caller to decide. Without an answer, the code is 0.
   *
   * @throws CancelledError when it was cancelled: then its outcome is unknown.
   */
  async request(request: ApiRequest, signal?: AbortSignal): Promise<Answer> {
    if (signal?.aborted) throw new CancelledError();
    const deadline = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const body = Buffer.from(request.body ?? "");
    const options: https.RequestOptions = {
      method: request.method,
      headers: {
        Accept: "application/json",
        "User-Agent": "rollplan-typescript",
        // Node.js does not frame the body of a DELETE by itself.
        "Content-Length": body.length,
        ...(request.contentType && { "Content-Type": request.contentType }),
      },
      agent: this.#agent,
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
    };
    await this.#connection.authenticate?.(options);
    const url = this.#connection.server.replace(/\/+$/, "") + request.path + (request.query ? `?${request.query}` : "");
    try {
      return await this.#send(url, options, body);
    } catch {
      if (signal?.aborted) throw new CancelledError();
      return new Answer(0);
    }
  }

  /** Reads an object. Undefined if it does not exist. */
  async get(kind: Kind, key: Key, signal?: AbortSignal): Promise<KubeObject | undefined> {
    const what = `read ${kind.kind} ${key.namespace}/${key.name}`;
    const answer = await this.request({ method: "GET", path: pathOf(kind, key.namespace, key.name) }, signal);
    if (answer.code === 404 && answer.status.kind === "Status") return undefined;
    if (!answer.ok) throw new ApiError(what, answer.code, answer.message);
    return readAnswer(what, answer, (text) => parseObject(text, kind));
  }

  /** Reads all objects of a kind. */
  async list(kind: Kind, options: ListOptions = {}): Promise<KubeObject[]> {
    const what = `list ${kind.plural}`;
    const objects: KubeObject[] = [];
    let next = "";
    do {
      const query = queryOf({
        limit: String(PAGE),
        labelSelector: options.labelSelector,
        fieldSelector: options.fieldSelector,
        continue: next,
      });
      const answer = await this.request({ method: "GET", path: pathOf(kind, options.namespace), query }, options.signal);
      if (!answer.ok) throw new ApiError(what, answer.code, answer.message);
      const page = readAnswer(what, answer, (text) => parseList(text, kind));
      objects.push(...page.objects);
      next = page.next;
    } while (next);
    return objects;
  }

  /** The objects that these control; undefined stands for those that nobody does. */
  async controlledBy(
    kind: Kind,
    namespace: string,
    uids: ReadonlySet<string | undefined>,
    signal?: AbortSignal,
  ): Promise<KubeObject[]> {
    return (await this.list(kind, { namespace, signal })).filter((it) => uids.has(it.controller?.uid));
  }

  /** The ReplicaSets that the selector of a Deployment matches. */
  async replicaSets(owner: KubeObject, signal?: AbortSignal): Promise<KubeObject[]> {
    if (!owner.selector) return [];
    return this.list(REPLICA_SET, { namespace: owner.key.namespace, labelSelector: owner.selector, signal });
  }

  /** Closes the connections. */
  close(): void {
    this.#agent.destroy();
  }

  #send(url: string, options: https.RequestOptions, body: Uint8Array): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const request = this.#client.request(url, options, (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () => {
          resolve(new Answer(response.statusCode ?? 0, Buffer.concat(chunks)));
        });
      });
      request.on("error", reject);
      request.end(body);
    });
  }
}

/**
 * Reads a body.
 *
 * @throws ApiError if it is not what was expected, for example the page of a proxy.
 */
export function readAnswer<T>(what: string, answer: Answer, read: (text: string) => T): T {
  try {
    return read(answer.text);
  } catch (error) {
    throw new ApiError(what, answer.code, error instanceof Error ? error.message : String(error));
  }
}

function queryOf(parameters: Record<string, string | undefined>): string {
  return Object.entries(parameters)
    .filter(([, value]) => value)
    .map(([name, value]) => `${name}=${encodeURIComponent(value ?? "")}`)
    .join("&");
}
