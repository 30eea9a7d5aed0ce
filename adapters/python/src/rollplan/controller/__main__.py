"""The command line of the controller, with the flags of the Go adapter."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
import uuid
from pathlib import Path

from prometheus_client import start_http_server

from rollplan.controller import _health, _metrics
from rollplan.controller._controller import Controller, Options
from rollplan.controller._lease import Election
from rollplan.controller._probe import Probe
from rollplan.controller._start import NoAccessError, await_access
from rollplan.kubernetes import Api, Limiter
from rollplan.objects import DEPLOYMENT, PLANNED_DEPLOYMENT, POD, REPLICA_SET
from rollplan.planner import Planner

log = logging.getLogger("rollplan.controller")

NAME = "rollplan-controller"
MODES = {"takeover": DEPLOYMENT, "custom-resource": PLANNED_DEPLOYMENT}
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
# Shorter than the timeout of the kubelet's probes.
READINESS_TIMEOUT = 0.8
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """A duration in the notation of Go, for example "1m30s" or "100ms", in seconds."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if text == "0":
        return 0.0
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise argparse.ArgumentTypeError(f"invalid duration {text!r}, for example 100ms or 1m30s")
    return sum(float(number) * UNITS[unit] for number, unit in parts)


def boolean(text: str) -> bool:
    """A boolean in the notation of Go."""
    if text.lower() not in ("true", "false", "1", "0"):
        raise argparse.ArgumentTypeError(f"invalid value {text!r}: must be true or false")
    return text.lower() in ("true", "1")


def address(text: str) -> tuple[str, int] | None:
    """Host and port to listen on, or 0 for none."""
    if text in ("", "0"):
        return None
    host, _, port = text.rpartition(":")
    if not port.isdigit():
        raise argparse.ArgumentTypeError(f"invalid address {text!r}, for example :8080 or 127.0.0.1:8080")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104, probes come from other machines


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    description = "A Deployment controller that uses rollplan."
    parser = argparse.ArgumentParser(prog="python -m rollplan.controller", description=description)
    add = parser.add_argument
    boolean_flag = {"type": boolean, "nargs": "?", "const": True}
    add(
        "--mode",
        required=True,
        choices=MODES,
        help="takeover manages apps/v1 Deployments and requires that the Deployment"
        " controller of kube-controller-manager is disabled; custom-resource manages PlannedDeployments on any cluster",
    )
    add("--planner", required=True, help="address of the service: host:port for gRPC, or a URL for HTTP")
    add("--planner-ca", help="PEM file with the CA certificates that verify the service; without it, gRPC is not encrypted")
    add("--planner-timeout", type=duration, default=10.0, help="timeout of one attempt to call the service (10s)")
    add("--kubeconfig", help="path of the kubeconfig; defaults to KUBECONFIG, or in a pod to its service account")
    add("--namespaces", default="", help="comma-separated list of namespaces to manage (all)")
    add("--selector", default="", help="label selector of the Deployments to manage (all)")
    add("--workers", type=int, default=5, help="number of Deployments that are synced concurrently (5)")
    add("--min-interval", type=duration, default=0.1, help="minimum time between two syncs of a Deployment (100ms)")
    add(
        "--status-interval",
        type=duration,
        default=0.5,
        help="how long to delay a status update that only reports progress (500ms)",
    )
    add("--resync-interval", type=duration, default=3600.0, help="how often all Deployments are synced (1h)")
    add("--kube-api-qps", type=float, default=50.0, help="maximum rate of API server requests, per second (50)")
    add("--kube-api-burst", type=int, default=100, help="maximum burst of API server requests (100)")
    metrics_help = "address of the metrics endpoint; 0 disables it (:8080)"
    add("--metrics-bind-address", type=address, default=address(":8080"), help=metrics_help)
    add(
        "--health-probe-bind-address",
        type=address,
        default=address(":8081"),
        help="address of /healthz and /readyz; 0 disables them (:8081)",
    )
    add(
        "--leader-elect",
        default=True,
        **boolean_flag,  # type: ignore[arg-type]
        help="work only while holding a lease, so that several replicas can run (true)",
    )
    add("--leader-elect-namespace", default="", help="namespace of the lease and of the probe; defaults to that of the pod")
    add(
        "--leader-elect-lease-name",
        default="",
        help="name of the lease; adapters with the same lease exclude each other, so each installation needs its own"
        " (rollplan-controller and the mode)",
    )
    add(
        "--leader-elect-lease-duration",
        type=duration,
        default=15.0,
        help="how long other replicas wait before they take over a lease that is not renewed (15s)",
    )
    add(
        "--native-controller-probe",
        type=duration,
        default=25.0,
        help="in takeover mode, how long to watch whether the native Deployment controller writes the status of a Deployment"
        " without pods, before the first write; 0 disables the probe (25s)",
    )
    parsed = parser.parse_args(arguments)
    if (parsed.leader_elect or has_probe(parsed)) and not parsed.leader_elect_namespace:
        if not NAMESPACE_FILE.exists():
            parser.error(
                "outside a cluster, set --leader-elect-namespace, which has the lease and the probe for the native Deployment"
                " controller; or set --leader-elect=false if no other replica runs, and --native-controller-probe=0"
            )
        parsed.leader_elect_namespace = NAMESPACE_FILE.read_text().strip()
    return parsed


