"""Writes docs/contract: the contract as a descriptor set, as JSON Schema and as OpenAPI.

    python3 tests/tools/contract.py SCHEMAS DESCRIPTORS OUT

SCHEMAS has what protoc-gen-jsonschema makes of each message, DESCRIPTORS the descriptors in JSON, both of one contract.
Only names and layout are changed: the schemas become one document, and the methods of the service become its paths.
"""

import json
import sys
from pathlib import Path
from typing import Any

SUFFIX = ".jsonschema.strict.json"
SERVICE = "RolloutPlanner"
CODES = (
    "canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied resource_exhausted "
    "failed_precondition aborted out_of_range unimplemented internal unavailable data_loss unauthenticated"
)
ERROR = {
    "type": "object",
    "description": "An error of the Connect protocol. docs/api.md lists the reasons, with their codes and HTTP statuses.",
    "required": ["code"],
    "properties": {
        "code": {"type": "string", "enum": CODES.split()},
        "message": {"type": "string"},
        "details": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "value"],
                "properties": {
                    "type": {"type": "string", "description": "Full name of the message, such as google.rpc.ErrorInfo."},
                    "value": {"type": "string", "description": "The message, in base64 without padding."},
                    "debug": {"description": "The message in JSON, for people."},
                },
            },
        },
    },
}


def adapted(value: Any, prefix: str) -> Any:
    """With references into one document. Unknown fields are ignored, so schemas must not forbid them."""
    if isinstance(value, list):
        return [adapted(it, prefix) for it in value]
    if not isinstance(value, dict):
        return value
    changed = {}
    for key, it in value.items():
        if key in ("$id", "$schema") or (key == "additionalProperties" and it is False):
            continue
        if key == "$ref":
            it = prefix + it.removesuffix(SUFFIX)
        elif key == "description" and isinstance(it, str):
            it = " ".join(it.split())
        changed[key] = adapted(it, prefix)
    return changed


def schemas(directory: Path, prefix: str) -> dict[str, Any]:
    files = sorted(directory.glob(f"*{SUFFIX}"))
    if not files:
        sys.exit(f"{directory} has no schemas")
    return {it.name.removesuffix(SUFFIX): adapted(json.loads(it.read_text()), prefix) for it in files}


def methods(descriptors: Path) -> list[tuple[str, str, str, str]]:
    """Name, comment, request and response of each method."""
    found = []
    for file in json.loads(descriptors.read_text())["file"]:
        for i, service in enumerate(file.get("service", [])):
            if service["name"] != SERVICE:
                continue
            comments = {
                tuple(it.get("path", [])): " ".join(it.get("leadingComments", "").split())
                for it in file["sourceCodeInfo"]["location"]
            }
            for j, method in enumerate(service["method"]):
                messages = (method[key].removeprefix(".") for key in ("inputType", "outputType"))
                found.append((method["name"], comments[6, i, 2, j], *messages))
    return found


