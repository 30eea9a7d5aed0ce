"""The scenarios of the transcripts. Each one is a function, whose name is that of the transcript."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapter import Json
from world import World, merge, status

if TYPE_CHECKING:
    from generate import Recorder

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLOCK = "2026-11-20T23:30:30Z"
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "resource": "deployments"}
PROXY_PAGE = "<html>\n<head><title>502 Bad Gateway</title></head>\n<body>upstream connect error</body>\n</html>\n"
# 2^53 + 1, which a double rounds to 2^53.
BIG = 9007199254740993


@dataclass
class Planner:
    """A fault of the service, or of a proxy in front of it."""

    exchange: Json
    # Whether the client tries again in the same sync.
    retried: bool = False
    cancels: bool = False
    # Whether the service does answer, with half of a value.
    truncates: bool = False
    # The number of requests before the one that fails.
    skipped: int = 0


@dataclass
class Server:
    """A different answer of the API server to the first call that matches."""

    method: str
    path: str
    answer: Json = field(default_factory=dict)
    # Whether the API server makes the write nevertheless.
    applied: bool = False
    # A change by another client just before the call. The API server then answers the call normally.
    meanwhile: Callable[[World], None] | None = None
    cancels: bool = False
    used: bool = False

    def hits(self, method: str, path: str) -> bool:
        return method == self.method and self.path in path

    def body(self) -> bytes:
        if "text" in self.answer:
            return str(self.answer["text"] * self.answer.get("repeated", 1)).encode()
        return json.dumps(self.answer["body"]).encode() if "body" in self.answer else b""


def unavailable(**options: Any) -> Planner:
    return Planner({"error": {"code": "unavailable", "message": "no healthy upstream"}}, retried=True, **options)


def answers(method: str, path: str, body: Json, **options: Any) -> Server:
    return Server(method, path, {"code": body["code"], "body": body}, **options)


def lost(method: str, path: str) -> Server:
    """The write is made, and the connection is closed before the answer."""
    return Server(method, path, {"lost": True}, applied=True)


@dataclass
class Scenario:
    name: str
    about: str
    run: Callable[[Recorder], None]
    objects: list[Json]
    owner: Json = field(default_factory=lambda: WEB)
    clock: str = CLOCK
    planner_timeout_ms: int = 5000
    options: Json = field(default_factory=dict)
    # The intervals of each request, in milliseconds.
    intervals: dict[str, int] = field(default_factory=lambda: {"statusInterval": 0, "minInterval": 100})


SCENARIOS: list[Scenario] = []


def scenario(objects: list[Json], **options: Any) -> Callable[[Callable[[Recorder], None]], None]:
    def add(run: Callable[[Recorder], None]) -> None:
        about = " ".join((run.__doc__ or "").split())
        SCENARIOS.append(Scenario(run.__name__.replace("_", "-"), about, run, objects, **options))

    return add


def all_scenarios() -> list[Scenario]:
    return SCENARIOS


def example(name: str, *patches: tuple[str, Json]) -> list[Json]:
    """The objects of an example, with merge patches by kind."""
    items: list[Json] = json.loads((EXAMPLES / f"{name}.json").read_text())["items"]
    for kind, patch in patches:
        for it in items:
            if it["kind"] == kind:
                merge(it, patch)
    return items


def without_pods(objects: list[Json]) -> list[Json]:
    return [it for it in objects if it["kind"] != "Pod"]


def template(**spec: Any) -> Json:
    """A patch of a Deployment's template."""
    return {"spec": {"template": {"spec": spec}}}


def stranger(name: str, labels: Json | None = None, **spec: Any) -> Json:
    """A ReplicaSet of another Deployment in the namespace, whose pods have other labels by default."""
    labels = labels or {"app.kubernetes.io/name": "other"}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": "11111111-0000-4000-8000-000000000001",
            "resourceVersion": "17",
            "generation": 1,
            "creationTimestamp": "2026-11-20T23:00:00Z",
            "labels": labels,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": "other",
                    "uid": "11111111-0000-4000-8000-000000000002",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "other", "image": "registry.example/other:1"}], **spec},
            },
        },
        "status": {"replicas": 1, "observedGeneration": 1},
    }


def orphan(name: str) -> Json:
    """A ReplicaSet without a controller."""
    it = stranger(name)
    del it["metadata"]["ownerReferences"]
    return it


