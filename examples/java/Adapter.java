import static java.util.stream.Collectors.toMap;
import static java.util.stream.Collectors.toSet;

import com.google.protobuf.ByteString;
import com.google.protobuf.Timestamp;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import rollplan.v1.Canary.PlanCanaryRequest;
import rollplan.v1.Canary.PlanCanaryResponse;
import rollplan.v1.Plan.*;

/** The loop of docs/guides/adapters.md for one owner. An interrupt of the calling thread cancels a sync. */
final class Adapter {
    /** How a sync ended, and when to sync again. A time is null if there is none. */
    record Result(String outcome, Duration atLatest, Duration notBefore) {}

    private final Http http;
    private final Target owner;
    private final PlanOptions options;
    private final Sync settings;

    private String uid;
    private ByteString value;
    private List<Answer> answers;
    private boolean watchesPods;
    /** The versions of the objects in the last request, by UID. Null if the plan has not been carried out to its end. */
    private Map<String, String> versions;
    /** When the timer is due, in the time of System.nanoTime. Null without a timer. */
    private Long due;

    /** Begins a leadership. The settings are the intervals of every request. */
    Adapter(Http http, Target owner, PlanOptions options, Sync settings) {
        this.http = http;
        this.owner = owner;
        this.options = options.toBuilder().setEventsAsCalls(true).build();
        this.settings = settings.toBuilder().setSession(UUID.randomUUID().toString()).build();
        forget("");
    }

    /** Requests a plan, and carries it out. Throws an IOException if the service does not return one. */
    Result sync(List<KubeObject> cache) throws IOException, InterruptedException {
        String found = cache.stream().filter(this::isOwner).map(KubeObject::uid).findFirst().orElse("");
        if (!found.equals(uid)) {
            forget(found);
        }
        if (uid.isEmpty()) {
            return new Result("missing", null, null);
        }
        Duration left = due == null ? null : Duration.ofNanos(due - System.nanoTime());
        boolean isDue = left != null && (left.isNegative() || left.isZero());
        if (answers.isEmpty() && !isDue && versionsOf(objects(cache)).equals(versions)) {
            return new Result("done", left, null);
        }
        versions = null;
        PlanRolloutResponse response;
        SyncResponse next;
        while (true) {
            response = http.plan("PlanRollout", request(cache), PlanRolloutResponse.parser());
            if (!response.hasSync()) {
                throw new IOException("the service is older than this adapter: it does not know sync");
            }
            next = response.getSync();
            value = next.getValue();
            if (next.getWatchPods() && !watchesPods) {
                watchesPods = true;
                continue;
            }
            if (next.getReadsCount() == 0) {
                break;
            }
            for (Read read : next.getReadsList()) {
                Answer answer = http.call(read.getCall()).setId(read.getId()).build();
                if (answer.getHttpCode() == 404 && isOwner(read.getCall())) {
                    forget("");
                    return new Result("missing", null, null);
                }
                answers.add(answer);
            }
        }
        answers.clear();
        boolean hasFailed = carryOut(response.getStepsList(), answers);
        versions = versionsOf(objects(cache));
        Duration atLatest = next.hasAtLatest() ? fromProto(next.getAtLatest()) : null;
        due = atLatest == null ? null : System.nanoTime() + atLatest.toNanos();
        return new Result(hasFailed ? "again" : "done", atLatest, fromProto(next.getNotBefore()));
    }

    /** Requests the plan of a canary with this policy, command and verdicts, and carries it out. */
    Result canary(List<KubeObject> cache, PlanCanaryRequest request) throws IOException, InterruptedException {
        request = request.toBuilder().setSnapshot(snapshot(cache, true)).build();
        PlanCanaryResponse response = http.plan("PlanCanary", request, PlanCanaryResponse.parser());
        boolean hasFailed = carryOut(response.getStepsList(), new ArrayList<>());
        Duration atLatest = response.hasRequeueAfter() ? fromProto(response.getRequeueAfter()) : null;
        return new Result(hasFailed ? "again" : "done", atLatest, null);
    }

    /** Makes the calls in order, and adds their answers. Returns whether one has failed. */
    private boolean carryOut(List<Step> steps, List<Answer> answers) throws InterruptedException {
        boolean hasFailed = false;
        boolean hasEnded = false;
        for (Step step : steps) {
            Http.throwIfInterrupted();
            if (hasEnded) {
                if (step.hasCall()) {
                    answers.add(Answer.newBuilder().setId(step.getId()).build());
                }
                continue;
            }
            if (step.hasCall()) {
                Answer.Builder answer = http.call(step.getCall()).setId(step.getId());
                int code = answer.getHttpCode();
                if (code == 409 && step.hasReadOnConflict()) {
                    Answer.Builder existing = http.call(step.getReadOnConflict());
                    answer.setExisting(Http.isOk(existing.getHttpCode()) ? existing.getBody() : ByteString.EMPTY);
                }
                answers.add(answer.build());
                if (!Http.isOk(code) && !step.getDoneHttpCodesList().contains(code)) {
                    hasFailed = true;
                    hasEnded = step.getOnFailure() != OnFailure.ON_FAILURE_CONTINUE;
                    continue;
                }
            }
            // Whether they succeed does not affect the plan.
            step.getEventCallsList().forEach(http::call);
        }
        Http.throwIfInterrupted();
        return hasFailed;
    }

    private void forget(String uid) {
        this.uid = uid;
        value = ByteString.EMPTY;
        answers = new ArrayList<>();
        watchesPods = false;
        versions = null;
        due = null;
    }

    private PlanRolloutRequest request(List<KubeObject> cache) {
        Sync sync = settings.toBuilder().setValue(value).addAllAnswers(answers).build();
        return PlanRolloutRequest.newBuilder().setSnapshot(snapshot(objects(cache), watchesPods)).setOptions(options)
            .setSync(sync).build();
    }

    private Snapshot snapshot(List<KubeObject> objects, boolean podsComplete) {
        Instant now = Instant.now();
        return Snapshot.newBuilder().setNow(Timestamp.newBuilder().setSeconds(now.getEpochSecond()).setNanos(now.getNano()))
            .addAllObjects(objects.stream().map(KubeObject::text).toList()).setTarget(owner)
            .setReplicaSetsComplete(true).setPodsComplete(podsComplete).build();
    }

    /** The owner, the ReplicaSets that it controls and those without a controller and, once they are needed, their pods. */
    private List<KubeObject> objects(List<KubeObject> cache) {
        var sets = cache.stream().filter(it -> it.kind().equals("ReplicaSet") && List.of(uid, "").contains(it.controller()))
            .map(KubeObject::uid).collect(toSet());
        return cache.stream().filter(it -> isOwner(it) || sets.contains(it.uid())
            || watchesPods && it.kind().equals("Pod") && sets.contains(it.controller())).toList();
    }

    private boolean isOwner(KubeObject it) {
        return it.apiVersion().equals(owner.getApiVersion()) && it.kind().equals(owner.getKind())
            && it.metadata().namespace().equals(owner.getNamespace()) && it.metadata().name().equals(owner.getName());
    }

    private boolean isOwner(ApiCall read) {
        return read.getKind().equals(owner.getKind()) && read.getName().equals(owner.getName());
    }

    private static Map<String, String> versionsOf(List<KubeObject> objects) {
        return objects.stream().collect(toMap(KubeObject::uid, it -> it.metadata().resourceVersion()));
    }

    private static Duration fromProto(com.google.protobuf.Duration it) {
        return Duration.ofSeconds(it.getSeconds(), it.getNanos());
    }
}
