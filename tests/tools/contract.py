"""Writes docs/contract: the contract as JSON Schema and as OpenAPI.

    python3 tests/tools/contract.py DESCRIPTORS OUT

DESCRIPTORS are the descriptors of the contract in JSON, with comments. Schemas follow the rules of protobuf's JSON mapping:
answers omit fields with default values, so no field is required, and contain 64-bit integers as strings; requests may also
contain them as numbers. tests/clients/contract.py validates requests and answers of the service.
"""

import json
import sys
from pathlib import Path
from typing import Any

SERVICE = "RolloutPlanner"
CODES = (
    "canceled unknown invalid_argument deadline_exceeded not_found already_exists permission_denied resource_exhausted "
    "failed_precondition aborted out_of_range unimplemented internal unavailable data_loss unauthenticated"
)
ERROR = {
    "type": "object",
    "description": "An error of the Connect protocol. docs/reference/api.md lists the reasons, with their codes and statuses.",
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


INTEGERS = {
    "TYPE_INT32": (-(2**31), 2**31 - 1),
    "TYPE_UINT32": (0, 2**32 - 1),
}
SCALARS: dict[str, dict[str, Any]] = {
    "TYPE_STRING": {"type": "string"},
    "TYPE_BOOL": {"type": "boolean"},
    "TYPE_DOUBLE": {"type": "number"},
    "TYPE_BYTES": {"type": "string", "contentEncoding": "base64"},
}
INT64 = {"type": "string", "pattern": "^-?[0-9]{1,19}$"}
# The messages of protobuf that have a JSON mapping of their own.
WELL_KNOWN: dict[str, dict[str, Any]] = {
    ".google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    ".google.protobuf.Duration": {
        "type": "string",
        "pattern": r"^-?[0-9]{1,12}(\.[0-9]{1,9})?s$",
        "description": "Seconds, for example 90s or 0.5s.",
    },
}


class Contract:
    """The messages and methods of the contract."""

    def __init__(self, descriptors: Path) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self.enums: dict[str, list[str]] = {}
        self.comments: dict[str, str] = {}
        self.methods: list[tuple[str, str, str, str]] = []
        for file in json.loads(descriptors.read_text())["file"]:
            comments = {
                tuple(it.get("path", [])): " ".join(it["leadingComments"].split())
                for it in file["sourceCodeInfo"]["location"]
                if "leadingComments" in it
            }
            for i, enum in enumerate(file.get("enumType", [])):
                self.enums[f".{file['package']}.{enum['name']}"] = [it["name"] for it in enum["value"]]
            for i, message in enumerate(file.get("messageType", [])):
                name = f".{file['package']}.{message['name']}"
                if name in WELL_KNOWN:
                    continue
                self.messages[name] = message
                self.comments[name] = comments.get((4, i), "")
                for j, field in enumerate(message.get("field", [])):
                    self.comments[f"{name}.{field['name']}"] = comments.get((4, i, 2, j), "")
                for entry in message.get("nestedType", []):
                    self.messages[f"{name}.{entry['name']}"] = entry
            for i, service in enumerate(file.get("service", [])):
                for j, method in enumerate(service["method"]):
                    names = method["inputType"], method["outputType"]
                    self.methods.append((method["name"], comments[6, i, 2, j], *names))
        self.requested = self.reachable({request for _, _, request, _ in self.methods})

    def reachable(self, names: set[str]) -> set[str]:
        """These messages, and those that they contain."""
        found: set[str] = set()
        while names - found:
            name = (names - found).pop()
            found.add(name)
            fields = self.messages[name].get("field", [])
            names |= {it["typeName"] for it in fields if it.get("typeName") in self.messages}
        return found

    def schemas(self, prefix: str) -> dict[str, Any]:
        """The schemas of all messages by name. References begin with the prefix."""
        return {
            name.removeprefix("."): self.schema(name, prefix)
            for name, message in sorted(self.messages.items())
            if not message.get("options", {}).get("mapEntry")
        }

    def schema(self, name: str, prefix: str) -> dict[str, Any]:
        properties = {}
        for field in self.messages[name].get("field", []):
            value = self.value(name, field, prefix)
            entry = self.messages.get(field.get("typeName", ""), {})
            if entry.get("options", {}).get("mapEntry"):
                content = next(it for it in entry["field"] if it["name"] == "value")
                value = {"type": "object", "additionalProperties": self.value(name, content, prefix)}
            elif field["label"] == "LABEL_REPEATED":
                value = {"type": "array", "items": value}
            comment = self.comments[f"{name}.{field['name']}"]
            properties[field["jsonName"]] = {**value, "description": comment} if comment else value
        return {"type": "object", "description": self.comments[name], "properties": properties}

    def value(self, message: str, field: dict[str, Any], prefix: str) -> dict[str, Any]:
        """The schema of a single value of a field."""
        kind, name = field["type"], field.get("typeName", "")
        if kind == "TYPE_ENUM":
            return {"type": "string", "enum": self.enums[name]}
        if kind == "TYPE_MESSAGE":
            return WELL_KNOWN.get(name) or {"$ref": prefix + name.removeprefix(".")}
        if kind in ("TYPE_INT64", "TYPE_UINT64"):
            return {**INT64, "type": ["string", "integer"]} if message in self.requested else INT64
        if kind in INTEGERS:
            minimum, maximum = INTEGERS[kind]
            return {"type": "integer", "minimum": minimum, "maximum": maximum}
        return SCALARS[kind]


