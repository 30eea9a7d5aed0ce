package controller

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"rollplan.dev/rollplan/adapters/go/rollplan"
	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

var (
	restartsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rollplan_controller_restarts_total",
		Help: "Restarts after changes of configurations, by the kind of the workload.",
	}, []string{"kind"})
	restartCauses = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rollplan_controller_restart_causes_total",
		Help: "Changes that caused restarts, by the kind of the configuration and the type of the change.",
	}, []string{"configuration", "type"})
	restartDecisions = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rollplan_controller_restart_workloads",
		Help: "Workloads by the decision of the last plan, if there is one to report.",
	}, []string{"decision"})
	restartConditions = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rollplan_controller_restart_conditions",
		Help: "Workloads by the conditions of their decision in the last plan.",
	}, []string{"reason"})
	restartConfigurations = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rollplan_controller_restart_configurations",
		Help: "Configurations that are watched, by kind.",
	}, []string{"configuration"})
)

// xingMetrics are the metrics of the xing controller, with its names and without labels.
type xingMetrics struct {
	versions, annotations, restarts, changes prometheus.Counter
	configs, deployments, waiting            prometheus.Gauge
}

// restartMetrics keeps the metrics of restarts. Gauges are totals over the last plans of all namespaces.
type restartMetrics struct {
	latest map[string]*plannedRestarts
	// xing is nil in other profiles.
	xing *xingMetrics
}

// plannedRestarts holds the totals of the last plan of a namespace.
type plannedRestarts struct {
	selected              int32
	decisions, conditions map[string]int
}

// newRestartMetrics registers the metrics of a profile.
func newRestartMetrics(profile rollplanv1.RestartProfile) *restartMetrics {
	register(restartsTotal, restartCauses, restartDecisions, restartConditions, restartConfigurations)
	m := &restartMetrics{latest: map[string]*plannedRestarts{}}
	if profile != rollplanv1.RestartProfile_RESTART_PROFILE_XING {
		return m
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "deployment_restart_controller_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "deployment_restart_controller_" + name, Help: help})
	}
	m.xing = &xingMetrics{
		versions:    counter("resource_versions_total", "Versions of workloads and configurations that were observed."),
		annotations: counter("deployment_annotation_updates_total", "Updates of annotations of workloads."),
		restarts:    counter("deployment_restarts_total", "Restarts of workloads."),
		changes:     counter("changes_processed_total", "Changes of configurations that caused restarts."),
		configs:     gauge("configs_total", "Configurations that are watched."),
		deployments: gauge("deployments_total", "Workloads that react to configurations."),
		waiting:     gauge("changes_waiting_total", "Workloads whose restart is waiting."),
	}
	register(m.xing.versions, m.xing.annotations, m.xing.restarts, m.xing.changes, m.xing.configs, m.xing.deployments, m.xing.waiting)
	return m
}

// register registers collectors, unless they are registered already.
func register(collectors ...prometheus.Collector) {
	for _, each := range collectors {
		_ = ctrlmetrics.Registry.Register(each) // fails only for those that are registered
	}
}

// observe records what was planned for namespaces and carried out.
func (m *restartMetrics) observe(result rollplan.RestartResult, cache *rollplan.Cache) {
	for _, namespace := range result.Namespaces {
		now := &plannedRestarts{decisions: map[string]int{}, conditions: map[string]int{}}
		if before := m.latest[namespace]; before != nil {
			now.selected = before.selected
		}
		if len(result.Namespaces) == 1 { // counts are those of all namespaces
			now.selected = result.Counts.GetSelected()
		}
		m.latest[namespace] = now
	}
	for _, plan := range result.Plans {
		planned := m.latest[plan.GetNamespace()]
		planned.decisions[strings.ToLower(strings.TrimPrefix(plan.GetDecision().String(), "RESTART_DECISION_"))]++
		for _, condition := range plan.GetConditions() {
			planned.conditions[strings.ToLower(condition.GetReason())]++
		}
	}
	for _, plan := range result.Applied {
		m.applied(plan)
	}
	m.setGauges(cache)
}

// applied counts a plan that was carried out.
func (m *restartMetrics) applied(plan *rollplanv1.RestartPlan) {
	isRestart := plan.GetDecision() == rollplanv1.RestartDecision_RESTART_DECISION_RESTART
	if m.xing != nil {
		m.xing.annotations.Inc()
	}
	if !isRestart {
		return
	}
	restartsTotal.WithLabelValues(plan.GetKind()).Inc()
	for _, change := range plan.GetChanges() {
		restartCauses.WithLabelValues(configurationLabel(change.GetKind()), change.GetType()).Inc()
	}
	if m.xing != nil {
		m.xing.restarts.Inc()
		m.xing.changes.Add(float64(len(plan.GetChanges())))
	}
}

func (m *restartMetrics) setGauges(cache *rollplan.Cache) {
	restartDecisions.Reset()
	restartConditions.Reset()
	selected, waiting := int32(0), 0
	for _, planned := range m.latest {
		selected += planned.selected
		waiting += planned.decisions["wait"] + planned.decisions["hold"]
		for decision, count := range planned.decisions {
			restartDecisions.WithLabelValues(decision).Add(float64(count))
		}
		for reason, count := range planned.conditions {
			restartConditions.WithLabelValues(reason).Add(float64(count))
		}
	}
	configurations := 0
	for _, kind := range cache.Kinds() {
		if kind == rollplan.ConfigMap || kind == rollplan.Secret || kind == rollplan.SecretProviderClassPodStatus {
			count := cache.Len(kind)
			configurations += count
			restartConfigurations.WithLabelValues(kind.Kind).Set(float64(count))
		}
	}
	if m.xing != nil {
		m.xing.configs.Set(float64(configurations))
		m.xing.deployments.Set(float64(selected))
		m.xing.waiting.Set(float64(waiting))
	}
}

// observeVersion counts a version of a workload or configuration that was observed.
func (m *restartMetrics) observeVersion(object *rollplan.Object) {
	isContext := object.GVK() == rollplan.Pod || object.GVK() == rollplan.ReplicaSet || object.GVK() == rollplan.Namespace
	if m.xing != nil && !isContext {
		m.xing.versions.Inc()
	}
}

// configurationLabel returns the label value of a kind of configuration, or "none" for a change without one.
func configurationLabel(kind rollplanv1.ConfigurationKind) string {
	switch kind {
	case rollplanv1.ConfigurationKind_CONFIGURATION_KIND_CONFIG_MAP:
		return rollplan.ConfigMap.Kind
	case rollplanv1.ConfigurationKind_CONFIGURATION_KIND_SECRET:
		return rollplan.Secret.Kind
	case rollplanv1.ConfigurationKind_CONFIGURATION_KIND_SECRET_PROVIDER_CLASS:
		return "SecretProviderClass"
	default:
		return "none"
	}
}
