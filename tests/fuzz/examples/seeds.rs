//! Writes the initial inputs of each target: `seeds DIRECTORY` creates the files DIRECTORY/TARGET/NAME from the snapshots
//! in examples/ and the fixtures.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message as _;
use prost_types::Timestamp;
use rollplan::proto::{PlanRolloutRequest, Snapshot};
use rollplan::wire::json;
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: seeds DIRECTORY")?;
    let directory = PathBuf::from(directory);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in files(&root.join("examples"))? {
        let mut list: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
        shorten(&mut list);
        let text = list.to_string();
        let name = file.file_stem().unwrap_or_default();
        for target in ["cli_input", "objects"] {
            put(&directory, target, name, text.as_bytes())?;
        }
        let request = request(text);
        let json = json::to_json(&request)?;
        put(&directory, "request_json", name, json.as_bytes())?;
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

/// Removes the fields that the planner does not read and that make up most of the text.
fn shorten(list: &mut Value) {
    let mut remove = |parent: &str, key: &str| {
        let items = list["items"].as_array_mut().into_iter().flatten();
        for parent in items.filter_map(|item| item.pointer_mut(parent)?.as_object_mut()) {
            parent.remove(key);
        }
    };
    remove("/metadata", "managedFields");
    remove(
        "/metadata/annotations",
        "kubectl.kubernetes.io/last-applied-configuration",
    );
}

fn request(objects: String) -> PlanRolloutRequest {
    PlanRolloutRequest {
        snapshot: Some(Snapshot {
            now: Some(Timestamp {
                seconds: 1_795_217_250,
                nanos: 0,
            }),
            objects: vec![objects],
            pods_complete: true,
            replica_sets_complete: true,
            ..Snapshot::default()
        }),
        ..PlanRolloutRequest::default()
    }
}

fn put(directory: &Path, target: &str, name: &OsStr, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let directory = directory.join(target);
    fs::create_dir_all(&directory)?;
    fs::write(directory.join(name), bytes)?;
    Ok(())
}
