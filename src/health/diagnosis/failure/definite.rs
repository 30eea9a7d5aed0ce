//! Texts of Kubernetes and of registries that prove that a failure persists. All other texts, including unknown ones, count as
//! temporary problems.

use crate::diagnosis::text::{NAME_MAX, one_line};
use rollplan_core::template::Quantity;

/// Parts of texts that make any failure a temporary one: the next answer may be different.
const PASSING: [&str; 17] = [
    "failed calling webhook",
    "object has been modified",
    "timeout",
    "timed out",
    "deadline exceeded",
    "connection refused",
    "connection reset",
    "no such host",
    "server misbehaving",
    "i/o error",
    "too many requests",
    "internal server error",
    "bad gateway",
    "service unavailable",
    "internal error occurred",
    "unexpected eof",
    "try again",
];

/// Answers of a registry that does not have the image, or denies access to it.
const IMAGE: [&str; 10] = [
    "not found",
    "manifest unknown",
    "name unknown",
    "repository does not exist",
    "pull access denied",
    "unauthorized",
    "authentication required",
    "insufficient_scope",
    "403 forbidden",
    "invalid reference format",
];

/// Reports of the kubelet about a configuration that cannot work.
const CONFIG: [&str; 7] = [
    "references non-existent config key",
    "references non-existent secret key",
    "couldn't find key ",
    "runasnonroot",
    "breaks non-root policy",
    "no command specified",
    "invalid variable names",
];

/// Errors of the API server about pods that it will reject again.
const REFUSED: [&str; 9] = [
    "denied the request",
    "denied request",
    "violates podsecurity",
    "usage per container is",
    "usage per pod is",
    "must specify ",
    " is invalid: ",
    "unable to validate against any security context constraint",
    "because it is being terminated",
];

/// Errors of the API server about pods that refer to an object that does not exist (yet).
const REFUSED_FOR_MISSING: [(&str, &str); 3] = [
    ("error looking up service account", "not found"),
    ("no priorityclass with name", "was found"),
    ("runtimeclass", "not found"),
];

/// How definite a rejection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::diagnosis) enum Refusal {
    /// It will be repeated.
    Definite,
    /// It will be repeated until the object is created.
    Missing,
    /// It may pass.
    Doubtful,
}

fn is_doubtful(text: &str) -> bool {
    PASSING.iter().any(|passing| text.contains(passing))
}

fn has(text: &str, patterns: &[&str]) -> bool {
    let text = text.to_lowercase();
    !is_doubtful(&text) && patterns.iter().any(|pattern| text.contains(pattern))
}

/// Whether the next attempt to pull an image will certainly fail.
pub(in crate::diagnosis) fn is_image(text: &str) -> bool {
    has(text, &IMAGE)
}

/// Whether the next attempt to create a container from its configuration will certainly fail.
pub(in crate::diagnosis) fn is_config(text: &str) -> bool {
    missing_object(text).is_some() || has(text, &CONFIG)
}

/// Kind and name of the ConfigMap or Secret that a text reports as missing.
pub(in crate::diagnosis) fn missing_object(text: &str) -> Option<(&'static str, String)> {
    for (word, kind) in [("configmap \"", "configmap"), ("secret \"", "secret")] {
        // The last one is the cause.
        let Some((_, rest)) = text.rsplit_once(word) else {
            continue;
        };
        if let Some((name, rest)) = rest.split_once('"')
            && rest.trim_start().starts_with("not found")
        {
            return Some((kind, one_line(name, NAME_MAX)));
        }
    }
    None
}

/// The key that a text reports as missing in a ConfigMap or Secret that exists, and this object.
pub(in crate::diagnosis) fn missing_key(text: &str) -> Option<(String, String)> {
    let line = |text: &str| one_line(text, NAME_MAX);
    if let Some((_, rest)) = text.split_once("couldn't find key ") {
        let (key, object) = rest.split_once(" in ")?;
        return Some((line(key), line(object)));
    }
    for (words, object) in [
        ("non-existent secret key: ", "the Secret of the volume"),
        ("non-existent config key: ", "the ConfigMap of the volume"),
    ] {
        if let Some((_, key)) = text.split_once(words) {
            return Some((line(key), object.to_owned()));
        }
    }
    None
}