def reference(schema: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{schema}"}


def content(schema: str) -> dict[str, Any]:
    return {"application/json": {"schema": reference(schema)}}


TIMEOUT = {
    "name": "Connect-Timeout-Ms",
    "in": "header",
    "description": "The call's deadline in milliseconds, up to 10 digits.",
    "schema": {"type": "integer", "minimum": 0},
}


def operation(method: tuple[str, str, str, str]) -> dict[str, Any]:
    name, comment, request, response = method
    return {
        "operationId": name,
        "summary": comment,
        "parameters": [TIMEOUT],
        "requestBody": {"required": True, "content": content(request)},
        "responses": {
            "200": {"description": "The answer.", "content": content(response)},
            "default": {"description": "An error.", "content": content("connect.error")},
        },
    }


# The calls for people: path, method that answers, name and summary.
ENDPOINTS = (
    ("/v1/status", "ComputeStatus", "Status", "ComputeStatus for what kubectl prints."),
    ("/v1/plan", "PlanRollout", "Plan", "PlanRollout, with the report, for what kubectl prints."),
    ("/v1/history", "ListRevisions", "History", "ListRevisions for what kubectl prints."),
    ("/v1/undo", "Rollback", "Undo", "Rollback for what kubectl prints."),
    ("/v1/restarts", "PlanRestarts", "Restarts", "PlanRestarts for what kubectl prints."),
)
TEXT: dict[str, Any] = {"type": "string"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
# What docs/api.md says of their parameters.
PARAMETERS = (
    ("deployment", TEXT, "Deployment, as NAME or NAMESPACE/NAME. Required if the body has several."),
    ("namespace", TEXT, "Namespace of the Deployment."),
    ("api_version", TEXT, "API version of an object of another kind."),
    ("kind", TEXT, "Kind of that object."),
    ("resource", TEXT, "Plural name of that kind."),
    ("replica_sets_complete", BOOLEAN, "Whether no ReplicaSet is missing. By default, what the objects show."),
    ("pods_complete", BOOLEAN, "Whether no pod is missing. By default, what the objects show."),
    ("now", TIME, "Time of the answer. By default, the clock of the server."),
)
HORIZON: tuple[str, dict[str, Any], str] = (
    "horizon",
    {"type": "string", "enum": ["settled", "pass"], "default": "settled"},
    "How far the plan goes.",
)
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0, "default": 0}
TO_REVISION = ("to_revision", COUNT, "Revision to roll back to. By default, the previous one.")
RESTARTS = (
    ("profile", {"type": "string", "enum": ["rollplan", "xing", "reloader"]}, "Whose annotations are used."),
    ("restart_on", {"type": "string", "enum": ["all", "env"]}, "Which uses need a restart."),
    ("all_workloads", BOOLEAN, "Whether workloads without annotations are restarted, in the profile of rollplan."),
    ("quiet", TEXT, "How long configurations must be unchanged before a restart, for example 30s."),
    ("max_concurrent", COUNT, "Maximum number of concurrent restarts. 0 is unlimited."),
    ("configurations_complete", BOOLEAN, "Whether every ConfigMap and Secret is in the body."),
    ("continue_after", TEXT, "Value of continueAfter in the previous page."),
    ("now", TIME, "Time of the answer. By default, the clock of the server."),
)
ADDED = {"/v1/plan": [HORIZON], "/v1/undo": [TO_REVISION]}


def endpoint(path: str, name: str, summary: str, response: str) -> dict[str, Any]:
    """A call for people, which has the answer of a method and the time that it is about."""
    parameters = RESTARTS if path == "/v1/restarts" else [*PARAMETERS, *ADDED.get(path, [])]
    answer = {"allOf": [reference(response), {"type": "object", "properties": {"now": TIME}}]}
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [
            *({"name": it, "in": "query", "description": text, "schema": schema} for it, schema, text in parameters),
            TIMEOUT,
        ],
        "requestBody": {
            "required": True,
            "description": "An object or a List, as kubectl prints it in JSON or YAML. Any content type is accepted.",
            "content": {"*/*": {"schema": {"type": "object"}}},
        },
        "responses": {
            "200": {
                "description": "The answer, as JSON or as the text that the command line prints.",
                "headers": {"Rollplan-Now": {"description": "Time of the answer.", "schema": TIME}},
                "content": {"application/json": {"schema": answer}, "text/plain": {"schema": TEXT}},
            },
            "default": {
                "description": "An error.",
                "content": {**content("connect.error"), "text/plain": {"schema": TEXT}},
            },
        },
    }


def check_references(value: Any, document: Any) -> None:
    """Ends with an error if a reference leads nowhere."""
    if isinstance(value, list):
        for it in value:
            check_references(it, document)
    elif isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            found = document
            for name in reference.removeprefix("#/").split("/"):
                found = found[name]
        for it in value.values():
            check_references(it, document)


def write(path: Path, document: dict[str, Any]) -> None:
    check_references(document, document)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    directory, descriptors, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rollplan.v1: the messages of the contract in JSON",
        "$defs": schemas(directory, "#/$defs/"),
    }
    write(out / "rollplan.v1.schema.json", schema)
    found = methods(descriptors)
    if not found:
        sys.exit(f"{descriptors} has no {SERVICE}")
    responses = {name: response for name, _, _, response in found}
    components = schemas(directory, "#/components/schemas/")
    components["connect.error"] = ERROR
    openapi = {
        "openapi": "3.1.0",
        "info": {
            "title": "rollplan",
            "version": "v1",
            "description": "The decisions of the Kubernetes Deployment controller, called with Connect and JSON.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:50051"}],
        "paths": {
            **{f"/rollplan.v1.{SERVICE}/{it[0]}": {"post": operation(it)} for it in found},
            **{path: {"post": endpoint(path, name, text, responses[it])} for path, it, name, text in ENDPOINTS},
        },
        "components": {"schemas": components},
    }
    write(out / "rollplan.v1.openapi.json", openapi)


if __name__ == "__main__":
    main()
