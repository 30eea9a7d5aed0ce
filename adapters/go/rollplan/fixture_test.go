package rollplan

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// planner is a fake service. It returns the given plans and reports one after the other, then empty plans, and records the
// requests.
type planner struct {
	rollplanv1.RolloutPlannerClient
	plans     []*rollplanv1.PlanRolloutResponse
	err       error
	reports   []*rollplanv1.RolloutReport
	requests  []*rollplanv1.PlanRolloutRequest
	statuses  []*rollplanv1.ComputeStatusRequest
	forecasts []*rollplanv1.ForecastRolloutRequest
	canaries  []*rollplanv1.PlanCanaryRequest
}

func (p *planner) PlanRollout(_ context.Context, request *rollplanv1.PlanRolloutRequest, _ ...grpc.CallOption) (*rollplanv1.PlanRolloutResponse, error) {
	p.requests = append(p.requests, proto.CloneOf(request))
	if p.err != nil {
		return nil, p.err
	}
	response := &rollplanv1.PlanRolloutResponse{}
	if len(p.plans) > 0 {
		response, p.plans = p.plans[0], p.plans[1:]
	}
	if response.Sync == nil {
		response.Sync = &rollplanv1.SyncResponse{}
	}
	if response.Sync.Value == nil {
		response.Sync.Value = []byte{byte(len(p.requests))}
	}
	return response, nil
}

// oldPlanner is a service of a version that only answers single questions.
type oldPlanner struct {
	rollplanv1.RolloutPlannerClient
}

func (oldPlanner) PlanRollout(context.Context, *rollplanv1.PlanRolloutRequest, ...grpc.CallOption) (*rollplanv1.PlanRolloutResponse, error) {
	return &rollplanv1.PlanRolloutResponse{Steps: []*rollplanv1.Step{patch("", webPath)}}, nil
}

func (p *planner) ComputeStatus(_ context.Context, request *rollplanv1.ComputeStatusRequest, _ ...grpc.CallOption) (*rollplanv1.ComputeStatusResponse, error) {
	p.statuses = append(p.statuses, request)
	report := p.reports[0]
	p.reports = p.reports[1:]
	return &rollplanv1.ComputeStatusResponse{Report: report}, nil
}

func (p *planner) ForecastRollout(_ context.Context, request *rollplanv1.ForecastRolloutRequest, _ ...grpc.CallOption) (*rollplanv1.ForecastRolloutResponse, error) {
	p.forecasts = append(p.forecasts, request)
	return &rollplanv1.ForecastRolloutResponse{Effect: rollplanv1.ChangeEffect_CHANGE_EFFECT_SCALE_ONLY}, nil
}

func (p *planner) PlanCanary(_ context.Context, request *rollplanv1.PlanCanaryRequest, _ ...grpc.CallOption) (*rollplanv1.PlanCanaryResponse, error) {
	p.canaries = append(p.canaries, request)
	return &rollplanv1.PlanCanaryResponse{Report: &rollplanv1.CanaryReport{Phase: rollplanv1.CanaryPhase_CANARY_PHASE_HOLD}}, nil
}

// cluster is an API server whose objects do not change and whose watches report nothing. A patch returns the object with the
// version 2. What depends on an API server that stores objects is tested with the transcripts in tests/conformance.
type cluster struct {
	mu      sync.Mutex
	objects map[string][]string // by path, of the object or of a list
	patches []string
	// reject maps the path of an object to the code of the answer to a patch.
	reject map[string]int
	// answers are the answers to other calls, by method, path and query. With the code 0, there is none.
	answers map[string]Answer
	// before is called before each call, unless it is nil.
	before func(call string)
	lists  []string
}