def edit(world: World, kind: str, name: str, **spec: Any) -> None:
    """Changes the spec of an object, as another client does."""
    it = copy.deepcopy(world.find(kind, name))
    it["spec"] |= spec
    it["metadata"]["generation"] += 1
    world.put(it)


def touch(run: Recorder) -> None:
    """Changes what the cache shows of the owner, without effect on its rollout."""
    owner = copy.deepcopy(run.world.find(run.scenario.owner["kind"], "web"))
    owner["metadata"]["annotations"]["example.com/touched"] = str(run.world.version)
    run.world.put(owner)
    run.show()


CREATE = example("fresh-create")
UPDATE = without_pods(example("mid-rollout"))
OLD, NEW = "web-779f94f8fc", "web-67fc9594b8"


@scenario(CREATE)
def create(run: Recorder) -> None:
    """A Deployment without ReplicaSets. Without a value, the service withholds the steps until the ReplicaSets are listed."""
    run.sync("lists the ReplicaSets, creates one, then updates the status")
    run.show()
    run.sync("the cache shows both writes, and there is nothing to do")
    run.sync("nothing has changed, so nothing is asked")
    touch(run)
    run.sync("the Deployment has changed, and the request has no answers")


@scenario(UPDATE)
def update(run: Recorder) -> None:
    """In the middle of a rolling update: the calls are made in the order of the plan, scale-downs first."""
    run.sync("scales down, scales up, updates the status")
    run.show()
    run.sync("the cache shows the writes")


@scenario(without_pods(example("min-ready-seconds")))
def requeue_after(run: Recorder) -> None:
    """A plan that waits for time to pass returns when to plan again, even if nothing changes."""
    run.sync("returns the time after which to plan again")


@scenario([*without_pods(example("adopt-orphan")), orphan("other-7c9f")])
def adoption(run: Recorder) -> None:
    """A ReplicaSet without a controller is part of the request, whatever its labels are. One that the selector matches is
    adopted."""
    run.sync("checks the owner, adopts the ReplicaSet, updates the status")
    run.show()
    run.sync("the cache shows the adoption")


@scenario(example("recreate-old-pods-terminating"))
def recreate_pods(run: Recorder) -> None:
    """The strategy Recreate needs the pods of the ReplicaSets: the service asks for them, and all later requests have them."""
    run.sync("asks again with the pods, and waits until the old ones are deleted")
    for it in run.world.all():
        if it["kind"] == "Pod":
            run.world.remove("Pod", it["metadata"]["name"])
    run.show()
    run.sync("creates the new pods")


CLEANUP = without_pods(example("history-cleanup"))
SURPLUS = ["web-5dc4f4f9bb", "web-67fc9594b8", "web-779f94f8fc"]


@scenario(CLEANUP)
def tolerated_code(run: Recorder) -> None:
    """A code of done_http_codes counts as success: the ReplicaSet to delete is already deleted."""
    gone = Server("DELETE", SURPLUS[1], meanwhile=lambda world: world.remove("ReplicaSet", SURPLUS[1]))
    run.sync("the second deletion is answered with 404, and the plan continues", gone)
    run.show()
    run.sync("nothing is left to do")


@scenario(CLEANUP)
def intolerable_code(run: Recorder) -> None:
    """A code other than those in done_http_codes ends the plan."""
    body = status(403, 'replicasets.apps "x" is forbidden: User "rollout" cannot delete resource "replicasets"')
    run.sync("the first deletion is forbidden, and nothing else is called", answers("DELETE", SURPLUS[0], body))
    run.sync("the answer is in the next request, and those of the calls that were not made")


@scenario(UPDATE)
def conflict(run: Recorder) -> None:
    """A call that conflicts ends the plan. The next request has the answer, and the ReplicaSets are read again."""
    body = status(409, f'Operation cannot be fulfilled on replicasets.apps "{OLD}": the object has been modified')
    run.sync("the scale-down conflicts, and nothing is scaled up", answers("PATCH", OLD, body))
    run.sync("reads the ReplicaSets again, then carries out the plan")


@scenario(UPDATE)
def failed_precondition(run: Recorder) -> None:
    """The precondition of a JSON Patch fails with 422 and without causes, because another client has scaled a ReplicaSet."""
    run.sync("the scale-up fails, and the status is not updated", Server("PATCH", NEW, meanwhile=scale(NEW, 6)))
    run.sync("reads the ReplicaSets, finds another size, plans again")


