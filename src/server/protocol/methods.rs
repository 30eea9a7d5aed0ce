//! The served methods, by name. Those of the planner are read from the descriptors of the contract.

use std::sync::LazyLock;

use prost_reflect::MethodDescriptor;

use crate::wire::json::descriptors;

/// The service of the contract.
pub(crate) const PLANNER: &str = "rollplan.v1.RolloutPlanner";

/// A served method.
pub(crate) struct ServedMethod {
    /// The type of the call in go-grpc-middleware.
    pub(crate) kind: &'static str,
    pub(crate) service: &'static str,
    pub(crate) name: String,
    /// The full name of the request message, for methods of the planner.
    request: String,
}

/// The label of unknown methods.
pub(crate) const UNKNOWN: &str = "unknown";

/// The type, service and name of the standard methods, which the planner does not serve.
const STANDARD: [(&str, &str, &str); 4] = [
    ("unary", "grpc.health.v1.Health", "Check"),
    ("server_stream", "grpc.health.v1.Health", "Watch"),
    (
        "bidi_stream",
        "grpc.reflection.v1.ServerReflection",
        "ServerReflectionInfo",
    ),
    (
        "bidi_stream",
        "grpc.reflection.v1alpha.ServerReflection",
        "ServerReflectionInfo",
    ),
];

static METHODS: LazyLock<Vec<ServedMethod>> = LazyLock::new(|| {
    let planner = descriptors().and_then(|pool| pool.get_service_by_name(PLANNER));
    let planner = planner.iter().flat_map(|service| service.methods());
    let standard = STANDARD.map(|(kind, service, name)| ServedMethod {
        kind,
        service,
        name: name.to_owned(),
        request: String::new(),
    });
    planner.map(ServedMethod::of).chain(standard).collect()
});

/// All served methods.
pub(crate) fn all() -> &'static [ServedMethod] {
    &METHODS
}

/// The service and method of a path if they are served. Any other path is text that the client chose.
pub(crate) fn shown(path: &str) -> &str {
    match find(path) {
        Some(_) => path.trim_start_matches('/'),
        None => UNKNOWN,
    }
}

/// Whether a path is that of a served method.
pub(crate) fn is_served(path: &str) -> bool {
    path.starts_with('/') && find(path).is_some()
}

/// The full name of the request message for a path. Empty for methods outside the planner.
pub(crate) fn request_message(path: &str) -> &'static str {
    find(path).map_or("", |method| &method.request)
}

fn find(path: &str) -> Option<&'static ServedMethod> {
    let (service, name) = path.trim_start_matches('/').split_once('/')?;
    all()
        .iter()
        .find(|method| method.service == service && method.name == name)
}

// === impl ServedMethod ===

impl ServedMethod {
    fn of(method: MethodDescriptor) -> Self {
        Self {
            // The contract has no streams.
            kind: "unary",
            service: PLANNER,
            name: method.name().to_owned(),
            request: method.input().full_name().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_methods_of_the_planner_are_served() {
        let pool = descriptors().unwrap();
        let service = pool.get_service_by_name(PLANNER).unwrap();
        assert!(service.methods().len() >= 4);
        for method in service.methods() {
            assert!(!method.is_client_streaming() && !method.is_server_streaming());
            let path = format!("/{PLANNER}/{}", method.name());
            assert!(is_served(&path), "{path}");
            assert_eq!(request_message(&path), method.input().full_name());
        }
        assert_eq!(pool.services().len(), 1);
    }

    #[test]
    fn unknown_paths_are_not_shown() {
        assert_eq!(
            shown("/grpc.health.v1.Health/Check"),
            "grpc.health.v1.Health/Check"
        );
        assert_eq!(request_message("/grpc.health.v1.Health/Check"), "");
        for path in [
            "",
            "/",
            "/a/b",
            "/grpc.health.v1.Health/",
            "grpc.health.v1.Health",
        ] {
            assert_eq!(shown(path), UNKNOWN, "{path}");
            assert!(!is_served(path));
        }
        assert!(!is_served("grpc.health.v1.Health/Check"));
    }
}
