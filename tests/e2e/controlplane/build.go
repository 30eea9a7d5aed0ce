package controlplane

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Programs outside the Kubernetes module. They are installed with `go install`, independently of our go.mod.
const (
	kwokModule     = "sigs.k8s.io/kwok"
	kwokVersion    = "v0.7.0"
	grpcurlModule  = "github.com/fullstorydev/grpcurl"
	grpcurlVersion = "v1.9.4"
)

// Modules whose versions go.mod pins.
const (
	testsModule = "rollplan.dev/rollplan/tests"
	k8sModule   = "k8s.io/kubernetes"
	etcdModule  = "go.etcd.io/etcd/server/v3"
)

// CacheEnv overrides the directory of the built programs.
const CacheEnv = "ROLLPLAN_K8S_CACHE"

// Programs are the programs that Build has built.
type Programs struct {
	// Dir contains every program under its own name, so that it can be added to PATH.
	Dir string
	// K8sVersion is the Kubernetes version of the programs, for example v1.37.2.
	K8sVersion string
}

// Path returns the path of a program.
func (p Programs) Path(name string) string { return filepath.Join(p.Dir, name) }

// Programs that only some callers need.
const (
	// E2ETest is the end-to-end test binary of Kubernetes.
	E2ETest = "e2e.test"
	// Kubelet and KubeProxy run a real node.
	Kubelet   = "kubelet"
	KubeProxy = "kube-proxy"
)

// program describes how to build a program.
type program struct {
	name string
	// pkg is its Go package.
	pkg string
	// module and version must match the build information of the binary. Otherwise, it is rebuilt.
	module, version string
	// installed is true for a program that is not in the build list of our module.
	installed bool
	// test is true for a test binary (go test -c).
	test bool
}

var building sync.Mutex

// Build builds the programs that are missing in the cache or have another version. Extra lists additional programs that
// the control plane itself does not need: E2ETest, Kubelet and KubeProxy. Concurrent calls wait for each other.
func Build(ctx context.Context, progress io.Writer, extra ...string) (Programs, error) {
	building.Lock()
	defer building.Unlock()
	k8s, err := pinned(ctx, k8sModule)
	if err != nil {
		return Programs{}, err
	}
	etcd, err := pinned(ctx, etcdModule)
	if err != nil {
		return Programs{}, err
	}
	dir, err := cacheDir(k8s.Version)
	if err != nil {
		return Programs{}, err
	}
	programs := []program{{name: "etcd", pkg: testsModule + "/e2e/etcd", module: etcdModule, version: etcd.Version}}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"} {
		programs = append(programs, program{name: name, pkg: k8sModule + "/cmd/" + name, module: k8sModule, version: k8s.Version})
	}
	programs = append(programs,
		program{name: "kwok", pkg: kwokModule + "/cmd/kwok", module: kwokModule, version: kwokVersion, installed: true},
		program{name: "grpcurl", pkg: grpcurlModule + "/cmd/grpcurl", module: grpcurlModule, version: grpcurlVersion, installed: true})
	for _, name := range extra {
		switch name {
		case E2ETest:
			programs = append(programs, program{name: name, pkg: k8sModule + "/test/e2e", module: k8sModule, version: k8s.Version, test: true})
		case Kubelet, KubeProxy:
			programs = append(programs, program{name: name, pkg: k8sModule + "/cmd/" + name, module: k8sModule, version: k8s.Version})
		default:
			return Programs{}, fmt.Errorf("unknown program %q", name)
		}
	}
	for _, p := range programs {
		if isBuilt(filepath.Join(dir, p.name), p) {
			continue
		}
		fmt.Fprintf(progress, "building %s %s into %s\n", p.name, p.version, dir)
		if err := build(ctx, progress, dir, k8s.Version, p); err != nil {
			return Programs{}, fmt.Errorf("build %s: %w", p.name, err)
		}
	}
	if err := saveStages(ctx, dir); err != nil {
		return Programs{}, fmt.Errorf("save the stages of kwok: %w", err)
	}
	return Programs{Dir: dir, K8sVersion: k8s.Version}, nil
}

func cacheDir(k8sVersion string) (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return filepath.Abs(dir)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "rollplan", "k8s-"+k8sVersion), nil
}

// build builds a program in a temporary directory and then moves it into the cache, so that an interrupted or concurrent
// build never leaves an incomplete program there.
func build(ctx context.Context, progress io.Writer, dir, k8sVersion string, p program) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, p.name)

	var args []string
	switch {
	case p.installed:
		args = []string{"install", "-buildvcs=false", p.pkg + "@" + p.version}
	case p.test:
		args = []string{"test", "-c", "-vet=off", "-buildvcs=false", "-ldflags", versionFlags(k8sVersion), "-o", out, p.pkg}
	default:
		args = []string{"build", "-buildvcs=false", "-ldflags", versionFlags(k8sVersion), "-o", out, p.pkg}
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOBIN="+tmp)
	cmd.Stdout, cmd.Stderr = progress, progress
	if p.installed {
		cmd.Dir = tmp // outside our module, so that its build list does not affect the dependencies
	} else if cmd.Dir, err = moduleDir(ctx); err != nil {
		return err
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return os.Rename(out, filepath.Join(dir, p.name))
}

// versionFlags sets the version. Without it, the API server reports v0.0.0 and rejects requests that depend on it.
func versionFlags(version string) string {
	const pkg = "k8s.io/component-base/version."
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return fmt.Sprintf("-X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s", pkg, version, parts[0], parts[1])
}

// isBuilt reports whether the file contains the program at the wanted version.
func isBuilt(path string, p program) bool {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return false
	}
	if info.Main.Path == p.module {
		return info.Main.Version == p.version
	}
	for _, dep := range info.Deps {
		if dep.Path == p.module {
			return dep.Version == p.version
		}
	}
	return false
}

// module is the output of `go list -m -json` and `go mod download -json`.
type module struct {
	Path, Version, Dir string
}

func pinned(ctx context.Context, path string) (module, error) {
	return goJSON(ctx, "list", "-m", "-json", path)
}

func moduleDir(ctx context.Context) (string, error) {
	m, err := pinned(ctx, testsModule)
	return m.Dir, err
}

func goJSON(ctx context.Context, args ...string) (module, error) {
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return module{}, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	var m module
	if err := json.Unmarshal(out.Bytes(), &m); err != nil {
		return module{}, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return m, nil
}

// kwokStages are the files in the kwok repository that our stages are based on.
var kwokStages = []string{
	"node/fast/node-initialize.yaml",
	"node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
	"pod/fast/pod-ready.yaml",
	"pod/fast/pod-complete.yaml",
	"pod/fast/pod-delete.yaml",
}

func stagesDir(cache string) string { return filepath.Join(cache, "kwok-stages-"+kwokVersion) }

// saveStages copies the stages of kwok into the cache, so that starting a control plane does not need the network.
func saveStages(ctx context.Context, cache string) error {
	dir := stagesDir(cache)
	if _, err := os.Stat(dir); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m, err := goJSON(ctx, "mod", "download", "-json", kwokModule+"@"+kwokVersion)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(cache, ".stages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, name := range kwokStages {
		text, err := os.ReadFile(filepath.Join(m.Dir, "kustomize", "stage", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tmp, filepath.Base(name)), text, 0o644); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
