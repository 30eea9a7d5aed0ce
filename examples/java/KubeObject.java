import com.google.gson.Gson;
import java.util.List;

/** An object as the API server printed it, and the fields that the loop reads. */
record KubeObject(String text, String apiVersion, String kind, Metadata metadata) {
    private static final Gson GSON = new Gson();

    record Metadata(String namespace, String name, String uid, String resourceVersion, List<Owner> ownerReferences) {}

    record Owner(String uid, boolean controller) {}

    static KubeObject parse(String text) {
        KubeObject it = GSON.fromJson(text, KubeObject.class);
        return new KubeObject(text, it.apiVersion, it.kind, it.metadata);
    }

    String uid() {
        return metadata.uid;
    }

    /** The UID of the controller, or "". */
    String controller() {
        List<Owner> owners = metadata.ownerReferences == null ? List.of() : metadata.ownerReferences;
        return owners.stream().filter(Owner::controller).map(Owner::uid).findFirst().orElse("");
    }
}
