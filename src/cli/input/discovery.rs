//! The lists of resources that API servers publish for discovery.

use serde_json::Value;

/// Whether a kind has a status subresource, by the list of resources of its group and version. `None` if the list does not
/// have the kind.
pub(in crate::cli) fn has_status_subresource(list: &[u8], kind: &str) -> Option<bool> {
    let list: Value = serde_json::from_slice(list).ok()?;
    let resources = || list["resources"].as_array().into_iter().flatten();
    let names = || resources().filter_map(|resource| resource["name"].as_str());
    let of_kind = resources().filter(|resource| resource["kind"] == kind);
    let mut plurals = of_kind.filter_map(|resource| resource["name"].as_str());
    let plural = plurals.find(|name| !name.contains('/'))?;
    let subresource = format!("{plural}/status");
    Some(names().any(|name| name == subresource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_subresource_is_that_of_the_kind() {
        let list = serde_json::json!({"kind": "APIResourceList", "resources": [
            {"name": "canaries/status", "kind": "Canary"},
            {"name": "canaries", "kind": "Canary"},
            {"name": "metrics", "kind": "Metric"},
            {"name": "scales/scale", "kind": "Scale"},
        ]});
        let list = list.to_string();
        for (kind, expected) in [
            ("Canary", Some(true)),
            ("Metric", Some(false)),
            ("Scale", None),
            ("Other", None),
        ] {
            let found = has_status_subresource(list.as_bytes(), kind);
            assert_eq!(found, expected, "{kind}");
        }
        assert_eq!(has_status_subresource(b"forbidden", "Canary"), None);
    }
}
