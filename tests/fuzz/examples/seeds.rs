//! Writes the first inputs of each target: `seeds DIRECTORY` makes DIRECTORY/TARGET/NAME from the snapshots in
//! examples/ and the fixtures.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message as _;
use rollplan::proto::PlanRolloutRequest;
use rollplan::wire::json;
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: seeds DIRECTORY")?;
    let directory = PathBuf::from(directory);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in files(&root.join("examples"))? {
        let text = fs::read_to_string(&file)?;
        let name = file.file_stem().unwrap_or_default();
        // Printed by ourselves: without what the contract does not have, and so much shorter.
        let request: PlanRolloutRequest = json::from_json(&request(&text)?.to_string())?;
        for target in ["cli_input", "objects_json"] {
            put(&directory, target, name, list(&request)?.as_bytes())?;
        }
        put(
            &directory,
            "request_json",
            name,
            json::to_json(&request)?.as_bytes(),
        )?;
        put(&directory, "request_bytes", name, &request.encode_to_vec())?;
    }
    Ok(())
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("json")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn request(list: &str) -> Result<Value, Box<dyn Error>> {
    let list: Value = serde_json::from_str(list)?;
    let items = list["items"].as_array().ok_or("an example is a list")?;
    let of = |kind: &'static str| items.iter().filter(move |item| item["kind"] == kind);
    Ok(json!({
        "snapshot": {
            "now": "2026-11-20T23:27:30Z",
            "deployment": of("Deployment").next().ok_or("an example has a Deployment")?,
            "replicaSets": of("ReplicaSet").collect::<Vec<_>>(),
            "pods": of("Pod").collect::<Vec<_>>(),
            "podsComplete": true,
            "replicaSetsComplete": true,
        }
    }))
}

/// The objects of a request as a file for the command line.
fn list(request: &PlanRolloutRequest) -> Result<String, Box<dyn Error>> {
    let snapshot = request
        .snapshot
        .as_ref()
        .ok_or("a request has a snapshot")?;
    let deployment = snapshot.deployment.as_ref();
    let deployment = deployment.ok_or("a snapshot has a Deployment")?;
    let mut items = vec![json::to_kubernetes_json(deployment)?];
    for set in &snapshot.replica_sets {
        items.push(json::to_kubernetes_json(set)?);
    }
    for pod in &snapshot.pods {
        items.push(json::to_kubernetes_json(pod)?);
    }
    let items = items.join(",");
    Ok(format!(
        r#"{{"apiVersion":"v1","kind":"List","items":[{items}]}}"#
    ))
}

fn put(directory: &Path, target: &str, name: &OsStr, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let directory = directory.join(target);
    fs::create_dir_all(&directory)?;
    fs::write(directory.join(name), bytes)?;
    Ok(())
}
