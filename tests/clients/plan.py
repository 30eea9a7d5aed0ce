"""Plans the same rollout with clients of several stacks. All answers must be equal.

    bash tests/run clients

Starts a server and requests the plan for examples/mid-rollout.json: with curl, with Python's protobuf and gRPC, with
betterproto2 (plan_betterproto2.py), with connect-es (es/plan.js), and with grpc-js and proto-loader (es/grpc.js). Each
answer must equal that of the command line. Each client also sends an empty request, and must receive the details of the
error.

Also runs the curl and jq commands of docs/reference/api.md verbatim, with the example instead of the output of kubectl, and sends
the request in docs/reference/api.md, which must get the response that is printed there. Measures how long Python takes to build a
request and decode the answer, relative to parsing the example. Runs
the first example of adapters/go/README.md in the same way.
"""

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

ROOT = Path(__file__).resolve().parents[2]
DESCRIPTORS = ROOT / "docs/contract/rollplan.v1.binpb"
PROTO = ROOT / "proto"
EXAMPLE = ROOT / "examples/mid-rollout.json"
METHOD = "/rollplan.v1.RolloutPlanner/PlanRollout"
NOW = "2026-11-20T23:27:30Z"
INVALID = {"code": "InvalidArgument", "details": ["google.rpc.ErrorInfo", "google.rpc.BadRequest"]}

# The maximum time to build a request and decode the answer, as a fraction of the time that json.loads takes for the
# example. Both depend on the machine in the same way, and the fastest of many runs is not affected by other load.
CONVERSION_RATIO_MAX = 0.25

# The result of a client: its name, the answer in JSON, and the error for an empty request.
Seen = tuple[str, Any, Any]


def request() -> Any:
    snapshot = {"now": NOW, "objects": [EXAMPLE.read_text()], "replicaSetsComplete": True, "podsComplete": True}
    return {"snapshot": snapshot, "options": {"report": True}}