def scale(name: str, size: int) -> Callable[[World], None]:
    return lambda world: edit(world, "ReplicaSet", name, replicas=size)


@scenario(UPDATE)
def rejection_in_the_status(run: Recorder) -> None:
    """The status update conflicts. This does not concern the ReplicaSets, so they need not be read again."""
    body = status(409, 'Operation cannot be fulfilled on deployments.apps "web": the object has been modified')
    run.sync("everything is scaled, and the status conflicts", answers("PATCH", "/deployments/web/status", body))
    run.sync("updates the status; the answers have the sizes, which the cache does not show")


@scenario(CREATE)
def already_exists_stranger(run: Recorder) -> None:
    """The name of the new ReplicaSet is taken by a ReplicaSet of another owner: it is read, and the next request has it."""
    created = run.service_creates()
    run.world.put(stranger(created, priority=BIG))
    run.sync("creating is answered with AlreadyExists, and the object is read")
    run.sync("the next plan avoids the name")
    run.wait()
    run.sync("the plan after it creates a ReplicaSet with another name")


@scenario(CREATE)
def already_exists_unreadable(run: Recorder) -> None:
    """The name is taken, and the object is deleted before it can be read: the answer is sent without it."""
    name = run.service_creates()
    body = status(
        409, f'replicasets.apps "{name}" already exists', "AlreadyExists", name=name, group="apps", kind="replicasets"
    )
    run.sync("AlreadyExists, then 404", answers("POST", "/replicasets", body))
    run.sync("plans with the answer alone")


@scenario(CREATE)
def rejection(run: Recorder) -> None:
    """The API server rejects a create. The plan reports it in a condition, and the create is repeated with a backoff."""
    body = status(403, 'replicasets.apps "web" is forbidden: exceeded quota: sets, requested: count/replicasets.apps=1')
    run.sync("creating is forbidden", answers("POST", "/replicasets", body))
    run.sync("the status states the reason, and a timer is set")
    run.wait()
    run.sync("creating is forbidden again", answers("POST", "/replicasets", body))
    run.sync("the status already states the reason, and the timer is longer")
    run.wait()
    run.sync("the quota is raised, and the ReplicaSet is created")


@scenario(CREATE)
def validation(run: Recorder) -> None:
    """A 422 with causes rejects the object, unlike one without."""
    causes = [{"reason": "FieldValueInvalid", "message": "Invalid value: -1", "field": "spec.template.spec.priority"}]
    body = status(422, 'ReplicaSet.apps "web" is invalid', causes=causes)
    run.sync("the ReplicaSet is invalid", answers("POST", "/replicasets", body))
    run.sync("the status states the reason")


@scenario(UPDATE)
def lost_answer(run: Recorder) -> None:
    """The answer to a write is lost, so its outcome is unknown: it is not repeated, but reported with the code 0."""
    run.sync("the connection ends after the scale-down", lost("PATCH", OLD))
    run.sync("reads the ReplicaSets, which shows that the write was made, and plans again")


@scenario(CREATE)
def lost_answer_to_create(run: Recorder) -> None:
    """The answer to a create is lost. The ReplicaSet exists, and no second one is created."""
    run.sync("the connection ends after the create", lost("POST", "/replicasets"))
    run.sync("the cache does not show it, so the plan has another create, but the ReplicaSets are read first")


@scenario(CLEANUP)
def lost_answer_to_delete(run: Recorder) -> None:
    """The answer to a deletion is lost. The HTTP library must not repeat the call."""
    run.sync("the connection ends after the deletion", lost("DELETE", SURPLUS[0]))
    run.show()
    run.sync("the cache shows its outcome")


@scenario(UPDATE)
def proxy_page(run: Recorder) -> None:
    """A proxy answers with an HTML page. It is unknown whether the API server made the write."""
    fault = Server("PATCH", OLD, {"code": 502, "text": PROXY_PAGE}, applied=True)
    run.sync("502 and HTML after the scale-down", fault)
    run.sync("reads the ReplicaSets, which shows that the write was made")