func (c *cluster) RoundTrip(request *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := request.URL.Path
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: request}
	body := ""
	call := strings.TrimSuffix(request.Method+" "+path+"?"+request.URL.RawQuery, "?")
	if c.before != nil {
		c.before(call)
	}
	answer, hasAnswer := c.answers[call]
	switch {
	case request.Context().Err() != nil:
		return nil, request.Context().Err()
	case hasAnswer && answer.Code == 0:
		return nil, errors.New("connection reset")
	case hasAnswer:
		response.StatusCode, body = answer.Code, string(answer.Body)
	case request.Method == http.MethodPatch:
		c.patches = append(c.patches, path+" "+string(must(io.ReadAll(request.Body))))
		if code := c.reject[path]; code != 0 {
			response.StatusCode = code
			body = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Invalid","code":%d}`, code)
			break
		}
		body = strings.Replace(c.objects[path][0], `"resourceVersion":"1"`, `"resourceVersion":"2"`, 1)
	case request.URL.Query().Get("watch") == "true":
		// Like the API server, streams the objects and then a bookmark.
		reader, writer := io.Pipe()
		response.Body = reader
		objects := c.objects[path]
		if request.URL.Query().Get("sendInitialEvents") != "true" {
			objects = nil
		}
		go func() {
			for _, object := range objects {
				fmt.Fprintf(writer, `{"type":"ADDED","object":%s}`+"\n", strings.ReplaceAll(object, "\n", " "))
			}
			fmt.Fprintln(writer, `{"type":"BOOKMARK","object":{"kind":"Any","apiVersion":"v1","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
			<-request.Context().Done()
			writer.Close()
		}()
		return response, nil
	default:
		c.lists = append(c.lists, path)
		body = `{"kind":"AnyList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` + strings.Join(c.objects[path], ",") + `]}`
	}
	response.Body = io.NopCloser(strings.NewReader(body))
	return response, nil
}

const (
	deploymentsPath = "/apis/apps/v1/deployments"
	replicaSetsPath = "/apis/apps/v1/replicasets"
	podsPath        = "/api/v1/pods"
	webPath         = "/apis/apps/v1/namespaces/shop/deployments/web"
)

func webDeployment(namespace, state string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":%q,"uid":"uid-%s","resourceVersion":"1","generation":3,
		"labels":{"app":"web"},"annotations":{"rollplan.dev/restart":"enabled","rollplan.dev/restart-state":%q,
		"kubectl.kubernetes.io/last-applied-configuration":"{\"hunter2-applied\":1}"}},
		"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"},"annotations":{"note":"hunter2-applied"}},
		"spec":{"containers":[{"name":"app","image":"app:1","command":["run","--password=hunter2-command"],"env":[
			{"name":"PLAIN","value":"hunter2-env"},{"name":"STAKATER_APP_CONFIGMAP","value":"0123"},{"name":"DB","valueFrom":{"secretKeyRef":{"name":"db","key":"password"}}}],
			"envFrom":[{"configMapRef":{"name":"app"}}]}],"volumes":[{"name":"v","projected":{"sources":[{"secret":{"name":"tls"}}]}}]}}},
		"status":{"observedGeneration":3,"replicas":2,"updatedReplicas":2,"availableReplicas":2,
			"conditions":[{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"hunter2-applied","lastUpdateTime":"2026-01-01T00:00:00Z"}]}}`,
		namespace, namespace, state)
}

// shop is a cluster with a Deployment, its pod, and configurations with planted values.
func shop() *cluster {
	encode := base64.StdEncoding.EncodeToString
	return &cluster{reject: map[string]int{}, objects: map[string][]string{
		deploymentsPath: {webDeployment("shop", "{}")},
		webPath:         {webDeployment("shop", "{}")},
		replicaSetsPath: {`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-1","namespace":"shop","uid":"set","resourceVersion":"1",
			"creationTimestamp":"2026-01-01T00:00:00Z","annotations":{"deployment.kubernetes.io/revision":"1","other":"hunter2-applied"},
			"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"uid-shop","controller":true}]},
			"spec":{"template":{"spec":{"containers":[{"env":[{"name":"A","value":"hunter2-env"}]}]}}},"status":{"replicas":1}}`},
		podsPath: {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1-a","namespace":"shop","uid":"pod","resourceVersion":"1","labels":{"app":"web"},
			"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","uid":"set","controller":true}]},
			"spec":{"containers":[{"env":[{"name":"A","value":"hunter2-env"}]}]},
			"status":{"phase":"Running","containerStatuses":[{"name":"app","state":{"running":{"startedAt":"2026-01-01T00:00:05Z"}},
				"lastState":{"terminated":{"message":"hunter2-command"}}},{"name":"b","state":{"waiting":{"reason":"CrashLoopBackOff","message":"hunter2-env"}}}]}}`},
		"/api/v1/namespaces": {`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","uid":"ns","resourceVersion":"1","annotations":{"rollplan.dev/restart-frozen":"false"}}}`},
		"/api/v1/configmaps": {`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app","namespace":"shop","uid":"cm","resourceVersion":"1",
			"annotations":{"rollplan.dev/change-set":"7","kubectl.kubernetes.io/last-applied-configuration":"hunter2-config"},
			"managedFields":[{"manager":"a","time":"2026-01-02T00:00:00Z","fieldsV1":{"f:data":{"f:KEY":{}}}},{"manager":"b","time":"2026-01-03T00:00:00Z","fieldsV1":{"f:metadata":{}}}]},
			"data":{"KEY":"hunter2-config"},"binaryData":{"BIN":"` + encode([]byte("hunter2-binary")) + `"}}`},
		"/api/v1/secrets": {`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db","namespace":"shop","uid":"secret","resourceVersion":"1",
			"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"stringData\":{\"password\":\"hunter2-secret?&\"}}"}},
			"data":{"password":"` + encode([]byte("hunter2-secret?&")) + `"},"type":"Opaque"}`},
		"/apis/secrets-store.csi.x-k8s.io/v1/secretproviderclasspodstatuses": {`{"apiVersion":"secrets-store.csi.x-k8s.io/v1","kind":"SecretProviderClassPodStatus",
			"metadata":{"name":"web-1-a-vault","namespace":"shop","uid":"class","resourceVersion":"1"},
			"status":{"secretProviderClassName":"vault","objects":[{"id":"secret/db","version":"v1"}]}}`},
		"/apis/policy/v1/poddisruptionbudgets": {`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"web","namespace":"shop","uid":"pdb","resourceVersion":"1"},
			"spec":{"selector":{"matchLabels":{"app":"web"}}},"status":{"disruptionsAllowed":1}}`},
	}}
}

