"""Checks docs/contract: the service keeps to its OpenAPI and JSON Schema, and generated clients can call it.

    bash tests/run clients

Calls every operation of the OpenAPI document with real requests, and validates requests, answers and errors with both
documents. Then calls every operation with a client that openapi-python-client generates, and with one that
@hey-api/openapi-ts generates for TypeScript (es/openapi.js), which validates requests and answers with zod. Both must return
what the service sends.
"""

import importlib
import json
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jsonschema import Draft202012Validator, FormatChecker
from plan import NOW, ROOT, start

CONTRACT = ROOT / "docs/contract"
OPENAPI = json.loads((CONTRACT / "rollplan.v1.openapi.json").read_text())
SCHEMA = json.loads((CONTRACT / "rollplan.v1.schema.json").read_text())


def example(name: str) -> str:
    return (ROOT / "examples" / name).read_text()


def snapshot(name: str) -> dict[str, Any]:
    return {"now": NOW, "objects": [example(name)], "replicaSetsComplete": True, "podsComplete": True}


CONFIGURED = json.dumps(
    {
        "kind": "List",
        "apiVersion": "v1",
        "items": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "app", "namespace": "shop", "uid": "c", "resourceVersion": "1"},
                "data": {"LEVEL": "debug"},
            },
            *json.loads(example("mid-rollout.json"))["items"],
        ],
    }
)

# Requests of each operation. 64-bit integers are sent in both forms.
REQUESTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("PlanRollout", {}, {"snapshot": snapshot("mid-rollout.json"), "options": {"report": True}}),
    ("PlanRollout", {}, {"snapshot": snapshot("stuck-quota.json"), "options": {"report": True}}),
    ("ComputeStatus", {}, {"snapshot": snapshot("stuck-crash-loop.json")}),
    ("ComputeStatus", {}, {"snapshot": snapshot("stuck-bad-image.json")}),
    ("Rollback", {}, {"snapshot": snapshot("after-undo.json"), "toRevision": "0"}),
    ("Rollback", {}, {"snapshot": snapshot("after-undo.json"), "toRevision": 0}),
    ("ListRevisions", {}, {"snapshot": snapshot("history-cleanup.json")}),
    ("PlanRestarts", {}, {"now": NOW, "objects": [CONFIGURED], "options": {"allWorkloads": True}}),
    ("ForecastRollout", {}, {"snapshot": snapshot("after-undo.json"), "changes": [{"undoToRevision": 0}]}),
    ("ForecastRollout", {}, {"snapshot": snapshot("mid-rollout.json")}),
    ("PlanCanary", {}, {"snapshot": snapshot("after-undo.json"), "policy": {"bake": "120s"}}),
    ("ShowStatus", {"now": NOW}, json.loads(example("stuck-readiness.json"))),
    ("ShowPlan", {"now": NOW, "deployment": "web"}, json.loads(example("mid-rollout.json"))),
    ("ShowHistory", {"now": NOW}, json.loads(example("history-cleanup.json"))),
    ("ShowUndo", {"now": NOW, "to_revision": 0}, json.loads(example("after-undo.json"))),
    ("ShowRestarts", {"now": NOW, "all_workloads": True}, json.loads(CONFIGURED)),
]


def paths() -> dict[str, str]:
    """The paths of the operations by their names."""
    return {path["post"]["operationId"]: name for name, path in OPENAPI["paths"].items()}


