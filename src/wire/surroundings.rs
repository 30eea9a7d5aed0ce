//! Reads the objects beside a workload that show why its pods wait.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::interrupt::Interrupt;
use rollplan_core::reference::ConfigurationKind;
use rollplan_core::snapshot::{
    ConfigurationKeys, Existence, ObjectMeta, ObservedClaim, ObservedVolume, Pod, Surroundings,
    TopologyTerm,
};
use rollplan_core::template::Value;

use super::error::Error;
use super::objects::{ContentReader, Found, Nearby, ObjectIndex, Wants};
use super::parse::{Parser, Path};
use super::read::{kubernetes, objects};

/// The labels of a PersistentVolume that name its zone, in clusters without CSI.
const ZONE_LABELS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
];

objects! {
    /// The fields of another pod that reports use.
    struct OtherPod {
        spec: kubernetes::PodSpec = "spec",
    }

    /// The fields of a ConfigMap or a Secret.
    struct Contents {
        data: Value = "data",
        binary_data: Value = "binaryData",
        string_data: Value = "stringData",
    }
}

/// Reads the objects that show why pods of an owner wait. `own` are the positions of its pods, which have been read as
/// `pods`.
pub(super) fn read<'a>(
    objects: &ObjectIndex<'a, Found<'a>>,
    owner: &Found<'a>,
    own: &[usize],
    pods: &[Pod],
    contents: &mut ContentReader<'a>,
    parser: &mut Parser<'_>,
    interrupt: &dyn Interrupt,
) -> Result<Surroundings, Error> {
    let wants = Wants::of(pods);
    let nearby = Nearby::find(objects, owner, own, &wants, interrupt)?;
    let pods = nearby.pods.iter().map(|&position| {
        let pod = &objects[position];
        let OtherPod { spec } = pod.read_leniently();
        Pod {
            metadata: ObjectMeta {
                name: pod.metadata.name.clone().into_owned(),
                namespace: pod.metadata.namespace.clone().into_owned(),
                uid: pod.metadata.uid.clone().into_owned(),
                ..ObjectMeta::default()
            },
            claims: spec.claims(&pod.metadata.name),
            host_ports: spec.host_ports(),
            node_name: spec.node_name,
            ..Pod::default()
        }
    });
    let mut surroundings = Surroundings {
        pods: pods.collect(),
        claims: Vec::new(),
        configurations: configurations(objects, owner),
        looked_up: BTreeMap::new(),
    };
    for (name, claim) in nearby.claims {
        let kubernetes::Claim { spec, status } = claim
            .claim
            .map(|position| objects[position].read_leniently())
            .unwrap_or_default();
        let volume = claim.volume.map(|position| volume(&objects[position]));
        let mut events = Vec::new();
        for position in claim.events {
            let event = &objects[position];
            if let Some(read) = contents.content(event, &mut parser.violations)? {
                events.push(parser.event(read, &Path::Object(&event.origin())));
            }
        }
        surroundings.claims.push(ObservedClaim {
            name,
            access_modes: spec.access_modes,
            is_bound: status.phase == "Bound",
            volume,
            events,
        });
    }
    Ok(surroundings)
}

/// The ConfigMaps and Secrets in the namespace of an owner, with their keys.
fn configurations<'a>(
    objects: &ObjectIndex<'a, Found<'a>>,
    owner: &Found<'a>,
) -> BTreeMap<ConfigurationKind, BTreeMap<String, Existence>> {
    let mut all: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for object in objects.iter() {
        let kind = match (&*object.api_version, &*object.kind) {
            ("v1", "ConfigMap") => ConfigurationKind::ConfigMap,
            ("v1", "Secret") => ConfigurationKind::Secret,
            _ => continue,
        };
        if object.is_in_namespace_of(owner) {
            let Contents {
                data,
                binary_data,
                string_data,
            } = object.read_leniently();
            let is_whole = [&data, &binary_data, &string_data]
                .iter()
                .any(|it| !it.is_null());
            let keys = |value: &Value| -> BTreeSet<String> {
                let entries = value.as_map().into_iter().flatten();
                entries.map(|(key, _)| key.clone()).collect()
            };
            // One without any of these fields may be empty, or have its metadata only.
            let existence = if is_whole {
                Existence::WithKeys(ConfigurationKeys {
                    data: &keys(&data) | &keys(&string_data),
                    binary: keys(&binary_data),
                })
            } else {
                Existence::Present
            };
            let name = object.metadata.name.clone().into_owned();
            all.entry(kind).or_default().insert(name, existence);
        }
    }
    all
}

fn volume(found: &Found<'_>) -> ObservedVolume {
    let kubernetes::PersistentVolume { metadata, spec } = found.read_leniently();
    let terms = spec.node_affinity.required.terms.into_iter();
    let required = terms.flat_map(|term| term.match_expressions);
    let required = required.filter(|requirement| requirement.operator == "In");
    let mut topology: Vec<TopologyTerm> = required
        .map(|requirement| TopologyTerm {
            key: requirement.key,
            values: requirement.values,
        })
        .collect();
    let labels = ZONE_LABELS.iter().filter_map(|key| {
        let zones = metadata.labels.get(*key)?;
        Some(TopologyTerm {
            key: (*key).to_owned(),
            // A regional volume has several zones.
            values: zones.split("__").map(str::to_owned).collect(),
        })
    });
    if topology.is_empty() {
        topology.extend(labels);
    }
    ObservedVolume {
        name: found.metadata.name.clone().into_owned(),
        topology,
    }
}
