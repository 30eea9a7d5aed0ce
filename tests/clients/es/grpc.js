// Plans with grpc-js and proto-loader.
//
//     node grpc.js ADDRESS PROTO_DIRECTORY NOW < objects.json
//
// Prints a line of JSON: the name of the client, the answer in base64, and the code and details of the error for an empty
// request.
import { readFileSync } from "node:fs";
import { credentials, loadPackageDefinition, status } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const [address, directory, now] = process.argv.slice(2);
const definition = loadSync("rollplan/v1/service.proto", { includeDirs: [directory], longs: String, enums: String });
const { RolloutPlanner } = loadPackageDefinition(definition).rollplan.v1;
const client = new RolloutPlanner(address, credentials.createInsecure());
const call = (request) =>
  new Promise((resolve) => {
    client.planRollout(request, { deadline: Date.now() + 30_000 }, (error, answer) => resolve({ error, answer }));
  });

const snapshot = {
  now: { seconds: Date.parse(now) / 1000 },
  objects: [readFileSync(0, "utf8")],
  replicaSetsComplete: true,
  podsComplete: true,
};
const { error, answer } = await call({ snapshot, options: { report: true } });
if (error) throw error;
const { error: refused } = await call({});
// An encoded google.rpc.Status contains the type names of its details as plain text.
const details = refused.metadata.get("grpc-status-details-bin")[0].toString("latin1");
const names = ["google.rpc.ErrorInfo", "google.rpc.BadRequest"];
const code = status[refused.code].toLowerCase().replace(/(?:^|_)(.)/g, (_, letter) => letter.toUpperCase());
console.log(
  JSON.stringify({
    name: "grpc-js with proto-loader",
    answer: RolloutPlanner.service.PlanRollout.responseSerialize(answer).toString("base64"),
    error: { code, details: names.filter((name) => details.includes(`type.googleapis.com/${name}`)) },
  }),
);
client.close();
