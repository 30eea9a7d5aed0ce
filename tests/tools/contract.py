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


def operation(method: tuple[str, str, str, str]) -> dict[str, Any]:
    name, comment, request, response = method

    def content(schema: str) -> dict[str, Any]:
        return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}

    return {
        "operationId": name,
        "summary": comment,
        "parameters": [
            {
                "name": "Connect-Timeout-Ms",
                "in": "header",
                "description": "The call's deadline in milliseconds, up to 10 digits.",
                "schema": {"type": "integer", "minimum": 0},
            },
        ],
        "requestBody": {"required": True, "content": content(request)},
        "responses": {
            "200": {"description": "The answer.", "content": content(response)},
            "default": {"description": "An error.", "content": content("connect.error")},
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
        "paths": {f"/rollplan.v1.{SERVICE}/{it[0]}": {"post": operation(it)} for it in found},
        "components": {"schemas": components},
    }
    write(out / "rollplan.v1.openapi.json", openapi)


if __name__ == "__main__":
    main()
