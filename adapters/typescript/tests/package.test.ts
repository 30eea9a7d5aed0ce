/** The package in an empty project, and the examples of the README, which run there as they are written. */

import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess, type SpawnOptions } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test, type TestContext } from "node:test";
import { promisify } from "node:util";

import { subset } from "semver";

const HERE = join(import.meta.dirname, "../..");
const ROOT = join(HERE, "../..");
const EXAMPLE = join(ROOT, "examples/mid-rollout.json");
const HOME = "https://rollplan.dev/rollplan";
const PIPELINE = join(ROOT, "examples/pipelines/deploy.mts");
const CONTROLLER = join(HERE, "examples/controller.ts");
// An API server whose pods are ready at once.
const CLUSTER = join(ROOT, "tests/conformance/cluster.py");

const run = promisify(execFile);

/** Starts a program, and returns the first match in its output. It is stopped at the end of the test. */
async function start(context: TestContext, program: string, options: string[], pattern: RegExp): Promise<string> {
  const child: ChildProcess = spawn(program, options, { stdio: ["pipe", "pipe", "pipe"] });
  context.after(async () => {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  });
  assert.ok(child.stdout && child.stderr);
  const found = [child.stdout, child.stderr].map(async (input) => {
    for await (const line of createInterface({ input })) {
      const match = pattern.exec(line)?.[1];
      if (match) {
        input.resume();
        return match;
      }
    }
    throw new Error(`${program} printed nothing like ${pattern.source}`);
  });
  return Promise.any(found);
}

/** A running program, and its log. */
class Program {
  log = "";
  readonly #child: ChildProcess;

  constructor(program: string, args: string[], options: SpawnOptions) {
    this.#child = spawn(program, args, { ...options, stdio: ["ignore", "ignore", "pipe"] });
    this.#child.stderr?.on("data", (chunk: Buffer) => (this.log += chunk.toString()));
  }

  get exitCode(): number | null {
    return this.#child.exitCode;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    this.#child.kill("SIGTERM");
    await once(this.#child, "exit");
  }
}

async function kubeconfig(directory: string, server: string): Promise<string> {
  const file = join(directory, "kubeconfig");
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": "test",
    clusters: [{ name: "test", cluster: { server } }],
    users: [{ name: "test", user: { token: "secret" } }],
    contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
  };
  await writeFile(file, JSON.stringify(config));
  return file;
}

/** The directory of the package as npm packs it. */
let packed: string;

before(async () => {
  packed = await mkdtemp(join(tmpdir(), "rollplan-"));
  await run("npm", ["pack", "--pack-destination", packed], { cwd: HERE });
});

after(() => rm(packed, { recursive: true }));

interface Manifest {
  readonly license: string;
  readonly homepage: string;
  readonly repository: { readonly url: string };
}

test("the tarball has the license, project URLs and no relative links", async () => {
  await run("tar", ["xzf", "rollplan-0.1.0.tgz"], { cwd: packed });
  const read = (name: string): Promise<string> => readFile(join(packed, "package", name), "utf8");
  assert.equal(await read("LICENSE"), await readFile(join(ROOT, "LICENSE"), "utf8"));
  const { license, homepage, repository } = JSON.parse(await read("package.json")) as Manifest;
  assert.deepEqual([license, homepage, repository.url], ["Apache-2.0", HOME, `git+${HOME}`]);
  const links = Array.from((await read("README.md")).matchAll(/\]\(([^)]*)\)/g), (it) => it[1] ?? "");
  assert.ok(links.length > 0);
  assert.deepEqual(links.filter((it) => !it.startsWith(HOME)), []);
});

interface Dependencies {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly engines?: { readonly node?: string };
}

test("the required version of Node.js is one that all dependencies support", async () => {
  const { packages } = JSON.parse(await readFile(join(HERE, "package-lock.json"), "utf8")) as {
    packages: Readonly<Record<string, Dependencies>>;
  };
  const required = (JSON.parse(await readFile(join(HERE, "package.json"), "utf8")) as Dependencies).engines?.node;
  assert.ok(required);
  // As Node.js searches: in the package, then in those around it.
  const find = (from: string, name: string): string | undefined => {
    for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf("node_modules/") - 1))) {
      const path = `${at ? `${at}/` : ""}node_modules/${name}`;
      if (path in packages) return path;
      if (!at) return undefined;
    }
  };
  const visited = new Set([""]);
  for (const path of visited) {
    const { dependencies, peerDependencies, engines } = packages[path] ?? {};
    if (engines?.node) assert.ok(subset(required, engines.node), `${path} requires Node.js ${engines.node}`);
    for (const name of Object.keys({ ...dependencies, ...peerDependencies })) {
      const found = find(path, name);
      if (found) visited.add(found);
    }
  }
  assert.ok(visited.size > 50, "the dependencies of the optional packages are not visited");
});

