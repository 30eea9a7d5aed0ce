//! Reads the objects beside a workload that show why its pods wait.

use rollplan_core::interrupt::Interrupt;
use rollplan_core::snapshot::{
    ObjectMeta, ObservedClaim, ObservedVolume, Pod, Surroundings, TopologyTerm,
};

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
}

/// Reads the objects that show why pods of an owner wait. `own` are the positions of its pods, which have been read as `pods`.
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
    let names = |kind: &str| {
        let all = objects.iter().filter(|object| {
            (&*object.api_version, &*object.kind) == ("v1", kind)
                && object.is_in_namespace_of(owner)
        });
        all.map(|object| object.metadata.name.clone().into_owned())
            .collect()
    };
    let mut surroundings = Surroundings {
        pods: pods.collect(),
        claims: Vec::new(),
        config_maps: names("ConfigMap"),
        secrets: names("Secret"),
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
