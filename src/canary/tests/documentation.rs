//! The tables of `docs/reference/canary.md`, which `UPDATE_GOLDEN=1` writes.

use rollplan_canary::RefusalCause;
use rollplan_core::size::IntOrPercent;
use rollplan_world::page;

const PAGE: &str = "docs/reference/canary.md";

/// The variants with their machine-readable reasons, as `as_str` lists them in a source file.
fn arms(source: &str) -> impl Iterator<Item = (&str, &str)> {
    let arms = source.lines().filter_map(|line| line.split_once(" => \""));
    arms.map(|(variant, reason)| {
        let variant = variant.trim().trim_start_matches("Self::");
        let reason = reason.trim_end_matches("\",");
        (variant.trim_end_matches(" { .. }"), reason)
    })
}

/// The comment of a variant, as part of a sentence.
fn comment(source: &str, variant: &str) -> String {
    let end = format!("\n    {variant},\n");
    let (before, _) = source.split_once(&end).unwrap();
    let lines = before.lines().rev();
    let mut lines: Vec<_> = lines
        .map_while(|line| line.trim().strip_prefix("/// "))
        .collect();
    lines.reverse();
    let text = lines.join(" ");
    text[..1].to_lowercase() + text[1..].trim_end_matches('.')
}

#[test]
fn documentation_has_the_reasons() {
    let source = include_str!("../report.rs");
    let (_, kinds) = source.split_once("pub enum ReasonKind").unwrap();
    let rows =
        arms(kinds).map(|(variant, reason)| vec![reason.to_owned(), comment(kinds, variant)]);
    let table = page::table(&["reason", "meaning"], rows);
    page::check(PAGE, "reasons", &table);
}

#[test]
fn documentation_has_the_refusals() {
    let causes = [
        RefusalCause::Incomplete,
        RefusalCause::NotNative,
        RefusalCause::Deleting,
        RefusalCause::Recreate,
        RefusalCause::Paused,
        RefusalCause::NoReplicas,
        RefusalCause::NoSurge,
        RefusalCause::AboveSurge { pods: 5, surge: 3 },
        RefusalCause::Pods {
            pods: IntOrPercent::Int(12),
            replicas: 10,
        },
        RefusalCause::OtherController {
            found: "rollouts.kruise.io/deployment-strategy".to_owned(),
        },
        RefusalCause::NotComplete,
        RefusalCause::NotObserved,
        RefusalCause::MinReadySeconds,
        RefusalCause::SameTemplate,
        RefusalCause::OtherChanges {
            fields: "spec.replicas".to_owned(),
        },
        RefusalCause::Rejected,
        RefusalCause::InProgress {
            pipeline: Some("shop".to_owned()),
        },
        RefusalCause::OtherSize {
            option: "--pods",
            asked: IntOrPercent::Int(4),
            held: 2,
        },
        RefusalCause::OtherTemplate {
            asked: "1f0c…".to_owned(),
            held: "9a3e…".to_owned(),
        },
        RefusalCause::NotGood {
            why: "1 of 2 pods is ready".to_owned(),
        },
        RefusalCause::NoCanary,
        RefusalCause::Aborting,
        RefusalCause::NothingRejected,
        RefusalCause::RejectedGone,
        RefusalCause::StableGone {
            is_promoting: false,
        },
        RefusalCause::Edited,
        RefusalCause::Newer,
        RefusalCause::Foreign,
        RefusalCause::Lost,
    ];
    let reasons = arms(include_str!("../refusal.rs")).map(|(_, reason)| reason);
    let listed = causes.iter().map(RefusalCause::as_str);
    assert!(listed.eq(reasons), "the list lacks a cause");
    let rows = causes
        .iter()
        .map(|cause| vec![cause.as_str().to_owned(), cause.to_string()]);
    let table = page::table(&["reason", "the Deployment …"], rows);
    page::check(PAGE, "refusals", &table);
}