@scenario(UPDATE)
def long_proxy_page(run: Recorder) -> None:
    """The page of a proxy is longer than 64 KiB: the answer has only its beginning. Successful answers have all of a body."""
    page = {"code": 502, "text": PROXY_PAGE, "repeated": 700}
    run.sync("502 and a long page after the scale-down", Server("PATCH", OLD, page, applied=True))
    run.sync("the answer has 64 KiB of it")


@scenario(UPDATE)
def server_timeout(run: Recorder) -> None:
    """The API server answers with a timeout: the write may have been made."""
    body = status(504, "request did not complete within the requested timeout - context deadline exceeded")
    run.sync("504 after the scale-down", answers("PATCH", OLD, body, applied=True))
    run.sync("reads the ReplicaSets, which shows that the write was made")


@scenario(UPDATE)
def internal_error(run: Recorder) -> None:
    """The API server answers with an internal error. If etcd did not answer in time, the write may have been made."""
    fault = answers("PATCH", OLD, status(500, "etcdserver: request timed out"), applied=True)
    run.sync("500 after the scale-down", fault)
    run.sync("updates the status")
    run.wait()
    run.sync("reads the ReplicaSets, which shows that the write was made, and plans again")


@scenario(CREATE)
def namespace_terminating(run: Recorder) -> None:
    """The namespace is being deleted, so nothing can be created: the call is not repeated until something changes."""
    message = 'replicasets.apps "web" is forbidden: namespace shop is being terminated'
    causes = [{"reason": "NamespaceTerminating", "message": "namespace shop is being terminated"}]
    body = status(403, message, causes=causes)
    run.sync("creating is forbidden, and nothing else is called", answers("POST", "/replicasets", body))
    run.sync("the request has the answer, and no timer is set")
    touch(run)
    run.sync("the Deployment changes, and the call is made again", answers("POST", "/replicasets", body))


@scenario(UPDATE)
def planner_unavailable(run: Recorder) -> None:
    """UNAVAILABLE is retried at once, three attempts in all; then the sync fails, and no call is made."""
    run.sync("the second attempt succeeds", unavailable())
    run.show()
    run.sync("all three attempts fail", unavailable(), unavailable(), unavailable())
    run.sync("the service is available again")


@scenario(UPDATE)
def planner_proxy_page(run: Recorder) -> None:
    """A proxy in front of the service answers with HTML and 502, which is UNAVAILABLE."""
    run.sync("the second attempt succeeds", Planner({"http": {"code": 502, "text": PROXY_PAGE}}, retried=True))


@scenario(UPDATE)
def planner_sheds(run: Recorder) -> None:
    """RESOURCE_EXHAUSTED with RetryInfo: the service is overloaded, and states when to try again."""
    error = {"code": "resource_exhausted", "message": "too many requests in progress", "retryAfterMs": 400}
    run.sync("the second attempt succeeds, after the time that the service states", Planner({"error": error}, retried=True))


@scenario(UPDATE)
def planner_too_large(run: Recorder) -> None:
    """RESOURCE_EXHAUSTED without RetryInfo: the request is too large, so it is not repeated."""
    error = {"code": "resource_exhausted", "message": "the request exceeds the limit of 16 MiB"}
    run.sync("the sync fails without another attempt", Planner({"error": error}))


@scenario(UPDATE)
def planner_rejects(run: Recorder) -> None:
    """INVALID_ARGUMENT: the same request would be rejected again, so it is not repeated."""
    error = {"code": "invalid_argument", "message": "snapshot.objects[0].spec.replicas: must not be negative"}
    run.sync("the sync fails without another attempt", Planner({"error": error}))


@scenario(UPDATE, planner_timeout_ms=400)
def planner_deadline(run: Recorder) -> None:
    """Each attempt has a deadline, which is sent to the service. After the deadline, the sync fails, and no call is made."""
    # A client may repeat the attempt, or leave that to the next sync.
    run.sync("the service does not answer", Planner({"hang": True, "attemptsMax": 3}))
    run.sync("the service answers")


@scenario(UPDATE)
def answers_outlive_a_failed_plan(run: Recorder) -> None:
    """The answers to a plan are kept until the next plan."""
    body = status(409, f'Operation cannot be fulfilled on replicasets.apps "{OLD}": the object has been modified')
    run.sync("the scale-down conflicts", answers("PATCH", OLD, body))
    run.sync("the service is not available", unavailable(), unavailable(), unavailable())
    run.sync("the request still has the answer")
    run.show()
    run.sync("the next request has the answers to the last plan only")