def has_probe(arguments: argparse.Namespace) -> bool:
    """Whether there is a probe. It is irrelevant for PlannedDeployments."""
    return bool(arguments.mode == "takeover" and arguments.native_controller_probe > 0)


def planner_of(arguments: argparse.Namespace) -> Planner:
    """The client of the service."""
    connect = Planner.http if "://" in arguments.planner else Planner.grpc
    observer = _metrics.observe_planner
    return connect(arguments.planner, ca_file=arguments.planner_ca, timeout=arguments.planner_timeout, observer=observer)


def options_of(arguments: argparse.Namespace, api: Api) -> Options:
    """The options of the controller."""
    probe = None
    if has_probe(arguments):
        probe = Probe(api, arguments.leader_elect_namespace, arguments.native_controller_probe)
    namespaces = tuple(it.strip() for it in arguments.namespaces.split(",") if it.strip())
    return Options(
        namespaces=namespaces or ("",),
        selector=arguments.selector,
        workers=arguments.workers,
        min_interval=arguments.min_interval,
        status_interval=arguments.status_interval,
        resync_interval=arguments.resync_interval,
        probe=probe,
    )


def run(arguments: argparse.Namespace, stop: threading.Event) -> int:
    """Runs the controller until it is stopped, and returns the exit code."""
    limiter = Limiter(arguments.kube_api_qps, arguments.kube_api_burst)
    api = Api.from_config(arguments.kubeconfig, user_agent=NAME, limiter=limiter)
    kind = MODES[arguments.mode]
    options = options_of(arguments, api)
    try:
        await_access(api, (kind, REPLICA_SET, POD), options.namespaces, stop)
    except NoAccessError as error:
        log.error("%s", error)
        return 1
    with planner_of(arguments) as planner:
        if arguments.metrics_bind_address:
            host, port = arguments.metrics_bind_address
            start_http_server(port, host)
        if arguments.health_probe_bind_address:
            _health.serve(arguments.health_probe_bind_address, lambda: planner.check(READINESS_TIMEOUT))
        controller = Controller(api, planner, kind, options)
        controller.start_caches(stop)
        if not arguments.leader_elect:
            controller.start_workers()
            stop.wait()
            controller.stop()
            return 0
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        # Without a limiter, because the lease must not wait for other requests. The default is the lease of the Go adapter.
        own = Api.from_config(arguments.kubeconfig, user_agent=NAME)
        lease = arguments.leader_elect_lease_name or f"{NAME}-{arguments.mode}"
        election = Election(own, arguments.leader_elect_namespace, lease, identity, arguments.leader_elect_lease_duration)
        return lead(controller, election, stop)


def lead(controller: Controller, election: Election, stop: threading.Event) -> int:
    """Runs the controller while holding the lease."""
    if election.acquire(stop):
        controller.start_workers()
        if not election.keep(stop):
            log.error("lost the lease")
            controller.stop(at_once=True)
            return 1
    controller.stop()
    election.release()
    return 0


class JsonFormatter(logging.Formatter):
    """Each record is a line of JSON, so text from a cluster cannot forge a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": time.time(), "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def end_process(failure: threading.ExceptHookArgs) -> None:
    """Ends the process because of an exception that ended a thread: the others would work on objects that nobody updates."""
    thread = failure.thread.name if failure.thread else "a thread"
    exception = failure.exc_value
    log.critical("%s: unexpected error, exiting", thread, exc_info=exception if exception else True)
    os._exit(1)


def main() -> None:
    """The program."""
    arguments = parse(sys.argv[1:])
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    log.addHandler(handler)
    log.setLevel(os.environ.get("ROLLPLAN_LOG", "INFO"))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.excepthook = end_process
    log.info("starting, mode %s, planner %s", arguments.mode, arguments.planner)
    sys.exit(run(arguments, stop))


if __name__ == "__main__":
    main()
