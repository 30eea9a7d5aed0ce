/** Why a connection failed. */

import { Code, ConnectError } from "@connectrpc/connect";

const NOT_TLS = ["ERR_SSL_WRONG_VERSION_NUMBER", "ERR_SSL_PACKET_LENGTH_TOO_LONG"];
// What the clients for HTTP/1.1 report about a server with TLS, if they do not use it.
const NOT_PLAIN = /^(HPE_.*|UND_ERR_SOCKET|ECONNRESET)$/;

/** The error of the system, of TLS or of HTTP that others wrap. */
export function systemError(thrown: unknown): NodeJS.ErrnoException | undefined {
  return chainOf(thrown).find((it: NodeJS.ErrnoException) => typeof it.code === "string" || it.name === "HTTPParserError");
}

/** The cause of the failure of a call to a URL. Libraries wrap it in errors that do not always name it. */
export function causeOf(thrown: unknown, url: string): string {
  const system = systemError(thrown);
  const innermost = system ?? chainOf(thrown).at(-1);
  const text = innermost instanceof ConnectError ? innermost.rawMessage : (innermost?.message ?? String(thrown)).trim();
  if (system?.code === "ERR_HTTP2_ERROR") return `perhaps the server does not support HTTP/2 (${text})`;
  if (url.startsWith("https:")) {
    return NOT_TLS.includes(system?.code ?? "") ? `the server does not use TLS (${system?.code})` : text;
  }
  const isClosed = system?.name === "HTTPParserError" || NOT_PLAIN.test(system?.code ?? "") || isCanceled(thrown);
  return isClosed ? `the connection was closed, perhaps because the server requires TLS (${text})` : text;
}

/** Whether connect-node canceled a call, as it does when the connection is lost. */
export function isCanceled(thrown: unknown): boolean {
  return thrown instanceof ConnectError && thrown.code === Code.Canceled;
}

/** An error and its causes. */
function chainOf(thrown: unknown): Error[] {
  const chain: Error[] = [];
  for (let error = thrown; error instanceof Error && !chain.includes(error); ) {
    // A connection to a name with several addresses fails with an error for each of them.
    const isGroup = error instanceof AggregateError;
    if (!isGroup) chain.push(error);
    error = isGroup ? (error as AggregateError).errors[0] : error.cause;
  }
  return chain;
}
