// Command controlplane builds and runs a Kubernetes control plane for development.
//
//	go run ./e2e/cmd/controlplane build [--e2e-test] [--node]
//	go run ./e2e/cmd/controlplane up [--native-controller]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"rollplan.dev/rollplan/tests/e2e/controlplane"
)

const usage = `usage: controlplane build [--e2e-test] [--node]
       controlplane up [--native-controller]`

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("invalid usage")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "build":
		e2eTest := flags.Bool("e2e-test", false, "also build e2e.test, the end-to-end tests of Kubernetes")
		node := flags.Bool("node", false, "also build kubelet and kube-proxy, for a real node")
		if err := flags.Parse(args[1:]); err != nil || flags.NArg() > 0 {
			return errUsage
		}
		var extra []string
		if *node {
			extra = append(extra, controlplane.Kubelet, controlplane.KubeProxy)
		}
		if *e2eTest {
			extra = append(extra, controlplane.E2ETest)
		}
		programs, err := controlplane.Build(ctx, os.Stderr, extra...)
		if err == nil {
			fmt.Println(programs.Dir)
		}
		return err
	case "up":
		native := flags.Bool("native-controller", false, "enable the Deployment controller of kube-controller-manager")
		if err := flags.Parse(args[1:]); err != nil || flags.NArg() > 0 {
			return errUsage
		}
		return up(ctx, controlplane.Options{NativeController: *native})
	default:
		return errUsage
	}
}

// up runs a control plane until it receives a signal.
func up(ctx context.Context, options controlplane.Options) error {
	programs, err := controlplane.Build(ctx, os.Stderr)
	if err != nil {
		return err
	}
	c, err := controlplane.Start(ctx, programs, options)
	if err != nil {
		return err
	}
	fmt.Println(c.Kubeconfig())
	fmt.Fprintf(os.Stderr, "ready; programs are in %s, logs in %s; press Ctrl-C to stop\n", programs.Dir, c.Dir())
	err = c.Wait(ctx)
	return errors.Join(err, c.Stop(err != nil))
}