/// How definite a rejection by the API server is.
pub(in crate::diagnosis) fn refusal(text: &str) -> Refusal {
    let lower = text.to_lowercase();
    if is_doubtful(&lower) {
        Refusal::Doubtful
    } else if lower.contains("exceeded quota") {
        if one_pod_exceeds(text) {
            Refusal::Definite
        } else {
            Refusal::Doubtful
        }
    } else if REFUSED_FOR_MISSING
        .iter()
        .any(|(what, missing)| lower.contains(what) && lower.contains(missing))
    {
        Refusal::Missing
    } else if REFUSED.iter().any(|it| lower.contains(it)) {
        Refusal::Definite
    } else {
        Refusal::Doubtful
    }
}

/// The request of a pod, the used amounts and the hard limits of a quota: "exceeded quota: q, requested:
/// pods=1,limits.cpu=3, used: pods=0,limits.cpu=0, limited: pods=4,limits.cpu=2".
fn quota(text: &str) -> Option<[&str; 3]> {
    let (_, rest) = text.rsplit_once("requested: ")?;
    let (requested, rest) = rest.split_once(", used: ")?;
    let (used, limited) = rest.split_once(", limited: ")?;
    Some([requested, used, limited])
}

/// Whether the request of a single pod exceeds the hard limit of a quota.
fn one_pod_exceeds(text: &str) -> bool {
    let Some([requested, _, limited]) = quota(text) else {
        return false;
    };
    amounts(requested).any(|(name, amount)| {
        let requested = nanos(amount).zip(amount_of(limited, name));
        requested.is_some_and(|(requested, limit)| requested > limit)
    })
}

/// Whether a quota that rejected a pod may accept it now: if `pods` like it use less of the quota than was used then, and
/// leave enough for one more.
pub(crate) fn quota_may_have_room(text: &str, pods: i64) -> bool {
    let Some([requested, used, limited]) = quota(text).filter(|_| text.contains("exceeded quota"))
    else {
        return false;
    };
    amounts(requested).all(|(name, amount)| {
        let amounts = nanos(amount).zip(amount_of(used, name));
        let amounts = amounts.zip(amount_of(limited, name));
        amounts.is_some_and(|((requested, used), limit)| {
            let own = requested.saturating_mul(pods.into());
            own < used && own.saturating_add(requested) <= limit
        })
    })
}

fn amounts(list: &str) -> impl Iterator<Item = (&str, &str)> {
    let end = list.find(['\n', ' ', '"', ';']).unwrap_or(list.len());
    list[..end]
        .split(',')
        .filter_map(|entry| entry.split_once('='))
}

fn amount_of(list: &str, name: &str) -> Option<i128> {
    let mut amounts = amounts(list);
    let (_, amount) = amounts.find(|(other, _)| *other == name)?;
    nanos(amount)
}