@scenario(UPDATE)
def answers_to_reads_outlive_a_failed_plan(run: Recorder) -> None:
    """The service fails after a read: the same request is sent again, with the answer to the read."""
    run.sync("lists the ReplicaSets, and the service is not available", unavailable(skipped=1), unavailable(), unavailable())
    run.sync("the request has the list")


@scenario(CREATE)
def stale_cache(run: Recorder) -> None:
    """The cache does not show the adapter's own writes yet: the answers have the objects, and later the service reads them."""
    run.sync("creates the ReplicaSet and updates the status")
    run.sync("the cache shows neither, but the answers have both")
    before = run.cache
    run.show()
    created = next(it for it in run.cache if it["kind"] == "ReplicaSet")
    run.cache = [*before, created]
    run.sync("the watch of ReplicaSets has caught up, that of Deployments has not: the Deployment is read")
    scaled = copy.deepcopy(run.world.find("ReplicaSet", created["metadata"]["name"]))
    scaled["status"] = {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "observedGeneration": 1,
    }
    run.world.put(scaled)
    run.show()
    run.sync("the cache is newer than the adapter's own writes, and takes precedence")


@scenario(CREATE)
def stale_cache_of_a_new_replica_set(run: Recorder) -> None:
    """The cache does not show a ReplicaSet that the adapter has created and scaled: from the second request on, it is read.
    Another client deletes it: the read is answered with 404, and it is created again."""
    run.sync("creates the ReplicaSet")
    resize(run, 5)
    run.sync("scales it up, although the cache does not show it")
    run.sync("the answers have it, with the new size")
    resize(run, 6)
    run.sync("the answers do not have it, so it is read, and scaled up")
    run.sync("the answers have it")
    created = next(it for it in run.world.all() if it["kind"] == "ReplicaSet")
    run.world.remove("ReplicaSet", created["metadata"]["name"])
    resize(run, 7)
    run.sync("another client has deleted it: the read is answered with 404, and it is created again")


def resize(run: Recorder, replicas: int) -> None:
    """Scales the Deployment, which is all that the cache then shows."""
    edit(run.world, "Deployment", "web", replicas=replicas)
    run.cache = [run.world.find("Deployment", "web")]


@scenario(CLEANUP)
def stale_deletions(run: Recorder) -> None:
    """The cache still shows ReplicaSets that the adapter has deleted: nothing is deleted twice. Later it shows that one of them
    is being deleted, because it has a finalizer."""
    remaining = copy.deepcopy(run.world.find("ReplicaSet", SURPLUS[0]))
    run.sync("deletes the surplus ReplicaSets")
    run.sync("the cache still shows them, and nothing is left to do")
    remaining["metadata"] |= {"deletionTimestamp": CLOCK, "finalizers": ["example.com/audit"]}
    run.world.put(remaining)
    run.show()
    run.sync("the cache shows that one of them is being deleted")


@scenario(example("fresh-create", ("Deployment", {"spec": {"paused": True}})))
def conflict_before_the_first_write(run: Recorder) -> None:
    """A status update conflicts before the adapter has written a ReplicaSet: the ReplicaSets must still be read before that."""
    body = status(409, 'Operation cannot be fulfilled on deployments.apps "web": the object has been modified')
    run.sync("the status conflicts", answers("PATCH", "/deployments/web/status", body))
    edit(run.world, "Deployment", "web", paused=False)
    run.show()
    run.sync("reads the ReplicaSets, and creates one")


@scenario(UPDATE)
def replaced(run: Recorder) -> None:
    """The Deployment is deleted, and another one with the same name is created, before the next sync: no state of the first one
    is left."""
    body = status(409, f'Operation cannot be fulfilled on replicasets.apps "{OLD}": the object has been modified')
    run.sync("the scale-down conflicts", answers("PATCH", OLD, body))
    run.world.objects.clear()
    run.world.put(copy.deepcopy(CREATE[0]))
    run.show()
    run.sync("the request does not have the answer, and the ReplicaSets are read before the first write")


