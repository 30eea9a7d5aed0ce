"""Plans with betterproto2.

    python plan_betterproto2.py DIRECTORY ADDRESS NOW < objects.json

DIRECTORY contains the package `stubs`, which betterproto2's compiler has generated. Prints a line of JSON: the name of the
client, the answer in base64, and the code and details of the error for an empty request.
"""

import asyncio
import base64
import datetime
import json
import sys
from typing import Any

from grpclib.client import Channel
from grpclib.encoding.base import StatusDetailsCodecBase
from grpclib.exceptions import GRPCError


class DetailNames(StatusDetailsCodecBase):
    """Returns the details of an error. An encoded google.rpc.Status contains their type names as plain text."""

    KNOWN = ("google.rpc.ErrorInfo", "google.rpc.BadRequest")

    def encode(self, status: Any, message: Any, details: Any) -> bytes:
        raise NotImplementedError

    def decode(self, status: Any, message: Any, data: bytes) -> list[str]:
        return [name for name in self.KNOWN if f"type.googleapis.com/{name}".encode() in data]


async def plan(address: str, now: str, objects: str) -> dict[str, Any]:
    # The test generates this package.
    from stubs.rollplan.v1 import PlanOptions, PlanRolloutRequest, RolloutPlannerStub, Snapshot

    host, port = address.rsplit(":", 1)
    async with Channel(host, int(port), status_details_codec=DetailNames()) as channel:
        stub = RolloutPlannerStub(channel)
        snapshot = Snapshot(
            now=datetime.datetime.fromisoformat(now),
            objects=[objects],
            replica_sets_complete=True,
            pods_complete=True,
        )
        answer = await stub.plan_rollout(
            PlanRolloutRequest(snapshot=snapshot, options=PlanOptions(report=True)), timeout=30
        )
        try:
            await stub.plan_rollout(PlanRolloutRequest(), timeout=30)
            refused = None
        except GRPCError as error:
            code = error.status.name.title().replace("_", "")
            refused = {"code": code, "details": error.details}
    return {
        "name": "betterproto2",
        "answer": base64.b64encode(bytes(answer)).decode(),
        "error": refused,
    }


def main() -> None:
    directory, address, now = sys.argv[1:]
    sys.path.insert(0, directory)
    print(json.dumps(asyncio.run(plan(address, now, sys.stdin.read()))))


if __name__ == "__main__":
    main()