test("a planner needs only a few packages, and the first example of the README runs without a service", async (context) => {
  const directory = await emptyProject(context);
  await run("npm", [...NPM, join(packed, "rollplan-0.1.0.tgz")], { cwd: directory });
  const lock = JSON.parse(await readFile(join(directory, "node_modules/.package-lock.json"), "utf8")) as {
    packages: Readonly<Record<string, unknown>>;
  };
  const names = Object.keys(lock.packages).map((it) => it.replace("node_modules/", ""));
  assert.deepEqual(names.sort(), ["@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-node", "rollplan"]);
  await copyFile(EXAMPLE, join(directory, "shop.json"));
  await writeFile(join(directory, "first.mjs"), await firstExample());
  const { stdout } = await run(process.execPath, ["first.mjs"], { cwd: directory });
  assert.match(stdout, /^scale .*/);
  const program = 'import { Api, Planner } from "rollplan"; Planner.grpc("http://127.0.0.1:1").close(); await Api.fromConfig();';
  await assert.rejects(
    run(process.execPath, ["--input-type=module", "-e", program], { cwd: directory }),
    /kubeconfigs require one more package: npm install @kubernetes\/client-node/,
  );
});

const NPM = ["install", "--prefer-offline", "--no-audit", "--no-fund"];
const PNPM = join(HERE, "tests/node/node_modules/pnpm/bin/pnpm.mjs");
// With pnpm, a project can import only the packages that it names itself.
const INSTALLERS = {
  npm: ["npm", ...NPM],
  pnpm: [process.execPath, PNPM, "add", "--prefer-offline"],
};

for (const [name, [installer = "", ...options]] of Object.entries(INSTALLERS)) {
  test(`the package installs in an empty project with ${name}, and the examples of the README run as written`, async (context) => {
    const directory = await emptyProject(context);
    const { devDependencies } = JSON.parse(await readFile(join(HERE, "package.json"), "utf8")) as {
      devDependencies: Readonly<Record<string, string>>;
    };
    const client = "@kubernetes/client-node";
    await run(installer, [...options, join(packed, "rollplan-0.1.0.tgz"), `${client}@${devDependencies[client]}`], { cwd: directory });
    await runReadme(context, directory);
  });
}

async function examples(): Promise<string[]> {
  const readme = await readFile(join(HERE, "README.md"), "utf8");
  return Array.from(readme.matchAll(/```ts\n(.*?)```/gs), (it) => it[1] ?? "");
}

async function firstExample(): Promise<string> {
  return (await examples())[0] ?? "";
}

async function emptyProject(context: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "rollplan-"));
  context.after(() => rm(directory, { recursive: true }));
  await writeFile(join(directory, "package.json"), '{"name":"empty","private":true,"type":"module"}');
  return directory;
}

async function runReadme(context: TestContext, directory: string): Promise<void> {
  const binary = process.env.ROLLPLAN_BIN;
  assert.ok(binary, "ROLLPLAN_BIN must be set");

  // The dependencies of the checks must not be installed.
  const installed = await readdir(join(directory, "node_modules"));
  assert.ok(installed.includes("rollplan"));
  assert.deepEqual(installed.filter((it) => it.startsWith("node") || it === "typescript" || it === "eslint"), []);

  const readme = await readFile(join(HERE, "README.md"), "utf8");
  const programs = await examples();
  assert.equal(programs.length, 9);
  const address = await start(context, binary, ["serve", "--listen", "127.0.0.1:0"], /listening on (127\.0\.0\.1:\d+)/);
  const url = await start(context, "python3", [CLUSTER, EXAMPLE], /^(http:.*)/);
  for (const name of ["shop.json", "config.json"]) await copyFile(EXAMPLE, join(directory, name));
  const config = await kubeconfig(directory, url);

  const written = programs.join("\n").replaceAll("127.0.0.1:50051", address);
  await writeFile(join(directory, "example.ts"), written);
  await copyFile(PIPELINE, join(directory, "deploy.mts"));
  await copyFile(CONTROLLER, join(directory, "controller.ts"));
  const compiler = [join(HERE, "node_modules/typescript/bin/tsc"), "--strict", "--target", "es2023", "--module", "nodenext"];
  const types = ["--types", "node", "--typeRoots", join(HERE, "node_modules/@types"), "--skipLibCheck"];
  await run(process.execPath, [...compiler, ...types, "example.ts", "deploy.mts", "controller.ts"], { cwd: directory });

  const environment = { ...process.env, KUBECONFIG: config };
  const command = /^node controller\.ts .*$/m.exec(readme)?.[0].replace("127.0.0.1:50051", address).split(" ").slice(1) ?? [];
  const controller = new Program(process.execPath, command, { cwd: directory, env: environment });
  try {
    // The example may lose a race against the controller, but its calls never break the rollout.
    const { stdout } = await run(process.execPath, ["example.js"], { cwd: directory, env: environment, timeout: 600_000 });
    assert.match(stdout, /^scale .*/);
    assert.match(stdout, /deployment "web" successfully rolled out/);
    assert.match(stdout, /SCALE_ONLY/);
    assert.match(stdout, /^REST no canary is in progress$/m);
    assert.match(stdout, /registry\.example\/web.* → /);
    assert.match(stdout, /^\d calls failed$/m);
    assert.match(stdout, /^(UNDECIDED|NEEDS_CHANGE)$/m);
  } catch (error) {
    console.error(controller.log);
    throw error;
  } finally {
    await controller.stop();
  }
  assert.equal(controller.exitCode, 0, controller.log);
}
