package adapter

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

// TestCertificates runs the commands of docs/guides/install.md that create the Secret of the certificate. The service and the adapter
// must accept what is in the Secret, and the adapter must reach the service by the name of the headless Service.
func TestCertificates(t *testing.T) {
	t.Parallel()
	cp := controlplane.ForTest(t, controlplane.Options{})
	ctx := withTimeout(t, 5*time.Minute)
	s, err := Install(ctx, cp, binaries, CustomResource)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	root, err := Repository(ctx)
	if err != nil {
		t.Fatal(err)
	}
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
	command := exec.CommandContext(ctx, "bash", "-euc", commands)
	command.Env = s.Env()
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	// As the kubelet mounts it.
	secret, err := s.Typed.CoreV1().Secrets(systemNamespace).Get(ctx, "rollplan-tls", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for key, value := range secret.Data {
		if err := os.WriteFile(filepath.Join(dir, key), value, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.StartService("--tls-cert="+filepath.Join(dir, "tls.crt"), "--tls-key="+filepath.Join(dir, "tls.key")); err != nil {
		t.Fatal(err)
	}
	// The control plane has no cluster DNS. A proxy takes its place.
	proxy := proxyTo(t, s.Address())
	program := filepath.Join(dir, "adapter")
	script := fmt.Sprintf("#!/bin/sh\nHTTPS_PROXY=http://%s NO_PROXY=127.0.0.1 exec %s \"$@\"\n", proxy, s.binaries.Adapter)
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s.binaries.Adapter = program
	if err := s.StartAdapter("adapter", "--leader-elect=false", "--planner=rollplan-headless.rollplan-system.svc:50051",
		"--planner-ca="+filepath.Join(dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	deploy(ctx, t, s, "default", "web")
	(plannedKubectl{kubectl{s, "default"}}).complete(ctx, t, "web", 1)
}

// proxyTo starts an HTTP proxy that connects every tunnel to this address.
func proxyTo(t *testing.T, address string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only tunnels", http.StatusMethodNotAllowed)
			return
		}
		upstream, err := (&net.Dialer{}).DialContext(context.WithoutCancel(r.Context()), "tcp", address)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		client, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			upstream.Close()
			return
		}
		defer client.Close()
		defer upstream.Close()
		if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
			return
		}
		go io.Copy(upstream, buffered)
		_, _ = io.Copy(client, upstream)
	})}
	t.Cleanup(func() { server.Close() })
	go server.Serve(listener)
	return listener.Addr().String()
}
