package chart

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// The commands of docs/guides/install.md create a Secret with all keys that the pods mount, and a certificate for the addresses of the
// Services, including the one that the adapter calls.
func TestDocumentedSecretNamesTheServices(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(root, "docs/guides/install.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(document), "### Certificates\n")
	_, section, _ = strings.Cut(section, "```sh\n")
	commands, _, found := strings.Cut(section, "```\n")
	if !found {
		t.Fatal("docs/guides/install.md has no commands")
	}
	// This replacement of kubectl copies the files, and prints the other arguments.
	dir := t.TempDir()
	kubectl := `#!/bin/sh
for argument; do
  case $argument in --from-file=*) cp "${argument#--from-file=}" ` + dir + ` ;; *) printf '%s ' "$argument" ;; esac
done
`
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectl), 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("bash", "-euc", commands)
	command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TMPDIR="+t.TempDir())
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if want := "create secret generic rollplan-tls -n rollplan-system "; err != nil || string(out) != want {
		t.Fatalf("%v: %q, want %q\n%s", err, out, want, stderr.String())
	}

	var addresses []string
	keys := map[string]bool{}
	for _, object := range render(t, "--set", "adapter.enabled=true,tls.enabled=true,tls.secretName=rollplan-tls") {
		switch object := object.(type) {
		case *corev1.Service:
			if slices.ContainsFunc(object.Spec.Ports, func(port corev1.ServicePort) bool { return port.Name == "grpc" }) {
				addresses = append(addresses, object.Name+"."+object.Namespace+".svc", object.Name+"."+object.Namespace+".svc.cluster.local")
			}
		case *appsv1.Deployment:
			for _, volume := range object.Spec.Template.Spec.Volumes {
				if volume.Secret == nil || volume.Secret.SecretName != "rollplan-tls" {
					continue
				}
				for _, item := range volume.Secret.Items {
					keys[item.Key] = true
				}
			}
			for _, arg := range object.Spec.Template.Spec.Containers[0].Args {
				if found := regexp.MustCompile(`^--planner=(.*):\d+$`).FindStringSubmatch(arg); found != nil {
					addresses = append(addresses, found[1])
				}
			}
		}
	}
	if len(addresses) != 5 || !slices.Contains(addresses, "rollplan-headless.rollplan-system.svc") {
		t.Fatalf("the addresses are %v", addresses)
	}
	for _, key := range []string{"ca.crt", "tls.crt", "tls.key"} {
		keys[key] = true
	}
	for key := range keys {
		if _, err := os.Stat(filepath.Join(dir, key)); err != nil {
			t.Errorf("the Secret has no %s", key)
		}
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatal("ca.crt has no certificate")
	}
	for _, address := range addresses {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: address}); err != nil {
			t.Error(err)
		}
	}
}