/// `None` for amounts that are invalid or too large: these are not judged.
fn nanos(amount: &str) -> Option<i128> {
    Quantity::parse(amount)?.to_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_registry_errors_are_not_definite() {
        for text in [
            "failed to resolve reference \"r/x:1\": r/x:1: not found",
            "unexpected status from HEAD request to https://r/v2/x: 401 Unauthorized",
            "pull access denied, repository does not exist or may require authorization",
        ] {
            assert!(is_image(text), "{text}");
        }
        for text in [
            "",
            "dial tcp 10.0.0.1:5000: connect: connection refused",
            "dial tcp: lookup r on 10.0.0.1:53: no such host",
            "unexpected status from HEAD request: 503 Service Unavailable",
            "unexpected status from HEAD request: 429 Too Many Requests",
            "proxy not found: i/o timeout",
            "no space left on device",
            "something new",
        ] {
            assert!(!is_image(text), "{text}");
        }
    }

    #[test]
    fn missing_objects_are_named() {
        let mount = "MountVolume.SetUp failed for volume \"tls\" : secret \"web-tls\" not found";
        assert_eq!(
            missing_object(mount),
            Some(("secret", "web-tls".to_owned()))
        );
        let env = "configmap \"web\" not found";
        assert_eq!(missing_object(env), Some(("configmap", "web".to_owned())));
        assert!(is_config("couldn't find key port in ConfigMap shop/web"));
        assert!(is_config(
            "container has runAsNonRoot and image will run as root"
        ));
        for text in [
            "",
            "secret \"x\" is stale",
            "failed to sync configmap cache: timed out waiting",
        ] {
            assert_eq!(missing_object(text), None);
            assert!(!is_config(text), "{text}");
        }
    }

    #[test]
    fn refusals_are_definite_missing_or_doubtful() {
        use Refusal::{Definite, Doubtful, Missing};
        let quota = |requested: &str, limited: &str| {
            format!(
                "pods \"web-1-x\" is forbidden: exceeded quota: q, requested: {requested}, used: {limited}, limited: {limited}"
            )
        };
        for (text, expected) in [
            ("admission webhook \"x\" denied the request: no", Definite),
            (
                "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\"",
                Definite,
            ),
            (
                "pods \"a\" is forbidden: maximum cpu usage per Container is 1, but limit is 2",
                Definite,
            ),
            (
                "Pod \"a\" is invalid: spec.containers[0].image: Required value",
                Definite,
            ),
            (
                "pods \"a\" is forbidden: failed quota: q: must specify limits.cpu for: web",
                Definite,
            ),
            (
                "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
                Definite,
            ),
            (
                "error looking up service account shop/x: serviceaccount \"x\" not found",
                Missing,
            ),
            (
                "pods \"a\" is forbidden: no PriorityClass with name high was found",
                Missing,
            ),
            (
                "pods \"a\" is forbidden: pod rejected: RuntimeClass \"kata\" not found",
                Missing,
            ),
            (
                "Internal error occurred: failed calling webhook \"x\": context deadline exceeded",
                Doubtful,
            ),
            (
                "Operation cannot be fulfilled on resourcequotas \"q\": the object has been modified",
                Doubtful,
            ),
            (
                "admission webhook \"x\" denied the request: backend timeout",
                Doubtful,
            ),
            ("namespaces \"shop\" not found", Doubtful),
            (
                "error looking up service account shop/x: unauthorized",
                Doubtful,
            ),
            ("something new", Doubtful),
            ("", Doubtful),
        ] {
            assert_eq!(refusal(text), expected, "{text}");
        }
        assert_eq!(refusal(&quota("pods=1", "pods=4")), Doubtful);
        assert_eq!(
            refusal(&quota("limits.cpu=3,pods=1", "limits.cpu=2,pods=4")),
            Definite
        );
        assert_eq!(
            refusal(&quota("requests.memory=1536Mi", "requests.memory=1Gi")),
            Definite
        );
        assert_eq!(
            refusal(&quota("requests.memory=1Gi", "requests.memory=1Gi")),
            Doubtful
        );
        assert_eq!(refusal(&quota("pods", "pods=x")), Doubtful);
        assert_eq!(refusal("exceeded quota: q, requested: "), Doubtful);
    }

    #[test]
    fn quota_may_have_room_once_fewer_pods_exist_than_used_it() {
        let text = |requested: &str, used: &str, limited: &str| {
            format!("exceeded quota: q, requested: {requested}, used: {used}, limited: {limited}")
        };
        let pods = text("pods=1", "pods=4", "pods=4");
        assert!(quota_may_have_room(&pods, 3));
        assert!(!quota_may_have_room(&pods, 4));
        // It was lowered, and its own pods exceed it.
        assert!(!quota_may_have_room(&text("pods=1", "pods=4", "pods=3"), 3));
        let cpu = text(
            "requests.cpu=100m",
            "requests.cpu=400m",
            "requests.cpu=450m",
        );
        assert!(quota_may_have_room(&cpu, 3));
        assert!(!quota_may_have_room(&cpu, 4));
        let both = text(
            "pods=1,requests.cpu=2",
            "pods=4,requests.cpu=2",
            "pods=4,requests.cpu=3",
        );
        assert!(!quota_may_have_room(&both, 3));
        assert!(!quota_may_have_room("exceeded quota: q", 0));
        assert!(!quota_may_have_room("something new", 0));
    }
}