// snapshotReader is a cache that only changes with show.
type snapshotReader map[schema.GroupVersionKind][]*Object

func (r snapshotReader) Get(_ context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*Object, error) {
	for _, o := range r[kind] {
		if o.Namespace == key.Namespace && o.Name == key.Name {
			return o, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind.Kind}, key.Name)
}

func (r snapshotReader) ControlledBy(_ context.Context, kind schema.GroupVersionKind, namespace string, controllers ...types.UID) (found []*Object, _ error) {
	for _, o := range r[kind] {
		if o.Namespace == namespace && slices.Contains(controllers, controllerOf(o)) {
			found = append(found, o)
		}
	}
	return found, nil
}

// show replaces the object of a kind by its given version.
func (r snapshotReader) show(cluster *cluster, kind schema.GroupVersionKind, version int) {
	path := map[schema.GroupVersionKind]string{Deployment: deploymentsPath, ReplicaSet: replicaSetsPath, Pod: podsPath}[kind]
	text := strings.Replace(cluster.objects[path][0], `"resourceVersion":"1"`, fmt.Sprintf(`"resourceVersion":"%d"`, version), 1)
	r[kind] = []*Object{must(ParseObject([]byte(text), kind))}
}

// newRollouts returns Rollouts of the Deployment in shop, with a cache that shows it, its ReplicaSet and its pod.
func newRollouts(t *testing.T) (*Rollouts, *planner, *cluster, snapshotReader) {
	t.Helper()
	cluster, planner, reader := shop(), &planner{}, snapshotReader{}
	for _, path := range []string{"", "/web-1"} {
		cluster.objects["/apis/apps/v1/namespaces/shop/replicasets"+path] = cluster.objects[replicaSetsPath]
	}
	for _, kind := range []schema.GroupVersionKind{Deployment, ReplicaSet, Pod} {
		reader.show(cluster, kind, 1)
	}
	api := must(NewAPI(&rest.Config{Host: "http://cluster.example", QPS: -1}, &http.Client{Transport: cluster}))
	return &Rollouts{Kind: Deployment, Planner: planner, API: api, Reader: reader}, planner, cluster, reader
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