def post(url: str, body: Any) -> tuple[int, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def validate(what: str, value: Any, schema: Any, document: dict[str, Any]) -> None:
    # References are resolved in the document.
    validator = Draft202012Validator({**document, **schema}, format_checker=FormatChecker())
    found = [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(value)]
    if found:
        sys.exit("\n".join([f"{what} violates its schema:", *found[:5]]))


def schema_of(part: dict[str, Any]) -> Any:
    return part["content"]["application/json"]["schema"]


def check_message(what: str, value: dict[str, Any], schema: dict[str, Any]) -> None:
    """Validates a message with the document of JSON Schema, in which every field must exist."""
    # The answers of /v1 have the time in addition.
    message = schema.get("allOf", [schema])[0].get("$ref", "").rpartition("/")[2]
    if message in SCHEMA["$defs"]:
        fields = {key: it for key, it in value.items() if key != "now" or "allOf" not in schema}
        validate(what, fields, {"$ref": f"#/$defs/{message}"}, closed(SCHEMA))


def closed(schema: Any) -> Any:
    """A schema that rejects unknown fields of messages."""
    if isinstance(schema, list):
        return [closed(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    more = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {}
    return {key: closed(it) for key, it in schema.items()} | more


def check_documents(address: str) -> list[dict[str, Any]]:
    """Validates requests, answers and errors. Returns the calls with their answers."""
    calls = []
    for name, query, body in REQUESTS:
        path = paths()[name]
        operation = OPENAPI["paths"][path]["post"]
        sent, answered = schema_of(operation["requestBody"]), schema_of(operation["responses"]["200"])
        encoded = urlencode({key: str(value).lower() if value is True else value for key, value in query.items()})
        code, answer = post(f"http://{address}{path}?{encoded}", body)
        if code != 200 or not answer:
            sys.exit(f"{name}: {code}: {answer}")
        for what, value, schema in (("request", body, sent), ("answer", answer, answered)):
            validate(f"{what} of {name}", value, schema, OPENAPI)
            check_message(f"{what} of {name}", value, schema)
        code, error = post(f"http://{address}{path}?unknown=parameter", {})
        if code < 400:
            sys.exit(f"{name}: an invalid request succeeded")
        validate(f"error of {name}", error, schema_of(operation["responses"]["default"]), OPENAPI)
        calls.append({"name": name, "query": query, "body": body, "answer": answer})
    missing = paths().keys() - {name for name, _, _ in REQUESTS}
    if missing:
        sys.exit(f"operations without a request: {missing}")
    return calls


def check_documentation() -> None:
    """Validates the request and the response in docs/reference/api.md."""
    request, response = re.findall(r"```json\n(.*?)```", (ROOT / "docs/reference/api.md").read_text(), re.DOTALL)
    for text, name in ((request, "PlanRolloutRequest"), (response, "PlanRolloutResponse")):
        validate(f"docs/reference/api.md: {name}", json.loads(text), {"$ref": f"#/$defs/rollplan.v1.{name}"}, SCHEMA)


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def check_python(address: str, calls: list[dict[str, Any]], directory: str) -> None:
    command = [str(Path(sys.executable).parent / "openapi-python-client"), "generate", "--meta", "none", "--fail-on-warning"]
    configuration = Path(directory, "configuration.json")
    configuration.write_text('{"post_hooks": []}')
    output = ["--path", str(CONTRACT / "rollplan.v1.openapi.json"), "--output-path", f"{directory}/rollplan_openapi"]
    done = subprocess.run([*command, "--config", str(configuration), *output], text=True, stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"openapi-python-client cannot generate every operation:\n{done.stdout}")
    sys.path.insert(0, directory)
    client = importlib.import_module("rollplan_openapi").Client(base_url=f"http://{address}", timeout=60)
    for call in calls:
        module = importlib.import_module(f"rollplan_openapi.api.default.{snake(call['name'])}")
        model = module.sync_detailed.__annotations__["body"]
        query = {key: datetime.fromisoformat(value) if key == "now" else value for key, value in call["query"].items()}
        # A string if the generated module has deferred annotations.
        model = getattr(module, model) if isinstance(model, str) else model
        answer = module.sync_detailed(client=client, body=model.from_dict(call["body"]), **query)
        if answer.status_code != 200 or json.loads(answer.content) != call["answer"]:
            sys.exit(f"{call['name']} with the Python client: {answer.content[:500]!r}")
        if not equal(answer.parsed.to_dict(), call["answer"]):
            sys.exit(
                f"{call['name']} with the Python client: another answer\n{answer.parsed.to_dict()}\nthan\n{call['answer']}"
            )
    print(f"openapi-python-client: the same answers to {len(calls)} calls")


def equal(one: Any, other: Any) -> bool:
    """Whether two values are equal. Times are equal if they have the same digits: the client writes +00:00 instead of Z."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, str) and isinstance(other, str):
        return one == other or one == other.removesuffix("Z") + "+00:00"
    return bool(one == other)


def check_typescript(address: str, calls: list[dict[str, Any]], directory: str, node: str) -> None:
    sent = json.dumps(calls)
    openapi = str(CONTRACT / "rollplan.v1.openapi.json")
    command = [node, str(ROOT / "tests/clients/es/openapi.js"), f"http://{address}", openapi, directory]
    done = subprocess.run(command, input=sent, text=True, stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"the TypeScript client failed:\n{done.stdout}")
    # The generator reports its progress before.
    print(done.stdout.strip().splitlines()[-1])


def main() -> None:
    binary, node = sys.argv[1:]
    check_documentation()
    server, address = start(binary)
    try:
        calls = check_documents(address)
        print(f"docs/contract: {len(calls)} calls of {len(paths())} operations keep to their schemas")
        with tempfile.TemporaryDirectory() as directory:
            check_python(address, calls, directory)
            check_typescript(address, calls, directory, node)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
