/** The endpoints: /metrics, and the probes /healthz and /readyz. */

import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import type { Log } from "./log.js";

/** Host and port to listen on. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** The response of a path: a text, or an error for the caller. */
export interface Page {
  readonly type?: string;
  readonly read: () => Promise<string>;
}

/** A running server. */
export class Endpoint {
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Serves pages by path. */
  static async listen({ host, port }: Address, pages: Readonly<Record<string, Page>>): Promise<Endpoint> {
    const server = createServer((request, response) => {
      const path = new URL(request.url ?? "/", "http://localhost").pathname;
      void respond(response, Object.hasOwn(pages, path) ? pages[path] : undefined);
    });
    server.listen(port, host || undefined);
    await once(server, "listening");
    return new Endpoint(server);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

async function respond(response: ServerResponse, page: Page | undefined): Promise<void> {
  const type = page?.type ?? "text/plain; charset=utf-8";
  try {
    const [code, text] = page ? [200, await page.read()] : [404, "not found"];
    response.writeHead(code, { "Content-Type": type }).end(text);
  } catch (error) {
    response.writeHead(500, { "Content-Type": "text/plain; charset=utf-8" }).end(String(error));
  }
}

/** The probes. Readiness fails while the service is unreachable. Each change of it is logged, with the reason. */
export function probes(check: () => Promise<void>, log: Log): Record<string, Page> {
  const ok = "ok";
  let reported: string | undefined;
  const report = (reason: string): void => {
    if (reason === reported) return;
    reported = reason;
    if (reason) log.warn(`not ready: the service does not answer: ${reason}`);
    else log.info("ready");
  };
  const ready = async (): Promise<string> => {
    try {
      await check();
    } catch (error) {
      report(error instanceof Error ? error.message : String(error));
      throw error;
    }
    report("");
    return ok;
  };
  return { "/healthz": { read: () => Promise.resolve(ok) }, "/readyz": { read: ready } };
}
