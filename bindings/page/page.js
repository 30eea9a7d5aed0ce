// Reads what kubectl printed, asks the planner, and shows its answers. `Engine` is that of adapters/typescript/src/wasm.ts.

const $ = (id) => document.getElementById(id);
// Some 20 seconds of work, as in the library.
const CHECKS = 100_000_000n;
const COUNTS = ["desired", "updated", "ready", "available", "terminating", "total"];
const KINDS = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"];
// The files that the planner may be given; larger ones are refused before they are read.
const BYTES_MAX = 16 << 20;

/** An element with children, which are elements or text: text of a cluster is never parsed as HTML. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Base 85 of RFC 1924, with a comma for "<". It is a sixteenth shorter than base 64.
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";

function decoded(text) {
  const values = new Uint8Array(128);
  [...DIGITS].forEach((digit, value) => (values[digit.charCodeAt(0)] = value));
  const bytes = new DataView(new ArrayBuffer((text.length / 5) * 4));
  for (let at = 0; at < text.length; at += 5) {
    let word = 0;
    for (let i = at; i < at + 5; i++) word = word * 85 + values[text.charCodeAt(i)];
    bytes.setUint32((at / 5) * 4, word);
  }
  return bytes;
}

async function unpacked() {
  // Trailing bytes that only complete a group would be an error of the decompression.
  const packed = decoded($("data").textContent).buffer.slice(0, Number($("data").dataset.bytes));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = await new Response(stream).arrayBuffer();
  // The number of bytes of the module, the module, and the samples.
  const size = new DataView(data).getUint32(0, true);
  const samples = JSON.parse(new TextDecoder().decode(data.slice(4 + size)));
  return { engine: new Engine(await WebAssembly.compile(data.slice(4, 4 + size))), samples };
}

const planner = unpacked();

/** Calls the planner. Throws Error with its message. */
async function call(method, request) {
  const { engine } = await planner;
  const bytes = new TextEncoder().encode(typeof request === "string" ? request : JSON.stringify(request));
  const answered = engine.call(method, bytes, { json: true, checks: CHECKS });
  const answer = JSON.parse(new TextDecoder().decode(answered.bytes));
  if (answer.error) throw new Error(answer.error.message);
  return answer;
}

// What was read: the texts for the planner, and the workloads in them.
let state;
// Answers for an earlier choice are dropped.
let shown = 0;

/** Announces a text. One that the result repeats is only for screen readers. */
function say(text, kind = "") {
  $("message").textContent = text;
  $("message").className = kind;
}

async function read(text, now) {
  $("result").hidden = $("choices").hidden = true;
  state = undefined;
  say("Reading…");
  // The message is visible before the work starts.
  await new Promise((resolve) => setTimeout(resolve, 20));
  try {
    if (text.length > BYTES_MAX) throw new Error("The text has more than 16 MiB: print only one namespace.");
    const objects = await call("Objects", text);
    const found = objects.flatMap((it) => itemsOf(JSON.parse(it)));
    const targets = KINDS.flatMap((kind) => found.filter((it) => it?.kind === kind && !isOwned(it)));
    if (targets.length === 0) throw new Error("There is no Deployment, StatefulSet, DaemonSet, ReplicaSet or Job in this text.");
    state = { objects, targets };
    const names = targets.map((it) => new Option(nameOf(it)));
    $("target").replaceChildren(...names);
    $("now").value = now.toISOString().slice(0, 19);
    $("choices").hidden = false;
    await show();
  } catch (error) {
    say(error.message, "error");
  }
}

