package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const commandsNamespace = "canary-commands"

// TestCanaryCommands runs the commands of a person who starts canaries, repeats commands, and meets a Deployment that does not go on.
func TestCanaryCommands(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cp := controlplane.ForTest(t, controlplane.Options{NativeController: true})
	if err := cp.CreateNamespace(ctx, commandsNamespace); err != nil {
		t.Fatal(err)
	}
	c := &canaryCommands{cliCheck: &cliCheck{cp: cp, binary: rollplan(t)}, namespace: commandsNamespace}
	c.create(ctx, t)

	// A repeated start continues the canary, and an option that cannot be followed is refused.
	start := []string{"start", "--image", "main=registry.example/web:2.0"}
	c.ends(ctx, t, 3, "the canary starts", append(start, "--bake", "1h")...)
	c.ends(ctx, t, 3, "must stay ready for", append(start, "--watch", "--timeout", "2s", "--on-timeout", "hold")...)
	c.ends(ctx, t, 2, `unable to find container named "nope"`, "start", "--image", "nope=registry.example/web:2.0")
	c.ends(ctx, t, 2, "has no later step", append(start, "--pods", "2")...)
	// The criteria of the start are remembered.
	c.ends(ctx, t, 3, "must stay ready for", "status")
	c.ends(ctx, t, 2, "is not good", "promote")
	c.ends(ctx, t, 0, "the promotion is complete", "promote", "--force")
	c.ends(ctx, t, 0, "already has this pod template", start...)

	// Nothing goes on while the Deployment is paused.
	c.ends(ctx, t, 3, "the canary starts", "start", "--image", "main=registry.example/web:3.0")
	cp.MustKubectl(ctx, t, "rollout", "pause", "deployment/web", "-n", commandsNamespace)
	c.ends(ctx, t, 3, "", "promote", "--force", "--timeout", "2s")
	cp.MustKubectl(ctx, t, "rollout", "resume", "deployment/web", "-n", commandsNamespace)
	c.ends(ctx, t, 0, "the promotion is complete", "promote", "--force")

	// Without the stable ReplicaSet, there is nothing to return to. Each message names the command that goes on.
	c.ends(ctx, t, 3, "the canary starts", "start", "--image", "main=registry.example/web:404")
	cp.MustKubectl(ctx, t, "delete", "replicaset", "-n", commandsNamespace, "-l", "app=web",
		"--field-selector=metadata.name="+c.stable(ctx, t))
	c.ends(ctx, t, 3, "no longer has the ReplicaSet of the stable template", "status")
	c.ends(ctx, t, 2, "canary promote --force", "abort")
	c.ends(ctx, t, 3, "", "promote", "--force", "--timeout", "2s")
	c.ends(ctx, t, 2, "canary release", "abort")
	c.ends(ctx, t, 0, "without a canary", "release")
	c.setImage(ctx, t, "4.0")
	c.complete(ctx, t)
}

// canaryCommands runs `rollplan canary` for the Deployment "web".
type canaryCommands struct {
	*cliCheck
	namespace string
}

func (c *canaryCommands) create(ctx context.Context, t *testing.T) {
	t.Helper()
	c.cp.MustKubectl(ctx, t, "create", "deployment", "web", "--image=registry.example/web:1.0", "--replicas=3", "-n", c.namespace)
	c.cp.MustKubectl(ctx, t, "patch", "deployment/web", "-n", c.namespace, "--type=json", "-p",
		`[{"op": "replace", "path": "/spec/template/spec/containers/0/name", "value": "main"}]`)
	c.complete(ctx, t)
}

// ends runs a command, and requires its exit code, and a text in what it prints.
func (c *canaryCommands) ends(ctx context.Context, t *testing.T, code int, says string, args ...string) {
	t.Helper()
	have, out, errOut := c.run(ctx, t, c.arguments(args)...)
	if text := strings.Join(strings.Fields(out+errOut), " "); have != code || !strings.Contains(text, says) {
		t.Fatalf("%s ends with %d, want %d and %q:\n%s%s", strings.Join(args, " "), have, code, says, out, errOut)
	}
	t.Logf("%s ends with %d:\n%s%s", strings.Join(args, " "), have, out, errOut)
}

// arguments are those of a command, for the Deployment.
func (c *canaryCommands) arguments(args []string) []string {
	options := []string{"canary", args[0], "deploy/web", "-n", c.namespace}
	if args[0] == "promote" || args[0] == "abort" || slices.Contains(args, "--watch") {
		options = append(options, "--interval", "300ms")
	}
	return append(options, args[1:]...)
}

// stable is the name of the ReplicaSet with most pods.
func (c *canaryCommands) stable(ctx context.Context, t *testing.T) string {
	t.Helper()
	names := strings.Fields(c.cp.MustKubectl(ctx, t, "get", "replicasets", "-n", c.namespace, "--sort-by=.spec.replicas",
		"-o", "jsonpath={.items[*].metadata.name}"))
	return names[len(names)-1]
}

func (c *canaryCommands) setImage(ctx context.Context, t *testing.T, tag string) {
	t.Helper()
	c.cp.MustKubectl(ctx, t, "set", "image", "deployment/web", "-n", c.namespace, "main=registry.example/web:"+tag)
}

func (c *canaryCommands) complete(ctx context.Context, t *testing.T) {
	t.Helper()
	c.cp.MustKubectl(ctx, t, "rollout", "status", "deployment/web", "-n", c.namespace, "--timeout="+rolloutTimeout)
}