@scenario(UPDATE)
def stale_sizes(run: Recorder) -> None:
    """Before the first write to a ReplicaSet, all are read once: the cache may lack writes of the previous leader."""
    scale(NEW, 7)(run.world)
    run.sync("the list shows another size, so the plan is made again")
    run.sync("until the cache shows it, the ReplicaSet is read")


@scenario(UPDATE)
def new_leader(run: Recorder) -> None:
    """Another adapter leads in between, and its writes are not in the cache. The adapter then leads again, with a new session
    and without its value."""
    run.sync("scales")
    run.show()
    run.sync("the cache shows it")
    scale(NEW, 7)(run.world)
    sets = [it for it in run.cache if it["kind"] == "ReplicaSet"]
    edit(run.world, "Deployment", "web", replicas=12)
    run.cache = [run.world.find("Deployment", "web"), *sets]
    run.lead()
    run.sync("the ReplicaSets are listed again, and have another size than in the cache")


@scenario(UPDATE)
def value_of_another_version(run: Recorder) -> None:
    """The service does not accept a value, for example of another version: the adapter returns it nevertheless."""
    run.sync("scales, and the value is only half of one", Planner({}, truncates=True, skipped=1))
    run.show()
    edit(run.world, "Deployment", "web", replicas=12)
    run.show()
    run.sync("the ReplicaSets are listed before the next write")


@scenario(UPDATE)
def failed_read(run: Recorder) -> None:
    """A read fails: the service sets a timer, and nothing is written before the read has succeeded."""
    run.sync("the list is not answered", Server("GET", "/replicasets", {"lost": True}))
    run.wait()
    run.sync("the list is answered by a proxy", Server("GET", "/replicasets", {"code": 503, "text": PROXY_PAGE}))
    run.wait()
    run.sync("lists the ReplicaSets, and scales")


@scenario(UPDATE)
def repeated_conflict(run: Recorder) -> None:
    """A call fails twice in a row: it is repeated with a backoff."""
    body = status(409, f'Operation cannot be fulfilled on replicasets.apps "{OLD}": the object has been modified')
    run.sync("the scale-down conflicts", answers("PATCH", OLD, body))
    run.sync("it is repeated at once, and conflicts again", answers("PATCH", OLD, body))
    run.sync("it is not repeated before a timer")
    run.wait()
    run.sync("it is repeated, and the plan is carried out")


@scenario(UPDATE, intervals={"statusInterval": 200, "minInterval": 50})
def delayed_status(run: Recorder) -> None:
    """A status that only reports progress is delayed, so that one write covers several changes."""
    run.sync("scales, and updates the status with it")
    run.show()
    run.sync("the cache shows the writes")
    progress(run)
    run.sync("a pod is ready, and a timer is set")
    run.clock += timedelta(milliseconds=100)
    progress(run)
    run.sync("another one is ready, and the timer is shorter")
    run.wait()
    run.sync("the timer is due, and the status is updated")


def progress(run: Recorder) -> None:
    """Another pod of the new ReplicaSet becomes ready."""
    it = copy.deepcopy(run.world.find("ReplicaSet", NEW))
    it["status"]["readyReplicas"] = it["status"].get("readyReplicas", 0) + 1
    run.world.put(it)
    run.show()


