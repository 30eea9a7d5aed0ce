//! The images of a template.

use super::tree::{Node, Tree, entry};

/// The images of a template: first those of the init containers, then those of the containers, in order.
#[must_use]
pub fn images<'a>(template: impl Tree<'a>) -> Vec<String> {
    let spec = entry(template, "spec");
    let list = |key| match spec.and_then(|spec| entry(spec, key)).map(Tree::node) {
        Some(Node::List(containers)) => Some(containers),
        _ => None,
    };
    let containers = ["initContainers", "containers"]
        .into_iter()
        .filter_map(list);
    let images = containers.flatten().filter_map(|container| {
        match entry(container, "image").map(Tree::node) {
            Some(Node::String(image)) => Some(image.to_owned()),
            _ => None,
        }
    });
    images.collect()
}
