package rollplan

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"rollplan.dev/rollplan/adapters/go/rollplanv1"
)

// NoController selects the objects without a controller in ControlledBy of a [Reader].
const NoController types.UID = ""

// Reader reads Deployments and their objects. An [API] reads them from the API server, and a [Cache] from watches.
type Reader interface {
	// Get returns an object, or an error of the API server, for example NotFound.
	Get(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*Object, error)
	// ControlledBy returns the objects of a kind with one of these controllers.
	ControlledBy(ctx context.Context, kind schema.GroupVersionKind, namespace string, controllers ...types.UID) ([]*Object, error)
}

// API makes calls to an API server. It needs no discovery: kinds are named by their default plural, or by Resources.
type API struct {
	client rest.Interface
	// manager is the field manager of writes.
	manager string
	// Resources maps kinds to plural names other than the default. Set it before the first call.
	Resources map[schema.GroupVersionKind]string
}

// NewAPI returns the API of a cluster. The HTTP client makes all calls; [rest.HTTPClientFor] creates it from a
// configuration. The user agent of the configuration is the field manager of writes, except for those of canaries.
func NewAPI(config *rest.Config, client *http.Client) (*API, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	config.NegotiatedSerializer = negotiated
	unversioned, err := rest.UnversionedRESTClientForConfigAndClient(config, recordBodies(client))
	if err != nil {
		return nil, err
	}
	return &API{client: unversioned, manager: config.UserAgent}, nil
}

// Get implements [Reader].
func (a *API) Get(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*Object, error) {
	return a.object(a.client.Get().AbsPath(a.path(kind, key.Namespace), key.Name).Do(ctx))
}

// List returns the objects of a kind in a namespace, or in all of them if it is empty.
func (a *API) List(ctx context.Context, kind schema.GroupVersionKind, namespace string, options metav1.ListOptions) (*ObjectList, error) {
	list, err := a.list(kind, namespace, options).Do(ctx).Get()
	if err != nil {
		return nil, err
	}
	if list, ok := list.(*ObjectList); ok {
		return list, nil
	}
	return nil, fmt.Errorf("expected a list of %s", kind.Kind)
}

// ControlledBy implements [Reader].
func (a *API) ControlledBy(ctx context.Context, kind schema.GroupVersionKind, namespace string, controllers ...types.UID) ([]*Object, error) {
	list, err := a.List(ctx, kind, namespace, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s in %s: %w", kind.Kind, namespace, err)
	}
	return slices.DeleteFunc(list.Items, func(o *Object) bool { return !slices.Contains(controllers, controllerOf(o)) }), nil
}

func (a *API) list(kind schema.GroupVersionKind, namespace string, options metav1.ListOptions) *rest.Request {
	return a.client.Get().AbsPath(a.path(kind, namespace)).
		SpecificallyVersionedParams(&options, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
}

// listWatch lists and watches the objects of a kind, in all namespaces if namespace is empty. For the kind Namespace, it
// selects the namespace itself.
func (a *API) listWatch(kind schema.GroupVersionKind, namespace string, selector labels.Selector) *cache.ListWatch {
	fields := ""
	if kind == Namespace && namespace != "" {
		fields, namespace = "metadata.name="+namespace, ""
	}
	selected := func(options metav1.ListOptions) metav1.ListOptions {
		options.FieldSelector = fields
		options.LabelSelector = selectorText(selector)
		return options
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return a.list(kind, namespace, selected(options)).Do(ctx).Get()
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options = selected(options)
			options.Watch = true
			return a.list(kind, namespace, options).Watch(ctx)
		},
	}
}

// verbs maps the verbs of calls to HTTP methods.
var verbs = map[rollplanv1.Verb]string{
	rollplanv1.Verb_VERB_CREATE: http.MethodPost,
	rollplanv1.Verb_VERB_PATCH:  http.MethodPatch,
	rollplanv1.Verb_VERB_DELETE: http.MethodDelete,
	rollplanv1.Verb_VERB_GET:    http.MethodGet,
}

// Answer is the answer of the API server to a call.
type Answer struct {
	// Code is the HTTP status code. It is 0 if there was no answer.
	Code int
	// Body is the unchanged body, or the first 64 KiB of it if the code is not 2xx.
	Body []byte
}

// to returns the answer to the call of a step or a read, for the planner.
func (a Answer) to(id string) *rollplanv1.Answer {
	return &rollplanv1.Answer{Id: id, Made: true, HttpCode: int32(a.Code), Body: a.Body}
}

// Call makes a call of a plan.
func (a *API) Call(ctx context.Context, call *rollplanv1.ApiCall) (Answer, error) {
	method, ok := verbs[call.GetVerb()]
	if !ok {
		return Answer{}, fmt.Errorf("unsupported verb %s", call.GetVerb())
	}
	request := a.client.Verb(method).AbsPath(call.GetPath())
	if accept := call.GetAccept(); accept != "" {
		request = request.SetHeader("Accept", accept)
	}
	if body := call.GetBodyJson(); body != "" {
		request = request.SetHeader("Content-Type", call.GetContentType()).Body([]byte(body))
	}
	query, err := url.ParseQuery(call.GetQuery())
	if err != nil {
		return Answer{}, fmt.Errorf("query of the call: %w", err)
	}
	// Canaries have another field manager, by which an admission policy recognizes their writes.
	if query.Get("fieldManager") == "rollplan" && a.manager != "" {
		query.Set("fieldManager", a.manager)
	}
	for key := range query {
		request = request.Param(key, query.Get(key))
	}
	var answer Answer
	ctx, failed := withBody(ctx)
	result := request.Do(ctx).StatusCode(&answer.Code)
	if answer.Body, err = result.Raw(); err != nil {
		answer.Body = *failed
	}
	err = result.Error()
	if response, ok := statusOf(err); ok && answer.Code == 0 {
		answer.Code = int(response.Code) // of an answer that is not JSON, client-go returns nothing else
	}
	return answer, err
}

func (a *API) object(result rest.Result) (*Object, error) {
	object, err := result.Get()
	if err != nil {
		return nil, err
	}
	if object, ok := object.(*Object); ok {
		return object, nil
	}
	return nil, fmt.Errorf("expected an object, not a %s", object.GetObjectKind().GroupVersionKind().Kind)
}

// path returns the path of a kind, in all namespaces if namespace is empty.
func (a *API) path(kind schema.GroupVersionKind, namespace string) string {
	resource, ok := a.Resources[kind]
	if !ok {
		guessed, _ := meta.UnsafeGuessKindToResource(kind)
		resource = guessed.Resource
	}
	path := "/apis/" + kind.Group + "/" + kind.Version
	if kind.Group == "" {
		path = "/api/" + kind.Version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + resource
}