def post(address: str, body: str, *options: str) -> Any:
    command = ["curl", "--silent", "--show-error", "--max-time", "30", *options, "--data-binary", "@-"]
    headers = ["-H", "content-type: application/json"]
    url = f"http://{address}{METHOD}"
    done = subprocess.run([*command, *headers, url], input=body, text=True, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def curl(address: str) -> Iterator[Seen]:
    for name, option in (("curl, HTTP/1.1", "--http1.1"), ("curl, HTTP/2", "--http2-prior-knowledge")):
        error = post(address, "{}", option)
        code = error["code"].title().replace("_", "")
        refused = {"code": code, "details": [it["type"] for it in error["details"]]}
        yield name, post(address, json.dumps(request()), option), refused
    compressed = subprocess.run(["gzip"], input=json.dumps(request()).encode(), check=True, stdout=subprocess.PIPE).stdout
    command = ["curl", "--silent", "--show-error", "--fail", "--data-binary", "@-"]
    headers = ["-H", "content-type: application/json", "-H", "content-encoding: gzip"]
    done = subprocess.run(
        [*command, *headers, f"http://{address}{METHOD}"], input=compressed, check=True, stdout=subprocess.PIPE
    )
    yield "curl, gzip", json.loads(done.stdout), INVALID
    url = f"http://{address}/v1/plan?now={NOW}"
    command = ["curl", "--silent", "--show-error", "--data-binary", "@-", url]
    printed, nothing = (
        json.loads(subprocess.run(command, input=body, check=True, stdout=subprocess.PIPE).stdout)
        for body in (EXAMPLE.read_bytes(), b"")
    )
    if printed.pop("now") != NOW:
        sys.exit("curl, /v1/plan: another time")
    error = {"code": nothing["code"].title().replace("_", ""), "details": [it["type"] for it in nothing["details"]]}
    yield "curl, /v1/plan", printed, error


def documented(address: str, expected: Any) -> None:
    """Checks the request, the response and the commands in docs/reference/api.md."""
    text = (ROOT / "docs/reference/api.md").read_text()
    blocks = [it for it in re.findall(r"```bash\n(.*?)```", text, re.DOTALL) if "curl" in it]
    example = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    trimming = re.search(r"`(jq -c '[^`]*)`", text)
    if len(blocks) != 2 or len(example) != 2 or not trimming:
        sys.exit("docs/reference/api.md: expected two commands with curl, one of jq alone, and a request with its response")

    def run(command: str) -> str:
        script = f"kubectl() {{ cat '{EXAMPLE}'; }}\nset -eo pipefail\n{command.replace('127.0.0.1:50051', address)}"
        return subprocess.run(["bash", "-c", script], check=True, text=True, stdout=subprocess.PIPE).stdout

    sent, response = example
    if (answer := post(address, sent)) != json.loads(response):
        sys.exit(f"docs/reference/api.md: the response is {json.dumps(answer)}")
    plan, status = (run(block) for block in blocks)
    if not status.startswith("Deployment shop/web: "):
        sys.exit(f"docs/reference/api.md: the answer of /v1/status is {status}")

    def summaries(answer: str) -> list[str]:
        return [step["summary"] for step in json.loads(answer).get("steps", [])]

    # The last step writes the status, which differs because the times differ.
    if summaries(plan)[:-1] != [step["summary"] for step in expected["steps"]][:-1]:
        sys.exit(f"docs/reference/api.md: the plan is {plan}")
    whole = run(f"kubectl | curl --silent --data-binary @- 'http://127.0.0.1:50051/v1/plan?now={NOW}'")
    trimmed = run(f"kubectl | {trimming[1]} | curl --silent --data-binary @- 'http://127.0.0.1:50051/v1/plan?now={NOW}'")
    if summaries(whole) != summaries(trimmed) or not summaries(whole):
        sys.exit(f"docs/reference/api.md: without the specs of pods the plan is {trimmed}")
    print("docs/reference/api.md: its response, and the same plan from its commands")


def go(address: str, expected: Any) -> None:
    """Runs the first example of the README of the Go library, which plans from a file."""
    readme = (ROOT / "adapters/go/README.md").read_text()
    program = re.findall(r"```go\n(.*?)```", readme, re.DOTALL)[0]
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "main.go").write_text(program.replace("127.0.0.1:50051", address))
        Path(directory, "shop.json").write_text(EXAMPLE.read_text())
        command = ["go", "-C", str(ROOT / "adapters/go"), "build", "-o", f"{directory}/example", f"{directory}/main.go"]
        subprocess.run(command, check=True)
        done = subprocess.run(["./example"], cwd=directory, check=True, text=True, stdout=subprocess.PIPE)
    # The last step writes the status, which differs because the times differ.
    if done.stdout.splitlines()[:-1] != [step["summary"] for step in expected["steps"]][:-1]:
        sys.exit(f"adapters/go/README.md: the plan is {done.stdout}")
    print("adapters/go/README.md: the same plan")


def messages() -> Callable[[str], Callable[[], Any]]:
    """Returns the messages of the contract for Python's protobuf."""
    files = descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)

    def message(name: str) -> Callable[[], Any]:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"rollplan.v1.{name}"))

    return message


def best(run: Callable[[], Any]) -> float:
    """Returns the seconds of the fastest of many runs."""
    seconds = []
    for _ in range(100):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def python(address: str) -> Iterator[Seen]:
    """Plans with Python's protobuf (upb) and gRPC."""
    message = messages()
    asked, answered = message("PlanRolloutRequest"), message("PlanRolloutResponse")
    text = EXAMPLE.read_text()

    def encoded() -> bytes:
        message = asked()
        message.snapshot.now.FromJsonString(NOW)
        message.snapshot.objects.append(text)
        message.snapshot.replica_sets_complete = True
        message.snapshot.pods_complete = True
        message.options.report = True
        return message.SerializeToString()

    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(METHOD)
        answer = answered.FromString(call(encoded(), timeout=30))
        try:
            call(b"", timeout=30)
            refused = None
        except grpc.RpcError as error:
            metadata = dict(error.trailing_metadata())
            # An encoded google.rpc.Status contains the type names of its details as plain text.
            details = metadata["grpc-status-details-bin"]
            known = (b"google.rpc.ErrorInfo", b"google.rpc.BadRequest")
            names = [name.decode() for name in known if b"type.googleapis.com/" + name in details]
            refused = {"code": error.code().name.title().replace("_", ""), "details": names}
    yield "Python protobuf, gRPC", json_format.MessageToDict(answer), refused
    received = answer.SerializeToString()
    conversion = best(lambda: (encoded(), answered.FromString(received)))
    ratio = conversion / best(lambda: json.loads(text))
    print(f"Python converts in {conversion * 1000:.3f} ms, {ratio:.2f} times json.loads of the example")
    if ratio > CONVERSION_RATIO_MAX:
        sys.exit(f"Python converts in {ratio:.2f} times json.loads, more than {CONVERSION_RATIO_MAX}")


