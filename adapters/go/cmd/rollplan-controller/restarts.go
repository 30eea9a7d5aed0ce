package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"rollplan.dev/rollplan/adapters/go/controller"
	"rollplan.dev/rollplan/adapters/go/rollplan"
	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// restartSettings are the flags of the mode "restarts".
type restartSettings struct {
	all, own         *flag.FlagSet // own: those of the mode alone
	options, keyFile *string
	ignored          *string
	selectors        map[string]*string
	secrets, classes *bool
	interval         *time.Duration
	plan             *rollplanv1.RestartOptions
	key              []byte
}

// Names of flags with label selectors.
const (
	namespaceSelector     = "namespace-selector"
	configurationSelector = "configuration-selector"
)

// restartFlags defines the flags of the mode "restarts".
func restartFlags(flags *flag.FlagSet) *restartSettings {
	own := flag.NewFlagSet("", flag.ContinueOnError)
	settings := &restartSettings{
		all:     flags,
		own:     own,
		options: own.String("restart-options", "{}", `in mode restarts, the options of PlanRestarts: a RestartOptions of the API in JSON, for example {"profile":"RESTART_PROFILE_XING"} or {"allWorkloads":true,"maxConcurrent":3}`),
		keyFile: own.String("checksum-key-file", "", "in mode restarts, file with the key of the checksums of configurations. If empty, checksums are plain hashes: anyone who can read a workload can test guesses of secret values against them. Changing the key restarts workloads."),
		ignored: own.String("ignored-namespaces", "", "in mode restarts, comma-separated list of namespaces in which nothing is restarted"),
		selectors: map[string]*string{
			namespaceSelector:     own.String(namespaceSelector, "", "in mode restarts, label selector of the namespaces in which workloads are restarted. If empty, all are selected."),
			configurationSelector: own.String(configurationSelector, "", "in mode restarts, label selector of the ConfigMaps and Secrets to read. A change of another one restarts nothing, nor does a configuration that is created or deleted. If empty, all are read."),
		},
		secrets:  own.Bool("watch-secrets", true, "in mode restarts, whether to read Secrets. If false, a change of a Secret restarts nothing, nor does a configuration that is created or deleted."),
		classes:  own.Bool("watch-secret-provider-classes", false, "in mode restarts, whether to read SecretProviderClassPodStatuses of the Secrets Store CSI driver"),
		interval: own.Duration("restart-interval", 500*time.Millisecond, "in mode restarts, minimum time between two plans for a namespace. One plan at its end covers all changes within it."),
	}
	own.VisitAll(func(it *flag.Flag) { flags.Var(it.Value, it.Name, it.Usage) })
	return settings
}

// parse parses the flags, which are only allowed in their mode.
func (s *restartSettings) parse(mode string) (err error) {
	if mode != restartsMode {
		s.all.Visit(func(given *flag.Flag) {
			if s.own.Lookup(given.Name) != nil {
				err = fmt.Errorf("--%s requires --mode=%s", given.Name, restartsMode)
			}
		})
		return err
	}
	s.plan = &rollplanv1.RestartOptions{}
	if err := protojson.Unmarshal([]byte(*s.options), s.plan); err != nil {
		return fmt.Errorf("--restart-options: %w", err)
	}
	if len(s.plan.GetChecksumKey()) > 0 {
		return errors.New("--restart-options: checksumKey would be visible in the list of processes: use --checksum-key-file")
	}
	if *s.keyFile == "" {
		return nil
	}
	if s.key, err = os.ReadFile(*s.keyFile); err != nil {
		return fmt.Errorf("--checksum-key-file: %w", err)
	}
	if s.key = bytes.TrimSpace(s.key); len(s.key) == 0 {
		return fmt.Errorf("--checksum-key-file: %s is empty", *s.keyFile)
	}
	return nil
}

// add adds the controller of restarts to a manager.
func (s *restartSettings) add(ctx context.Context, mgr ctrl.Manager, planner rollplanv1.RolloutPlannerClient, api *rollplan.API, selector labels.Selector, namespaces []string) error {
	profile := s.plan.GetProfile()
	namespaceLabels, err := s.selector(namespaceSelector)
	if err != nil {
		return err
	}
	configurationLabels, err := s.selector(configurationSelector)
	if err != nil {
		return err
	}
	watches := rollplan.RestartWatches{
		Kinds: rollplan.WorkloadKinds(profile), Selector: selector, Namespaces: namespaces,
		NamespaceSelector: namespaceLabels, IgnoredNamespaces: splitList(*s.ignored), ConfigurationSelector: configurationLabels,
		Secrets: *s.secrets, Classes: *s.classes, Budgets: s.plan.GetDisruptionBudgetWait() != nil,
		Checksums: rollplan.Checksums{Profile: profile, Key: s.key},
	}
	api.Resources = map[schema.GroupVersionKind]string{}
	for _, kind := range s.plan.GetKinds() {
		watches.Kinds = append(watches.Kinds, kind)
		if kind.GetResource() != "" {
			api.Resources[schema.FromAPIVersionAndKind(kind.GetApiVersion(), kind.GetKind())] = kind.GetResource()
		}
	}
	cache, err := rollplan.NewRestartCache(api, watches)
	if err != nil {
		return err
	}
	kinds := slices.DeleteFunc(cache.Kinds(), func(kind schema.GroupVersionKind) bool { return kind == rollplan.Namespace })
	if err := awaitAccess(ctx, api, kinds, namespaces); err != nil {
		return err
	}
	return controller.AddRestarts(mgr, &rollplan.Restarts{
		Planner: planner, Cache: cache, Watches: watches, API: api, Options: s.plan,
		//lint:ignore SA1019 kubectl describe shows count and age of core/v1 events
		Recorder: mgr.GetEventRecorderFor(name), MinInterval: *s.interval,
	})
}

// selector parses a flag with a label selector. It returns nil if the flag is empty.
func (s *restartSettings) selector(name string) (labels.Selector, error) {
	text := *s.selectors[name]
	if text == "" {
		return nil, nil
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", name, err)
	}
	return selector, nil
}