const itemsOf = (it) => (Array.isArray(it) ? it : Array.isArray(it?.items) ? it.items : [it]);
const isOwned = (it) => it.metadata?.ownerReferences?.some((owner) => owner.controller) ?? false;
const nameOf = ({ kind, metadata }) => `${kind} ${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;

/** The chosen object, and the snapshot about it. */
function chosen() {
  const object = state.targets[$("target").selectedIndex];
  const { kind, apiVersion, metadata } = object;
  const target = { kind, apiVersion, namespace: metadata?.namespace, name: metadata?.name };
  const snapshot = { now: `${$("now").value.padEnd(19, ":00").slice(0, 19)}Z`, objects: state.objects, target };
  return { object, snapshot };
}

async function show() {
  const turn = ++shown;
  const { object, snapshot } = chosen();
  try {
    const status = await call("Show ComputeStatus", { snapshot });
    if (turn !== shown) return;
    showStatus(status);
    const isDeployment = object.kind === "Deployment";
    $("plan-section").hidden = $("forecast-section").hidden = !isDeployment;
    if (isDeployment) showPlan(await call("Show PlanRollout", { snapshot, options: { report: true } }));
    const hasHistory = isDeployment || ["StatefulSet", "DaemonSet"].includes(object.kind);
    await optional("history-section", hasHistory, async () =>
      showHistory(await call("Show ListRevisions", { snapshot })));
    showChange(object);
    $("result").hidden = false;
    say(`${status.subject}: ${status.response.report?.message ?? ""}`, "repeated");
  } catch (error) {
    say(error.message, "error");
  }
}

/** Shows a section, unless the objects do not allow it. */
async function optional(id, isPossible, fill) {
  $(id).hidden = !isPossible;
  if (!isPossible) return;
  try {
    await fill();
  } catch {
    $(id).hidden = true;
  }
}

function showStatus({ response, text }) {
  const { report = {} } = response;
  const { verdict = {}, blockers = [] } = report;
  const outlook = (verdict.outlook ?? "").replace("OUTLOOK_", "");
  const phase = (report.phase ?? "").replace("PHASE_", "");
  const isGood = phase === "COMPLETE";
  $("verdict").className = isGood ? "good" : outlook === "NEEDS_CHANGE" ? "bad" : "";
  const title = isGood ? "Complete" : outlook === "NEEDS_CHANGE" ? `Needs a change${verdict.certain ? "" : ", probably"}` : words(phase);
  // The first blocker follows below.
  const message = (report.message ?? "").replace(`: ${blockers[0]?.message}`, "");
  $("verdict").replaceChildren(element("strong", {}, title), element("p", {}, message));
  // Usually the message of the report ends with that of the verdict, and the remedy is that of a blocker.
  if (verdict.message && !report.message?.includes(verdict.message)) $("verdict").append(element("p", {}, verdict.message));
  if (verdict.remedy && !blockers.some((it) => it.remedy === verdict.remedy)) $("verdict").append(element("p", {}, verdict.remedy));
  // JSON has no zeros.
  const counts = report.counts ? COUNTS.map((name) => [name, report.counts[name] ?? 0]) : [];
  $("counts").replaceChildren(...counts.map(([name, value]) => element("div", {}, element("dt", {}, spaced(name)), element("dd", {}, String(value)))));
  const { minAvailable, maxTotal } = report.counts ?? {};
  $("limits").textContent = maxTotal ? `Limits: at least ${minAvailable ?? 0} available, at most ${maxTotal} in total.` : "";
  $("blockers").replaceChildren(...blockers.map(({ reason, message, remedy }) => {
    const parts = [element("h3", {}, words((reason ?? "").replace("BLOCKER_REASON_", ""))), element("p", {}, message ?? "")];
    if (remedy) parts.push(element("p", {}, element("strong", {}, "Remedy: "), remedy));
    return element("article", {}, ...parts);
  }));
  $("status-text").textContent = text;
}

/** "NEW_PODS" as "New pods". */
function words(name) {
  const text = name.toLowerCase().replaceAll("_", " ");
  return text && text[0].toUpperCase() + text.slice(1);
}

/** "newAvailable" as "new available". */
const spaced = (name) => name.replace(/[A-Z]/g, (it) => ` ${it.toLowerCase()}`);

function showPlan({ response }) {
  const steps = response.steps ?? [];
  const items = steps.map(({ summary, call: made }) => {
    if (!made) return element("li", {}, summary ?? "");
    const line = `${(made.verb ?? "").replace("VERB_", "")} ${made.path ?? ""}`;
    const call = element("pre", { tabindex: "0" }, `${line}\n${made.bodyJson ?? ""}`);
    return element("li", {}, element("details", {}, element("summary", {}, summary ?? ""), call));
  });
  $("steps").replaceChildren(...items);
  $("no-steps").hidden = items.length > 0;
  $("steps-hint").hidden = items.length === 0;
}

function showHistory({ response }) {
  const revisions = response.revisions ?? [];
  $("causes").hidden = !revisions.some((it) => it.changeCause);
  $("revisions").replaceChildren(...revisions.map((it) =>
    element("tr", {},
      element("td", {}, `${it.revision ?? ""}${it.current ? "\u00a0(current)" : ""}`),
      element("td", {}, element("code", {}, (it.images ?? []).join(" "))),
      element("td", { class: "n" }, String(it.replicas ?? 0)),
      ...($("causes").hidden ? [] : [element("td", {}, it.changeCause ?? "")])),
  ));
  const earlier = revisions.filter((it) => !it.current && it.revision).map((it) => new Option(`revision ${it.revision}`, it.revision));
  $("undo").replaceChildren(new Option("no revision", ""), ...earlier);
}

function showChange({ spec }) {
  $("replicas").value = spec?.replicas ?? "";
  const containers = spec?.template?.spec?.containers ?? [];
  $("container").replaceChildren(...containers.map(({ name }) => new Option(name)));
  $("image").value = containers[0]?.image ?? "";
  $("forecast").replaceChildren();
}

/** The changes in the form. */
function changes(object) {
  const made = [];
  const replicas = $("replicas").value;
  if (replicas !== "" && Number(replicas) !== (object.spec?.replicas ?? 1)) made.push({ replicas: Number(replicas) });
  const changed = structuredClone(object);
  const container = changed.spec?.template?.spec?.containers?.[$("container").selectedIndex];
  if (container && $("image").value && container.image !== $("image").value) {
    container.image = $("image").value;
    made.push({ deployment: JSON.stringify(changed) });
  }
  if ($("undo").value) made.push({ undoToRevision: $("undo").value });
  return made;
}

async function showForecast(event) {
  event.preventDefault();
  const { object, snapshot } = chosen();
  try {
    const { text, picture, title } = await call("Show ForecastRollout", { snapshot, changes: changes(object), seed: "1" });
    // The policy does not permit the style in the picture, but a sheet of the page.
    const style = /<style>([^<]*)<\/style>/.exec(picture);
    const svg = document.importNode(new DOMParser().parseFromString(picture.replace(style[0], ""), "image/svg+xml").documentElement, true);
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style[1]);
    document.adoptedStyleSheets = [sheet];
    $("forecast").replaceChildren(
      element("h3", {}, title),
      element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "The rollout over time" }, svg),
      element("details", { open: "" }, element("summary", {}, "In words"), element("pre", { tabindex: "0" }, text)),
    );
  } catch (error) {
    $("forecast").replaceChildren(element("p", {}, error.message));
  }
}

async function readFile(file) {
  if (!file) return;
  if (file.size > BYTES_MAX) return say(`${file.name} has more than 16 MiB: print only one namespace.`, "error");
  await read(await file.text(), new Date(file.lastModified));
}

$("read").addEventListener("click", () => read($("text").value, new Date()));
$("file").addEventListener("change", () => readFile($("file").files[0]));
$("sample").addEventListener("change", async () => {
  const { samples } = await planner;
  const sample = samples[$("sample").value];
  if (sample) await read(sample.text, new Date(sample.now));
});
$("target").addEventListener("change", show);
$("now").addEventListener("change", () => $("now").value && show());
$("container").addEventListener("change", () => {
  $("image").value = chosen().object.spec.template.spec.containers[$("container").selectedIndex]?.image ?? "";
});
$("change").addEventListener("submit", showForecast);
for (const name of ["dragenter", "dragover"]) {
  addEventListener(name, (event) => {
    event.preventDefault();
    document.body.classList.add("dragging");
  });
}
addEventListener("dragleave", (event) => event.relatedTarget === null && document.body.classList.remove("dragging"));
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dragging");
  const file = event.dataTransfer.files[0];
  return file ? readFile(file) : read(event.dataTransfer.getData("text"), new Date());
});
planner.then(
  ({ samples }) => $("sample").append(...Object.keys(samples).map((it) => new Option(it.replaceAll("-", " "), it))),
  (error) => say(`This browser cannot run the planner: ${error.message}`, "error"),
);
