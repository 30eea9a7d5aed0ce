//! Answers, one a line: reads a request in JSON from each line of standard input, and answers with a line of JSON: the
//! response, 64-bit integers as numbers, or `{"error": "..."}`.
//!
//! A line is a `PlanRolloutRequest`, or the name of a method and its request: `ComputeStatus {...}`. `ReadDocuments` reads a
//! file as the command line does. Tests in other languages hold the planner against their own through this, without a
//! server.

use std::io::{self, BufRead as _, BufWriter, Write as _};

use rollplan::proto::PlanRolloutRequest;
use rollplan::service::{MethodRequest as _, Status, find_method};
use rollplan::wire::Context;

fn main() -> io::Result<()> {
    // One write a line: standard output alone would write at every newline, and in small pieces.
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let answer = answer(&line?)
            .unwrap_or_else(|status| serde_json::json!({ "error": status.message }).to_string());
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(line: &str) -> Result<String, Status> {
    let (name, request) = line.split_at(line.find('{').unwrap_or_default());
    match name.trim() {
        "ReadDocuments" => Ok(documents(request)),
        name => {
            let method = find_method(name).unwrap_or(&PlanRolloutRequest::METHOD);
            method.call_json(request, &mut Context::default())
        }
    }
}

/// The documents of a file, which the request contains as bytes: `{"bytes": [97]}`.
fn documents(request: &str) -> String {
    let request: serde_json::Value = serde_json::from_str(request).unwrap_or_default();
    let bytes = request["bytes"].as_array().into_iter().flatten();
    let bytes = bytes.filter_map(|byte| u8::try_from(byte.as_u64()?).ok());
    match rollplan::cli::documents(bytes.collect()) {
        Ok(documents) => serde_json::json!({ "documents": documents }).to_string(),
        Err(error) => serde_json::json!({ "error": error }).to_string(),
    }
}
