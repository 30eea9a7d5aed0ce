"""Writes the parameters of `/v1/*`, as in the OpenAPI document, to docs/reference/api.md; `--check` compares them."""

import re
import sys
from pathlib import Path

from contract import ADDED, PARAMETERS, RESTARTS

PAGE = Path(__file__).parents[2] / "docs/reference/api.md"
PART = re.compile(r"(<!-- parameters: written by .*? -->\n).*?(<!-- parameters ends -->\n)", re.DOTALL)


def main() -> int:
    sets = [("all but `/v1/restarts`", PARAMETERS)]
    sets += [(f"`{path}`", tuple(parameters)) for path, parameters in ADDED.items()]
    sets.append(("`/v1/restarts`", RESTARTS))
    table = "| parameter | endpoint | meaning |\n| --- | --- | --- |\n"
    for endpoint, parameters in sets:
        for name, schema, text in parameters:
            values = ", ".join(f"`{it}`" for it in schema.get("enum", ()))
            table += f"| `{name}` | {endpoint} | {text}" + (f" One of {values}; the first one by default." if values else "") + " |\n"
    old = PAGE.read_text()
    new = PART.sub(lambda part: f"{part[1]}{table}{part[2]}", old)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(new)
    elif new != old:
        print(f"{PAGE} has other parameters; run: bash tests/run generate", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