def decoded(line: str) -> Seen:
    """Returns the result of a client that prints its answer in base64."""
    seen = json.loads(line)
    answer = messages()("PlanRolloutResponse").FromString(base64.b64decode(seen["answer"]))
    return seen["name"], json_format.MessageToDict(answer), seen["error"]


def betterproto2(address: str) -> Iterator[Seen]:
    """Plans with stubs that are generated from the .proto files."""
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    # The compiler is a protoc plugin, and runs ruff.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as directory:
        stubs = Path(directory, "stubs")
        stubs.mkdir()
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"--python_betterproto2_out={stubs}"]
        options = ["--python_betterproto2_opt=client_generation=async"]
        subprocess.run([*command, *options, *sources], check=True, env=environment, stderr=subprocess.DEVNULL)
        command = [sys.executable, str(ROOT / "tests/clients/plan_betterproto2.py"), directory, address, NOW]
        done = subprocess.run(command, input=EXAMPLE.read_bytes(), check=True, stdout=subprocess.PIPE)
        yield decoded(done.stdout.decode())


def grpc_js(address: str) -> Iterator[Seen]:
    command = ["node", str(ROOT / "tests/clients/es/grpc.js"), address, str(PROTO), NOW]
    done = subprocess.run(command, input=EXAMPLE.read_bytes(), check=True, stdout=subprocess.PIPE)
    yield decoded(done.stdout.decode())


def connect_es(address: str) -> Iterator[Seen]:
    command = ["node", str(ROOT / "tests/clients/es/plan.js"), f"http://{address}", str(DESCRIPTORS)]
    done = subprocess.run(command, input=json.dumps(request()), text=True, check=True, stdout=subprocess.PIPE)
    for line in done.stdout.splitlines():
        seen = json.loads(line)
        yield seen["name"], seen["answer"], seen["error"]


def start(binary: str) -> tuple[subprocess.Popen[str], str]:
    """Starts the server, and yields it with its address."""
    command = [binary, "serve", "--listen", "127.0.0.1:0", "--queue-time-max", "60s"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr
    for line in server.stderr:
        if (found := "listening on ") in (message := json.loads(line)["message"]):
            return server, message.removeprefix(found)
    sys.exit("the server did not start")


def main() -> None:
    [binary] = sys.argv[1:]
    command = [binary, "plan", "-f", str(EXAMPLE), "--now", NOW, "-o", "json"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    expected = json.loads(printed)
    assert expected["steps"], "the example has a plan"
    server, address = start(binary)
    try:
        clients = 0
        for client in (curl, python, betterproto2, connect_es, grpc_js):
            for name, answer, error in client(address):
                if answer != expected:
                    sys.exit(f"{name}: another answer\n{json.dumps(answer)}\nthan\n{json.dumps(expected)}")
                if error != INVALID:
                    sys.exit(f"{name}: another error: {error}")
                print(f"{name}: the same answer")
                clients += 1
        documented(address, expected)
        go(address, expected)
        # Four results of curl, one of Python's protobuf, one of betterproto2, five of connect-es, and one of grpc-js.
        if clients != 12:
            sys.exit(f"{clients} clients, not 12")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