def reference(schema: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{schema.removeprefix('.')}"}


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


# The calls for people: path, method that answers, name and summary. `Show` keeps the names apart from those that languages use,
# such as `history`.
ENDPOINTS = (
    ("/v1/status", "ComputeStatus", "ShowStatus", "ComputeStatus for what kubectl prints."),
    ("/v1/plan", "PlanRollout", "ShowPlan", "PlanRollout, with the report, for what kubectl prints."),
    ("/v1/history", "ListRevisions", "ShowHistory", "ListRevisions for what kubectl prints."),
    ("/v1/undo", "Rollback", "ShowUndo", "Rollback for what kubectl prints."),
    ("/v1/restarts", "PlanRestarts", "ShowRestarts", "PlanRestarts for what kubectl prints."),
)
TEXT: dict[str, Any] = {"type": "string"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
# Their parameters, which tests/tools/parameters.py also writes to docs/reference/api.md.
PARAMETERS = (
    ("deployment", TEXT, "Deployment, as NAME or NAMESPACE/NAME. Required if the body has several."),
    ("namespace", TEXT, "Namespace of the Deployment."),
    ("api_version", TEXT, "API version of an object of another kind, for example apps.rollplan.dev/v1alpha1."),
    ("kind", TEXT, "Kind of that object, for example PlannedDeployment. A kind other than Deployment requires api_version."),
    ("resource", TEXT, "Plural name of that kind, for example planneddeployments."),
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
TO_REVISION = ("to_revision", COUNT, "Revision to roll back to, or last-available. By default, the previous one.")
RESTARTS = (
    ("profile", {"type": "string", "enum": ["rollplan", "xing", "reloader"], "default": "rollplan"}, "Whose annotations are used."),
    ("restart_on", {"type": "string", "enum": ["all", "env"], "default": "all"}, "Which uses need a restart."),
    ("all_workloads", BOOLEAN, "Whether workloads without annotations are restarted, in the profile of rollplan."),
    ("quiet", TEXT, "How long configurations must be unchanged before a restart, for example 30s."),
    ("max_concurrent", COUNT, "Maximum number of concurrent restarts. 0, the default, is unlimited."),
    ("configurations_complete", BOOLEAN, "Whether every ConfigMap and Secret is in the body."),
    ("continue_after", TEXT, "Value of continueAfter in the previous response, if the plans did not fit into it."),
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
            "description": "An object or a List, as kubectl prints it in JSON. YAML and any content type are accepted as well.",
            "content": {"application/json": {"schema": {"type": "object"}}},
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
    descriptors, out = map(Path, sys.argv[1:])
    contract = Contract(descriptors)
    out.mkdir(parents=True, exist_ok=True)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rollplan.v1: the messages of the contract in JSON",
        "$defs": contract.schemas("#/$defs/"),
    }
    write(out / "rollplan.v1.schema.json", schema)
    responses = {name: response for name, _, _, response in contract.methods}
    components = contract.schemas("#/components/schemas/")
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
            **{f"/rollplan.v1.{SERVICE}/{it[0]}": {"post": operation(it)} for it in contract.methods},
            **{path: {"post": endpoint(path, name, text, responses[it])} for path, it, name, text in ENDPOINTS},
        },
        "components": {"schemas": components},
    }
    write(out / "rollplan.v1.openapi.json", openapi)


if __name__ == "__main__":
    main()