@scenario(UPDATE)
def native_controller(run: Recorder) -> None:
    """The native controller writes the status, too: work on the Deployment is suspended, and the adapter records an event."""
    run.sync("scales")
    writes = {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status"}
    owner = copy.deepcopy(run.world.find("Deployment", "web"))
    later = (run.clock + timedelta(seconds=10)).isoformat().replace("+00:00", "Z")
    owner["metadata"].setdefault("managedFields", []).append({**writes, "apiVersion": "apps/v1", "time": later})
    owner["spec"]["replicas"] = 12
    run.world.put(owner)
    run.show()
    run.sync("the native controller has written the status: nothing is written, and a timer of a minute is set")
    touch(run)
    run.sync("the Deployment changes, and nothing is written")
    run.clock += timedelta(seconds=60)
    touch(run)
    run.sync("after a minute, the ReplicaSets are listed, and scaled")


@scenario(CREATE)
def owner_not_found(run: Recorder) -> None:
    """The Deployment is deleted, and the cache still shows it: the read of it is answered with 404, and it is forgotten."""
    run.sync("creates the ReplicaSet and updates the status")
    run.sync("the cache shows neither, but the answers have both")
    created = next(it for it in run.world.all() if it["kind"] == "ReplicaSet")
    run.world.objects.clear()
    run.cache = [*run.cache, created]
    run.sync("the cache shows the ReplicaSet, the Deployment is read and does not exist")
    run.cache = []
    run.sync("the cache does not show it, and nothing is asked")


@scenario(UPDATE)
def cancelled_call(run: Recorder) -> None:
    """The sync is cancelled while a call is in progress: no other call is made, and the outcome of this one is unknown."""
    hang = Server("PATCH", OLD, {"hang": True, "cancel": True}, applied=True, cancels=True)
    run.sync("is cancelled during the scale-down", hang)
    run.sync("reports the call with the code 0, and reads the ReplicaSets")


@scenario(without_pods(example("adopt-orphan")))
def cancelled_between_writes(run: Recorder) -> None:
    """The sync is cancelled before it writes a ReplicaSet: the request lacks the answers, so the ReplicaSets are listed."""
    hang = Server("PATCH", "/deployments/web", {"hang": True, "cancel": True}, cancels=True)
    run.sync("is cancelled during the check of the owner", hang)
    run.sync("lists the ReplicaSets, and carries out the plan")


@scenario(UPDATE)
def cancelled_plan(run: Recorder) -> None:
    """The sync is cancelled while the service is planning: no call is made, and there is no other attempt."""
    run.sync("is cancelled during the request", Planner({"hang": True, "cancel": True}, cancels=True))
    run.sync("plans again")


@scenario(UPDATE)
def deleted_in_the_middle(run: Recorder) -> None:
    """The Deployment and its ReplicaSets are deleted during a plan. A new one with the same name starts without state."""
    gone = Server("PATCH", OLD, meanwhile=lambda world: world.objects.clear())
    run.sync("the sizes are read, and then everything is deleted: the first call is answered with 404", gone)
    run.cache = []
    run.sync("the Deployment does not exist: no request, no call")
    successor = copy.deepcopy(CREATE[0])
    run.world.put(successor)
    run.show()
    run.sync("a Deployment with the same name and another UID: no state of the first one is left, including its answers")


@scenario(
    [
        *example(
            "fresh-create",
            (
                "Deployment",
                template(
                    tolerations=[{"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": BIG}],
                    activeDeadlineSeconds=2**63 - 1,
                ),
            ),
        ),
        stranger("other-5d9c", activeDeadlineSeconds=BIG),
    ]
)
def big_integers(run: Recorder) -> None:
    """Integers beyond 2^53 stay exact in the request, also in an object of another owner, and in the ReplicaSet."""
    run.sync("creates the ReplicaSet with the integers of the template")
    run.show()
    run.sync("recognizes it")


@scenario(
    example(
        "fresh-create",
        (
            "Deployment",
            {
                "metadata": {"annotations": {"example.com/note": 'quotes " and \\ and umlauts: äöü, 日本語'}},
                "spec": {
                    "futureField": {"enabled": True, "weights": [1, 0.5, 2.5e-3]},
                    "template": {
                        "spec": {
                            "futurePolicy": {"mode": "Strict", "limit": BIG, "empty": {}},
                            "containers": [
                                {
                                    "name": "web",
                                    "image": "registry.example/web:1.0",
                                    "futureProbe": {"path": "/läuft", "ratios": [0.1, 1.5]},
                                }
                            ],
                        }
                    },
                },
            },
        ),
    )
)
def unknown_fields(run: Recorder) -> None:
    """Unknown fields are in the request, and in the ReplicaSet that is created from the template."""
    run.sync("creates the ReplicaSet with all fields of the template")
    run.show()
    run.sync("recognizes it")


CUSTOM = {**WEB, "apiVersion": "apps.rollplan.dev/v1alpha1", "kind": "PlannedDeployment", "resource": "planneddeployments"}


@scenario(
    example("fresh-create", ("Deployment", {"apiVersion": CUSTOM["apiVersion"], "kind": CUSTOM["kind"]})),
    owner=CUSTOM,
)
def custom_resource(run: Recorder) -> None:
    """The owner is a custom resource, which the request must name in its target."""
    run.sync("creates the ReplicaSet, and writes the first condition of the custom resource")
    run.show()
    run.sync("writes the revision")
    run.show()
    run.sync("writes the rest of the status")
    run.show()
    run.sync("nothing is left to do")


@scenario(
    example("fresh-create", ("Deployment", {"apiVersion": CUSTOM["apiVersion"], "kind": CUSTOM["kind"]})),
    owner=CUSTOM,
)
def replica_sets_of_others(run: Recorder) -> None:
    """The selector of a custom resource matches a ReplicaSet of a Deployment. No cache has to show it: it is found before the
    first write of a ReplicaSet, and no second set of pods is created."""
    cache = run.cache
    other = stranger("web-1", labels={"app.kubernetes.io/name": "web"})
    run.world.put(other)
    run.sync("lists the ReplicaSets, also that of the Deployment, and creates none")
    run.cache = cache
    run.sync("the refusal lasts, although the cache shows nothing that explains it")
    run.world.remove("ReplicaSet", "web-1")
    owner = run.world.find(CUSTOM["kind"], "web")
    owner["metadata"]["annotations"]["team"] = "shop"
    run.world.put(owner)
    run.show()
    run.sync("the ReplicaSet is deleted, the custom resource changes, and its ReplicaSet is created")


@scenario(example("fresh-create", ("Deployment", {"spec": {"paused": True}})))
def terminating_replicas_dropped(run: Recorder) -> None:
    """An API server before Kubernetes 1.35 drops terminatingReplicas from the status: it is not written again."""
    run.world.stores_terminating = False
    run.sync("writes the status, and the API server drops the field")
    deployment = run.world.find("Deployment", "web")
    deployment["metadata"]["annotations"]["team"] = "shop"
    run.world.put(deployment)
    run.show()
    run.sync("the answer lacks the field, and there is nothing to do")
    run.world.stores_terminating = True
    edit(run.world, "Deployment", "web", paused=False)
    run.show()
    run.sync("creates the ReplicaSet")
    created = next(it for it in run.world.all() if it["kind"] == "ReplicaSet")
    created["status"] |= {"replicas": 0, "observedGeneration": 1, "terminatingReplicas": 0}
    run.world.put(created)
    run.show()
    run.sync("the API server was upgraded, a ReplicaSet has the field, and the status is updated with it")


@scenario(without_pods(example("rollover")), options={"horizon": "HORIZON_PASS"})
def going_on(run: Recorder) -> None:
    """A step with ON_FAILURE_CONTINUE fails: the next step is still carried out, and the events of this one are omitted."""
    conflict = status(409, "Operation cannot be fulfilled on replicasets.apps: the object has been modified")
    run.sync("the scale-down conflicts, and the status is updated", answers("PATCH", "/replicasets/", conflict))
    run.sync("the request has the answer")


UNDONE = example("after-undo")


def changed(objects: list[Json]) -> str:
    """The Deployment with another image, as `kubectl apply --dry-run=server -o json` prints it."""
    it = copy.deepcopy(next(it for it in objects if it["kind"] == "Deployment"))
    del it["metadata"]["managedFields"]
    it["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/web:2.0"
    return json.dumps(it)


POLICY: Json = {"policy": {"pods": "1", "bake": "60s", "gates": ["smoke"], "timeout": "900s"}}
START: Json = {**POLICY, "command": {"action": "CANARY_ACTION_START", "deployment": changed(UNDONE)}}


@scenario(UNDONE)
def canary(run: Recorder) -> None:
    """A canary is started and aborted. Its patches have the field manager of the plan, which an admission policy recognizes."""
    run.canary("starts the canary", START)
    run.show()
    report = run.canary("waits for the pod of the canary", POLICY)
    verdict = {
        "name": "smoke",
        "templateDigest": report["templateDigest"],
        "result": "CANARY_RESULT_FAIL",
        "observedAt": report["since"],
    }
    run.canary("a verdict fails, and the canary is aborted", {**POLICY, "verdicts": [verdict]})
    run.show()
    run.canary("restores the stable template", POLICY)


@scenario(UNDONE)
def canary_conflict(run: Recorder) -> None:
    """The precondition of a patch fails, because another client has changed the Deployment: the next request has the change."""
    run.canary("the patch fails", START, Server("PATCH", "/deployments/web", meanwhile=pause))
    run.show()
    run.canary("plans with the change", POLICY)


def pause(world: World) -> None:
    edit(world, "Deployment", "web", paused=True)
