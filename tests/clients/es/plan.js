// Plans with connect-es and protobuf-es: over Connect with both codecs and both HTTP versions, and over gRPC.
//
//     node plan.js URL DESCRIPTORS < request.json
//
// Prints a line of JSON for each combination: its name, the answer, and the code and details of the error for an empty
// request.
import { readFileSync } from "node:fs";
import { createFileRegistry, fromBinary, fromJson, toJson } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";

const [baseUrl, descriptors] = process.argv.slice(2);
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
const service = registry.getService("rollplan.v1.RolloutPlanner");
const { input, output } = service.method.planRollout;
const request = fromJson(input, JSON.parse(readFileSync(0, "utf8")));

const transports = {
  "connect-es, JSON, HTTP/1.1": createConnectTransport({ baseUrl, httpVersion: "1.1" }),
  "connect-es, JSON, HTTP/2": createConnectTransport({ baseUrl, httpVersion: "2" }),
  "connect-es, protobuf, HTTP/1.1": createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: true }),
  "connect-es, protobuf, HTTP/2": createConnectTransport({ baseUrl, httpVersion: "2", useBinaryFormat: true }),
  "connect-es, gRPC": createGrpcTransport({ baseUrl }),
};
for (const [name, transport] of Object.entries(transports)) {
  const client = createClient(service, transport);
  const answer = await client.planRollout(request, { timeoutMs: 30_000 });
  const refused = await client.planRollout({}).then(
    () => null,
    (error) => ConnectError.from(error),
  );
  console.log(
    JSON.stringify({
      name,
      answer: toJson(output, answer),
      error: { code: Code[refused?.code], details: refused?.details.map((it) => it.type) },
    }),
  );
}
// Open HTTP/2 connections would keep the process running.
process.exit(0);
