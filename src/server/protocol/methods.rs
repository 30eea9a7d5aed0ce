//! The served methods, by path.

use rollplan_service::{METHODS, Method};

/// The service of the contract.
pub(crate) const PLANNER: &str = "rollplan.v1.RolloutPlanner";

/// A served method.
#[derive(Clone, Copy)]
pub(crate) struct ServedMethod {
    /// The type of the call in go-grpc-middleware.
    pub(crate) kind: &'static str,
    pub(crate) service: &'static str,
    pub(crate) name: &'static str,
}

/// The label of unknown methods.
pub(crate) const UNKNOWN: &str = "unknown";

/// The standard methods, which the planner does not serve.
const STANDARD: [ServedMethod; 4] = [
    ServedMethod {
        kind: "unary",
        service: "grpc.health.v1.Health",
        name: "Check",
    },
    ServedMethod {
        kind: "server_stream",
        service: "grpc.health.v1.Health",
        name: "Watch",
    },
    ServedMethod {
        kind: "bidi_stream",
        service: "grpc.reflection.v1.ServerReflection",
        name: "ServerReflectionInfo",
    },
    ServedMethod {
        kind: "bidi_stream",
        service: "grpc.reflection.v1alpha.ServerReflection",
        name: "ServerReflectionInfo",
    },
];

/// All served methods.
pub(crate) fn all() -> impl Iterator<Item = ServedMethod> {
    let planner = METHODS.iter().map(|method| ServedMethod {
        // The contract has no streams.
        kind: "unary",
        service: PLANNER,
        name: method.name,
    });
    planner.chain(STANDARD)
}

/// The service and method of a path if they are served. Any other path is text that the client chose.
pub(crate) fn shown(path: &str) -> &str {
    if is_served(path) {
        path.trim_start_matches('/')
    } else {
        UNKNOWN
    }
}

/// Whether a path is that of a served method.
pub(crate) fn is_served(path: &str) -> bool {
    let parts = path.strip_prefix('/').and_then(|it| it.split_once('/'));
    parts.is_some_and(|parts| all().any(|method| (method.service, method.name) == parts))
}

/// The method of the planner with this path.
pub(crate) fn of_planner(path: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.path == path)
}

#[cfg(test)]
mod tests {
    use rollplan_wire::json::descriptors;

    use super::*;

    #[test]
    fn exactly_the_methods_of_the_contract_are_served() {
        let pool = descriptors().unwrap();
        let service = pool.get_service_by_name(PLANNER).unwrap();
        let names: Vec<_> = service.methods().map(|it| it.name().to_owned()).collect();
        assert_eq!(names, Vec::from_iter(METHODS.iter().map(|it| it.name)));
        for method in service.methods() {
            assert!(!method.is_client_streaming() && !method.is_server_streaming());
            let path = format!("/{PLANNER}/{}", method.name());
            assert!(is_served(&path), "{path}");
            let served = of_planner(&path).unwrap();
            assert_eq!(served.request, method.input().full_name());
        }
        assert_eq!(pool.services().len(), 1);
    }

    #[test]
    fn unknown_paths_are_not_shown() {
        assert_eq!(
            shown("/grpc.health.v1.Health/Check"),
            "grpc.health.v1.Health/Check"
        );
        assert!(of_planner("/grpc.health.v1.Health/Check").is_none());
        assert!(of_planner("/grpc.health.v1.Health/PlanRollout").is_none());
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
