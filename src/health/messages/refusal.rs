//! Pods and ReplicaSets that the API server rejects.

use super::Persistence::{IfExplained, IfOverLimit, Missing};
use super::Resolver::{Cluster, Template, Time};
use super::{Facts, Row, Table};

pub(crate) const TABLE: Table = Table {
    reasons: &["FailedCreate", "ReplicaSetCreateError"],
    wrappers: &[
        // kube-controller-manager: pkg/controller/controller_utils.go, createPods; pkg/controller/deployment/sync.go.
        "Error creating: ",
        "Failed to create new replica set \"<set>\": ",
        // kube-controller-manager: pkg/controller/statefulset/stateful_pod_control.go, recordPodEvent, recordClaimEvent.
        "create Pod <pod_name> in StatefulSet <set> failed error: ",
        "create Claim <claim> for Pod <pod_name> in StatefulSet <set> failed error: ",
        "failed to create PVC <claim>: ",
        // apimachinery: pkg/api/errors/errors.go, NewForbidden.
        "<resource> \"<name...>\" is forbidden: ",
    ],
    endings: &[],
    rows: &[
        // plugin/pkg/admission/resourcequota: controller.go, CheckRequest.
        Row::definite(
            "exceeded quota: <quota>, requested: <requested>, used: <used>, limited: <limited>",
            Cluster,
            "raise the quota, or free some of it: kubectl describe quota -n <namespace>",
        )
        .with(IfOverLimit),
        Row::definite(
            "insufficient quota to match these scopes: <scopes...>",
            Cluster,
            "create a ResourceQuota with these scopes in namespace <namespace>, or change the template (priorityClassName)",
        )
        .with(Missing),
        Row::definite(
            "insufficient quota to consume: <resources...>",
            Cluster,
            "create a ResourceQuota for <resources> in namespace <namespace>",
        )
        .with(Missing),
        Row::definite(
            "failed quota: <quota>: must specify <resources...>",
            Template,
            "set <resources>: the quota <quota> requires them",
        ),
        // pod-security-admission: admission/admission.go, EvaluatePod.
        Row::definite(
            "violates PodSecurity \"<level>\": <violations...>",
            Template,
            "set the securityContext that the message demands, or change the label pod-security.kubernetes.io/enforce of the \
             namespace",
        ),
        // plugin/pkg/admission/limitranger: admission.go, PodValidateLimitFunc. Several are a list.
        Row::definite(
            "<bound> <resource> usage per <kind> is <amounts...>",
            Template,
            "change the resources of the containers, or the limits: kubectl describe limitrange -n <namespace>",
        ),
        Row::definite(
            "<resource> max limit to request ratio per <kind> is <amounts...>",
            Template,
            "change the resources of the containers, or the limits: kubectl describe limitrange -n <namespace>",
        ),
        // apiserver: pkg/admission/plugin/webhook/errors/statuserror.go, ToStatusErr.
        Row::definite(
            "admission webhook \"<webhook>\" denied the request: <explanation...>",
            Cluster,
            "change the template as the policy demands, or the policy behind webhook <webhook>",
        )
        .with(IfExplained),
        Row::definite(
            "admission webhook \"<webhook>\" denied the request without explanation",
            Cluster,
            "ask the owner of webhook <webhook> what it demands",
        ),
        // apiserver: pkg/admission/plugin/policy/generic/policy_dispatcher.go, Dispatch, CollectParams: the policy has not been
        // evaluated.
        Row::definite(
            "ValidatingAdmissionPolicy '<policy>' with binding '<binding>' denied request: failed to configure binding: no params \
             found for policy binding with `Deny` parameterNotFoundAction",
            Cluster,
            "create the parameters that ValidatingAdmissionPolicyBinding <binding> selects",
        )
        .with(Missing),
        Row::definite(
            "ValidatingAdmissionPolicy '<policy>' with binding '<binding>' denied request: failed to configure binding: paramKind \
             kind `<kind>` not known",
            Cluster,
            "create the CustomResourceDefinition of paramKind of ValidatingAdmissionPolicy <policy>",
        )
        .with(Missing),
        Row::undecided(
            "ValidatingAdmissionPolicy '<policy>' with binding '<binding>' denied request: failed to configure <what>: <error...>",
            Cluster,
            "check ValidatingAdmissionPolicy <policy> and its binding <binding>",
        ),
        // apiserver: pkg/admission/plugin/policy/validating/dispatcher.go, Dispatch.
        Row::definite(
            "ValidatingAdmissionPolicy '<policy>' with binding '<binding>' denied request: <explanation...>",
            Cluster,
            "change the template as the policy demands, or ValidatingAdmissionPolicy <policy>",
        ),
        // apimachinery: pkg/api/errors/errors.go, NewInvalid.
        Row::definite(
            "<kind> \"<name...>\" is invalid: <fields...>",
            Template,
            "correct these fields of the template",
        ),
        // OpenShift: apiserver-library-go, pkg/securitycontextconstraints/sccadmission/admission.go, Validate.
        Row::definite(
            "unable to validate against any security context constraint: <violations...>",
            Template,
            "set the securityContext that the message demands, or let the ServiceAccount use another SecurityContextConstraints",
        ),
        // apiserver: pkg/admission/plugin/namespace/lifecycle/admission.go, Admit.
        Row::definite(
            "unable to create new content in namespace <target> because it is being terminated",
            Cluster,
            "create the namespace again once it is deleted",
        ),
        // plugin/pkg/admission/serviceaccount: admission.go, Admit.
        Row::definite(
            "error looking up service account <account>: serviceaccount \"<name>\" not found",
            Cluster,
            "create the ServiceAccount, or correct serviceAccountName",
        )
        .with(Missing),
        // plugin/pkg/admission/priority: admission.go, admitPod.
        Row::definite(
            "no PriorityClass with name <name> was found",
            Cluster,
            "create the PriorityClass, or correct priorityClassName",
        )
        .with(Missing),
        // plugin/pkg/admission/podnodeselector: admission.go, Admit, Validate.
        Row::definite(
            "pod node label selector conflicts with its namespace node label selector",
            Template,
            "remove from nodeSelector what contradicts the annotation scheduler.alpha.kubernetes.io/node-selector of the namespace",
        ),
        Row::definite(
            "pod node label selector labels conflict with its namespace whitelist",
            Template,
            "remove from nodeSelector what the whitelist of the namespace does not permit",
        ),
        // plugin/pkg/admission/runtimeclass: admission.go, prepareObjects.
        Row::definite(
            "pod rejected: RuntimeClass \"<name>\" not found",
            Cluster,
            "create the RuntimeClass, or correct runtimeClassName",
        )
        .with(Missing),
        // apiserver: pkg/admission/plugin/webhook/mutating/dispatcher.go and validating/dispatcher.go, Dispatch.
        Row::undecided(
            "Internal error occurred: failed calling webhook \"<webhook>\": <error...>",
            Cluster,
            "check that webhook <webhook> answers",
        ),
        // apimachinery: pkg/api/errors/errors.go, NewConflict.
        Row::undecided(
            "Operation cannot be fulfilled on <object...>: <error...>",
            Time,
            "",
        ),
    ],
};

/// What to do so that the API server accepts pods. `namespace` is theirs, as a word of a shell command.
pub(crate) fn remedy(message: &str, namespace: &str) -> String {
    let facts = Facts {
        namespace: namespace.to_owned(),
        ..Facts::default()
    };
    TABLE.look_up(message).remedy(&facts)
}
