import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonSyntaxException;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.protobuf.MessageLite;
import com.google.protobuf.Parser;
import com.google.protobuf.UnknownFieldSet;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Base64;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import rollplan.v1.Plan.Answer;
import rollplan.v1.Plan.ApiCall;

/** Calls the service with the Connect protocol, and the API server. */
final class Http {
    private static final int ATTEMPTS_MAX = 3;
    private static final long FIRST_DELAY_MILLIS = 100;
    private static final long API_TIMEOUT_MILLIS = 30_000;
    private static final int FAILED_BODY_BYTES = 64 << 10;

    static {
        // The client never repeats writes. Without this, it repeats reads.
        System.setProperty("jdk.httpclient.redirects.retrylimit", "1");
    }

    private static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private final String api;
    private final String planner;
    private final long plannerTimeoutMillis;

    /** Takes both URLs without a slash at the end, and the deadline of one attempt to call the service. */
    Http(String api, String planner, long plannerTimeoutMillis) {
        this.api = api;
        this.planner = planner;
        this.plannerTimeoutMillis = plannerTimeoutMillis;
    }

    static boolean isOk(int code) {
        return code / 100 == 2;
    }

    static void throwIfInterrupted() throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
    }

    /** Makes a call to the API server. After an interrupt, the code is 0, and the thread stays interrupted. */
    Answer.Builder call(ApiCall call) {
        String method = switch (call.getVerb()) {
            case VERB_CREATE -> "POST";
            case VERB_PATCH -> "PATCH";
            case VERB_DELETE -> "DELETE";
            default -> "GET";
        };
        URI uri = URI.create(api + call.getPath() + (call.getQuery().isEmpty() ? "" : "?" + call.getQuery()));
        HttpRequest.Builder request = HttpRequest.newBuilder(uri);
        if (call.getBodyJson().isEmpty()) {
            request.method(method, BodyPublishers.noBody());
        } else {
            request.method(method, BodyPublishers.ofString(call.getBodyJson())).header("Content-Type", call.getContentType());
        }
        return send(request.build(), API_TIMEOUT_MILLIS);
    }

    /** Calls a method of the service, and repeats the call as described in docs/reference/api.md. */
    <T> T plan(String method, MessageLite message, Parser<T> parser) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(planner + "/rollplan.v1.RolloutPlanner/" + method))
            .header("Content-Type", "application/proto").header("Connect-Protocol-Version", "1")
            .header("Connect-Timeout-Ms", Long.toString(plannerTimeoutMillis))
            .POST(BodyPublishers.ofByteArray(message.toByteArray())).build();
        for (int attempt = 1; ; attempt++) {
            Answer.Builder answer = send(request, plannerTimeoutMillis);
            throwIfInterrupted();
            if (isOk(answer.getHttpCode())) {
                return parser.parseFrom(answer.getBody());
            }
            String error = answer.getBody().toStringUtf8();
            long delay = retryDelayMillis(answer.getHttpCode(), error, FIRST_DELAY_MILLIS << attempt - 1);
            if (delay < 0 || attempt == ATTEMPTS_MAX) {
                throw new IOException("the service answers with " + answer.getHttpCode() + " " + error);
            }
            Thread.sleep(delay);
        }
    }

    /** How long to wait before the next attempt. Negative if another one would fail as well. */
    private static long retryDelayMillis(int httpCode, String body, long backoff) throws IOException {
        JsonObject error = new JsonObject();
        try {
            error = JsonParser.parseString(body).getAsJsonObject();
        } catch (JsonSyntaxException | IllegalStateException e) {
            // It is not JSON, or it is empty.
        }
        if (!error.has("code")) {
            // There is no answer, or a proxy has answered.
            return Set.of(0, 429, 502, 503, 504).contains(httpCode) ? backoff : -1;
        }
        if (error.has("details")) {
            for (JsonElement it : error.getAsJsonArray("details")) {
                JsonObject detail = it.getAsJsonObject();
                if (detail.get("type").getAsString().equals("google.rpc.RetryInfo")) {
                    var fields = UnknownFieldSet.parseFrom(Base64.getDecoder().decode(detail.get("value").getAsString()));
                    Duration delay = Duration.parseFrom(fields.getField(1).getLengthDelimitedList().get(0));
                    return Math.max(backoff, delay.getSeconds() * 1_000 + delay.getNanos() / 1_000_000);
                }
            }
        }
        return Set.of("unavailable", "deadline_exceeded").contains(error.get("code").getAsString()) ? backoff : -1;
    }

    /** Returns the code and the body. The code is 0 without an answer. */
    private static Answer.Builder send(HttpRequest request, long timeoutMillis) {
        Answer.Builder answer = Answer.newBuilder().setMade(true);
        CompletableFuture<HttpResponse<byte[]>> future = CLIENT.sendAsync(request, BodyHandlers.ofByteArray());
        try {
            HttpResponse<byte[]> response = future.get(timeoutMillis, TimeUnit.MILLISECONDS);
            int limit = isOk(response.statusCode()) ? Integer.MAX_VALUE : FAILED_BODY_BYTES;
            int length = Math.min(response.body().length, limit);
            answer.setHttpCode(response.statusCode()).setBody(ByteString.copyFrom(response.body(), 0, length));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException e) {
            System.err.println(request.method() + " " + request.uri() + ": " + e);
        } finally {
            future.cancel(true);
        }
        return answer;
    }
}
