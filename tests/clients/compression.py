"""Counts answers that Python's gRPC client returns without decompressing them, for compressed and uncompressed answers.

    bash tests/run compression            CALLS=1000000 for the full experiment, which takes about an hour

Starts a server that compresses either all answers or none, and calls it from several processes at once. Some use grpcio's
blocking API with several threads, the others its asyncio API. Each client accepts gzip, which is grpcio's default. Every
answer must have the same bytes as the answer that a client without compression gets. The script counts the other
answers, prints the first few, and exits with 0 if there are none.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

ROOT = Path(__file__).resolve().parents[2]
METHOD = "/rollplan.v1.RolloutPlanner/PlanRollout"
# Concurrent calls on one connection: several answers then share a packet, and a packet can end anywhere in an answer.
CONCURRENCY = 8
GZIP_MAGIC = b"\x1f\x8b"


def requests() -> list[bytes]:
    """Returns a request for each example. The answers have different sizes."""
    files = descriptor_pb2.FileDescriptorSet.FromString((ROOT / "docs/contract/rollplan.v1.binpb").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    request = message_factory.GetMessageClass(pool.FindMessageTypeByName("rollplan.v1.PlanRolloutRequest"))
    encoded = []
    for path in sorted((ROOT / "examples").glob("*.json")):
        snapshot = {
            "now": "2026-11-20T23:27:30Z",
            "objects": [path.read_text()],
            "replicaSetsComplete": True,
            "podsComplete": True,
        }
        message = json_format.ParseDict({"snapshot": snapshot}, request())
        encoded.append(message.SerializeToString())
    return encoded


def start_server(binary: str, compress: bool) -> tuple[subprocess.Popen[str], str]:
    """Returns the server and its address."""
    command = [binary, "serve", "--listen", "127.0.0.1:0", "--queue-time-max", "60s"]
    if compress:
        command += ["--compress-answers-min", "1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ROLLPLAN_", "OTEL_"))}
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    for line in server.stderr:
        message = json.loads(line)["message"]
        if message.startswith("listening on "):
            address = message.removeprefix("listening on ")
            # Keep reading: the server would block once the pipe is full.
            threading.Thread(target=server.stderr.read, daemon=True).start()
            return server, address
    sys.exit("the server did not start")


def expected_answers(address: str, bodies: list[bytes]) -> list[bytes]:
    """Returns the uncompressed answer to each request."""
    # Bit 0 is "identity": accept no compression.
    options = [("grpc.compression_enabled_algorithms_bitset", 1)]
    with grpc.insecure_channel(address, options) as channel:
        call = channel.unary_unary(METHOD)
        return [call(body, timeout=60) for body in bodies]


class Tally:
    """Counts the outcomes of the calls of one process."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.samples: list[str] = []

    def add(self, answer: bytes, expected: bytes) -> None:
        if answer == expected:
            self.counts["right"] += 1
            return
        kind = "undecoded" if GZIP_MAGIC in answer[:7] else "wrong"
        self.counts[kind] += 1
        self.sample(f"{kind}: {len(answer)} bytes instead of {len(expected)}: {answer[:32].hex()}...")

    def add_failure(self, error: grpc.RpcError) -> None:
        self.counts[f"failed {error.code().name}"] += 1
        self.sample(f"{error.code().name}: {error.details()}")

    def sample(self, text: str) -> None:
        if len(self.samples) < 5:
            self.samples.append(text)


def call_blocking(address: str, calls: int, bodies: list[bytes], expected: list[bytes]) -> Tally:
    """Calls from several threads on one channel."""
    tally, lock = Tally(), threading.Lock()
    numbers = iter(range(calls))
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(METHOD)

        def work() -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                which = number % len(bodies)
                try:
                    answer = call(bodies[which], timeout=60)
                except grpc.RpcError as error:
                    with lock:
                        tally.add_failure(error)
                    continue
                with lock:
                    tally.add(answer, expected[which])

        threads = [threading.Thread(target=work) for _ in range(CONCURRENCY)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return tally


def call_asyncio(address: str, calls: int, bodies: list[bytes], expected: list[bytes]) -> Tally:
    """Calls from several tasks on one channel."""
    tally = Tally()

    async def run() -> None:
        numbers = iter(range(calls))
        async with grpc.aio.insecure_channel(address) as channel:
            call = channel.unary_unary(METHOD)

            async def work() -> None:
                for number in numbers:
                    which = number % len(bodies)
                    try:
                        answer = await call(bodies[which], timeout=60)
                    except grpc.RpcError as error:
                        tally.add_failure(error)
                        continue
                    tally.add(answer, expected[which])

            await asyncio.gather(*(work() for _ in range(CONCURRENCY)))

    asyncio.run(run())
    return tally


def client(api: str, results: multiprocessing.SimpleQueue, *arguments: object) -> None:
    tally = {"blocking": call_blocking, "asyncio": call_asyncio}[api](*arguments)
    results.put((tally.counts, [f"{api}: {text}" for text in tally.samples]))


def experiment(binary: str, calls: int, processes: int, compress: bool) -> bool:
    """Returns whether all answers were correct."""
    server, address = start_server(binary, compress)
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    try:
        bodies = requests()
        # Each client is a new process: grpcio does not support fork, and channels of one process share state.
        expected = expected_answers(address, bodies)
        apis = ["blocking" if number % 2 == 0 else "asyncio" for number in range(processes)]
        start = time.monotonic()
        clients = [
            context.Process(target=client, args=(api, results, address, calls // processes, bodies, expected))
            for api in apis
        ]
        for process in clients:
            process.start()
        counts: Counter[str] = Counter()
        samples: list[str] = []
        for process in clients:
            process.join()
            if process.exitcode != 0:
                sys.exit(f"a client ended with {process.exitcode}")
            more, texts = results.get()
            counts += more
            samples += texts
        seconds = time.monotonic() - start
    finally:
        server.kill()
        server.wait()
    what = "compressed" if compress else "not compressed"
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(f"answers {what}: {counts.total()} calls in {seconds:.0f} s: {told}", flush=True)
    for text in samples:
        print(f"  {text}")
    return counts.total() == counts["right"] > 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="a release build of rollplan")
    parser.add_argument("--calls", type=int, default=20000, help="for each of the two experiments")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    print(f"grpcio {grpc.__version__}, Python {sys.version.split()[0]}", flush=True)
    right = [experiment(arguments.binary, arguments.calls, arguments.processes, it) for it in (True, False)]
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
