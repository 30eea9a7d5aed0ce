import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.Durations;
import com.google.protobuf.util.JsonFormat;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import rollplan.v1.Canary.PlanCanaryRequest;
import rollplan.v1.Plan.PlanOptions;
import rollplan.v1.Plan.Sync;
import rollplan.v1.Plan.Target;

/** The driver of tests/conformance. */
public final class Driver {
    private static final Gson GSON = new Gson();

    private record Command(String command, String api, String planner, String protocol, JsonObject owner, JsonObject options,
        long statusIntervalMs, long minIntervalMs, long plannerTimeoutMs, List<String> cache, JsonObject request) {}

    private Adapter adapter;

    public static void main(String[] arguments) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Driver driver = new Driver();
        // Commands are carried out one after another, while the next one is read: it may cancel the current one.
        ExecutorService worker = Executors.newSingleThreadExecutor();
        Future<?> current = null;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Command command = GSON.fromJson(line, Command.class);
            if (!command.command.equals("cancel")) {
                current = worker.submit(() -> output.println(driver.reply(command)));
            } else if (current != null) {
                current.cancel(true);
            }
        }
        worker.shutdown();
    }

    private JsonObject reply(Command command) {
        try {
            return command.command.equals("start") ? start(command) : sync(command);
        } catch (IOException e) {
            return reply("failed", e.getMessage());
        } catch (RuntimeException e) {
            e.printStackTrace();
            return reply("failed", e.toString());
        } catch (InterruptedException e) {
            return reply("cancelled", "");
        }
    }

    private JsonObject start(Command command) throws IOException {
        if (!command.protocol.equals("connect-proto")) {
            throw new IllegalArgumentException("unknown protocol " + command.protocol);
        }
        Http http = new Http(command.api, command.planner, command.plannerTimeoutMs);
        Target owner = merge(Target.newBuilder(), command.owner).build();
        PlanOptions options = merge(PlanOptions.newBuilder(), command.options).build();
        Sync settings = Sync.newBuilder().setStatusInterval(Durations.fromMillis(command.statusIntervalMs))
            .setMinInterval(Durations.fromMillis(command.minIntervalMs)).build();
        adapter = new Adapter(http, owner, options, settings);
        return new JsonObject();
    }

    private JsonObject sync(Command command) throws IOException, InterruptedException {
        List<KubeObject> cache = command.cache.stream().map(KubeObject::parse).toList();
        Adapter.Result result = command.command.equals("canary")
            ? adapter.canary(cache, merge(PlanCanaryRequest.newBuilder(), command.request).build())
            : adapter.sync(cache);
        JsonObject reply = reply(result.outcome(), "");
        if (result.atLatest() != null) {
            reply.addProperty("requeueAfterMs", result.atLatest().toNanos() / 1e6);
        }
        if (result.notBefore() != null) {
            reply.addProperty("notBeforeMs", result.notBefore().toNanos() / 1e6);
        }
        return reply;
    }

    private static JsonObject reply(String outcome, String error) {
        JsonObject reply = new JsonObject();
        reply.addProperty("outcome", outcome);
        reply.addProperty("error", error);
        return reply;
    }

    private static <T extends Message.Builder> T merge(T builder, JsonObject fields) throws InvalidProtocolBufferException {
        JsonFormat.parser().merge(fields == null ? "{}" : fields.toString(), builder);
        return builder;
    }
}
