//! The methods that support Connect: those of the planner.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost_reflect::{DescriptorPool, MessageDescriptor};

/// The unary methods of a service, by path.
#[derive(Clone, Default)]
pub(crate) struct Methods(Arc<BTreeMap<String, Method>>);

/// The message types of a method.
#[derive(Clone)]
pub(super) struct Method {
    pub(super) input: MessageDescriptor,
    pub(super) output: MessageDescriptor,
}

// === impl Methods ===

impl Methods {
    /// Empty if the descriptors do not contain the service.
    pub(crate) fn of(descriptors: &DescriptorPool, service: &str) -> Self {
        let service = descriptors.get_service_by_name(service);
        let methods = service.iter().flat_map(|service| {
            let unary = |it: &prost_reflect::MethodDescriptor| {
                !it.is_client_streaming() && !it.is_server_streaming()
            };
            service.methods().filter(unary).map(|method| {
                let path = format!("/{}/{}", service.full_name(), method.name());
                let (input, output) = (method.input(), method.output());
                (path, Method { input, output })
            })
        });
        Self(Arc::new(methods.collect()))
    }

    pub(super) fn get(&self, path: &str) -> Option<Method> {
        self.0.get(path).cloned()
    }
}
