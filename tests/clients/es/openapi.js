// Calls every operation with a client that @hey-api/openapi-ts generates from the OpenAPI document. The client validates
// requests and answers with zod.
//
//     node openapi.js URL OPENAPI DIRECTORY < calls.json
//
// Each call has the name of its operation, the query, the body, and the answer of the service, which the client must return.
// Generated files are written to DIRECTORY. Node.js runs their TypeScript.
import { deepStrictEqual } from "node:assert";
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { createClient } from "@hey-api/openapi-ts";

const [baseUrl, input, directory] = process.argv.slice(2);
const calls = await json(process.stdin);
const output = join(directory, "es");
await createClient({
  input,
  output: { path: output, importFileExtension: ".ts" },
  logs: { level: "warn" },
  plugins: ["@hey-api/typescript", "@hey-api/client-fetch", "zod", { name: "@hey-api/sdk", validator: true }],
});
// Node.js finds zod here.
symlinkSync(new URL("node_modules", import.meta.url).pathname, join(directory, "node_modules"));
writeFileSync(join(directory, "package.json"), '{"type": "module"}');

const load = (file) => import(pathToFileURL(join(output, file)));
const sdk = await load("sdk.gen.ts");
const { client } = await load("client.gen.ts");
client.setConfig({ baseUrl, throwOnError: true });
for (const { name, query, body, answer } of calls) {
  const call = sdk[name[0].toLowerCase() + name.slice(1)];
  const options = Object.keys(query).length > 0 ? { body, query } : { body };
  const { data } = await call({ ...options, throwOnError: true });
  deepStrictEqual(data, answer, name);
}
console.log(`@hey-api/openapi-ts: the same answers to ${calls.length} calls`);
