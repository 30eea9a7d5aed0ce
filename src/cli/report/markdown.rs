//! A Markdown summary for GitHub: a table, followed by the blockers of the rollouts that are not complete.

use std::fmt::Write as _;

use rollplan_text::forecast::{Facts, Step};
use rollplan_text::{
    ConfigurationUser, ManifestChanges, Numbers, is_command, json_or_absent, one_line, parts,
};

use super::RolloutResult;
use crate::cli::goal::Goal;

pub(super) fn document(command: &str, goal: &Goal, results: &[RolloutResult]) -> String {
    let done = results.iter().filter(|result| result.is_done()).count();
    let (all, goal) = (results.len(), escaped(&goal.text()));
    let skipped = match results.iter().filter(|result| result.is_skipped).count() {
        0 => String::new(),
        count => format!(", {count} not judged"),
    };
    let mut text = format!("### {command}: {done} of {all} {goal}{skipped}\n\n");
    text += "| Rollout | State | Updated | Available | |\n| --- | --- | --- | --- | --- |\n";
    for result in results {
        text += &row(result);
    }
    for result in results.iter().filter(|result| !result.is_done()) {
        text += &causes(result);
    }
    text.push('\n');
    text
}

fn row(result: &RolloutResult) -> String {
    let numbers = result.report().map(Numbers::of).unwrap_or_default();
    let of = |count: Option<i64>, all: Option<i64>| match (count, all) {
        (Some(count), Some(all)) => format!("{count}/{all}"),
        _ => "–".to_owned(),
    };
    let headline = if result.is_done() {
        String::new()
    } else {
        result.headline()
    };
    format!(
        "| {} | {} | {} | {} | {} |\n",
        escaped(&result.subject),
        result.state(),
        of(numbers.updated, numbers.to_update),
        of(numbers.available, numbers.desired),
        escaped(&headline)
    )
}

fn causes(result: &RolloutResult) -> String {
    let blockers = result
        .report()
        .into_iter()
        .flat_map(|report| &report.blockers);
    let mut text = String::new();
    for blocker in blockers {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "- {}", escaped(&blocker.message));
        if !blocker.remedy.is_empty() {
            let _ = writeln!(text, "  - remedy: {}", with_code(&blocker.remedy));
        }
    }
    match text.as_str() {
        "" => text,
        causes => format!("\n**{}**\n\n{causes}", escaped(&result.subject)),
    }
}

/// What a change of manifests does to workloads, and the changed configurations.
pub(in crate::cli) fn changes(changes: &ManifestChanges) -> String {
    let mut text = format!(
        "### rollplan restarts: {}\n\n",
        escaped(&changes.headline())
    );
    if !changes.workloads.is_empty() {
        text += "| Workload | This change | Why |\n| --- | --- | --- |\n";
    }
    for workload in &changes.workloads {
        let refusal = Some(&workload.refusal).filter(|it| !it.is_empty());
        let reasons = refusal.into_iter().chain(&workload.reasons);
        let reasons = reasons.chain(&workload.missing);
        let reasons: Vec<String> = reasons.map(|it| escaped(it)).collect();
        let name = escaped(&workload.workload.to_string());
        let result = workload.result.text().to_owned();
        text += &row_of([name, result, reasons.join("<br>")]);
    }
    if !changes.configurations.is_empty() {
        text += "\n| Configuration | Keys | Read by |\n| --- | --- | --- |\n";
    }
    for change in &changes.configurations {
        let name = escaped(&change.configuration.to_string());
        let name = match change.refusal.as_str() {
            "" => format!("{name}: {}", change.what),
            refusal => format!("{name}: {}<br>{}", change.what, escaped(refusal)),
        };
        let keys: Vec<String> = change.keys.iter().map(|it| escaped(it)).collect();
        let users = change.users.iter().map(ToString::to_string);
        let users: Vec<String> = users.map(|it| escaped(&it)).collect();
        let users = if users.is_empty() {
            "no workload".to_owned()
        } else {
            users.join(", ")
        };
        text += &row_of([name, keys.join(", "), users]);
    }
    text + &notes(&changes.notes)
}

/// What an answer may lack.
fn notes(notes: &[String]) -> String {
    let notes = notes.iter().map(|it| format!("\n{}\n", escaped(it)));
    notes.collect()
}

/// The workloads that use a configuration.
pub(in crate::cli) fn uses(
    heading: &str,
    users: &[ConfigurationUser],
    lacking: &[String],
) -> String {
    let mut text = format!("### {}\n\n", escaped(heading));
    if !users.is_empty() {
        text += "| Workload | A change | Why |\n| --- | --- | --- |\n";
    }
    for user in users {
        let reasons: Vec<String> = user.reasons.iter().map(|it| escaped(it)).collect();
        let effect = user.effect().to_owned();
        text += &row_of([
            escaped(&user.workload().to_string()),
            effect,
            reasons.join("<br>"),
        ]);
    }
    text + &notes(lacking)
}

/// A forecast for a pull request: the outcome, the changes of the template and the scenarios, and the steps folded.
pub(in crate::cli) fn forecast(facts: &Facts<'_>) -> String {
    let mut text = format!(
        "### {}\n\n**{}**\n\n",
        escaped(&facts.title()),
        escaped(&facts.outcome())
    );
    for (head, changes) in [
        ("Field of the spec", &facts.response.spec_changes),
        ("Field of the template", &facts.response.template_changes),
    ] {
        if changes.is_empty() {
            continue;
        }
        text += &format!("| {head} | From | To |\n| --- | --- | --- |\n");
        for change in changes {
            let cells = [
                change.path.as_str(),
                json_or_absent(&change.from_json),
                json_or_absent(&change.to_json),
            ];
            text += &row_of(cells.map(escaped));
        }
        text.push('\n');
    }
    let scenarios = facts.scenarios();
    let heads = scenarios.iter().map(|it| it.name.to_owned());
    text += &row_of([String::new()].into_iter().chain(heads));
    text += &row_of(std::iter::repeat_n("---".to_owned(), scenarios.len() + 1));
    for (name, values) in facts.comparison() {
        let values = values.iter().map(|value| escaped(value));
        text += &row_of([name.to_owned()].into_iter().chain(values));
    }
    text += &format!(
        "\n<details><summary>Steps and assumptions</summary>\n\n| {} ",
        facts.step_head()
    );
    text += "| new | old | available | terminating | what happens |\n| --- | ---: | ---: | ---: | ---: | --- |\n";
    for step in facts.steps() {
        text += &match step {
            Step::At { at, counts, events } => {
                let counts = counts.columns().map(|it| it.to_string());
                let events: Vec<String> = events.iter().map(|it| escaped(it)).collect();
                let cells = [at].into_iter().chain(counts);
                row_of(cells.chain([events.join("<br>")]))
            }
            Step::More(count) => format!("| … | | | | | {count} more steps |\n"),
        };
    }
    text += &format!("\n- start times: {}\n", escaped(&facts.start_times()));
    for assumption in &facts.response.assumptions {
        text += &format!("- {}\n", escaped(assumption));
    }
    text + "\n</details>\n"
}

/// A row of a table, of cells that are escaped already.
fn row_of(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Text on one line. Characters with a meaning in Markdown or HTML, and mentions of users, are escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '@' => escaped.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '#' | '|' | '!' | '~' | '$' => {
                escaped.extend(['\\', c]);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// Text on one line, with its commands as code, so users can copy them.
fn with_code(text: &str) -> String {
    let text = one_line(text);
    let parts = parts(&text).into_iter().map(|part| {
        if is_command(part) {
            let command = part.trim_start_matches('(');
            let begin = &part[..part.len() - command.len()];
            let end = command.trim_end_matches([',', ';', ':', ')', '.']).len();
            format!("{begin}{}{}", code(&command[..end]), &command[end..])
        } else {
            escaped(part)
        }
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// Text on one line as code.
fn code(text: &str) -> String {
    let text = one_line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    match longest {
        0 => format!("`{text}`"),
        _ => format!("{fence} {text} {fence}"),
    }
}

#[cfg(test)]
mod tests {
    use rollplan_wire::proto::{
        self, Forecast, ForecastRolloutResponse, Outcome, TemplateChange, TrajectoryPoint,
    };

    use super::super::tests::results;
    use super::*;

    #[test]
    fn rollouts_are_rows_followed_by_causes() {
        assert_eq!(
            document("rollplan wait", &Goal::Complete, &results()),
            r#"### rollplan wait: 1 of 6 complete, 1 not judged

| Rollout | State | Updated | Available | |
| --- | --- | --- | --- | --- |
| Deployment shop/web | stalled | 1/2 | 2/2 | image "x\|y" &lt;b&gt;: 100% ::error::\]\]&gt; \`a\` \#\#\[error\]\\u\{1b\}\[31m~ |
| Deployment shop/api | complete | 2/2 | 2/2 |  |
| Deployment shop/db | progressing | 1/2 | 2/2 | 1 of 2 pods are updated |
| shop/gone | unknown | – | – | deployments.apps "gone" not found |
| Thing shop/x | not judged | – | – | no rule |
| Thing shop/y | not judged | – | – | no rule |

**Deployment shop/web**

- image "x\|y" &lt;b&gt;: 100% ::error::\]\]&gt; \`a\` \#\#\[error\]\\u\{1b\}\[31m~
  - remedy: `rollplan undo deploy/web -n shop`

**Thing shop/x**

- no rule

**Thing shop/y**

- no rule

"#
            .replace('~', "\u{fffe}")
        );
    }

    #[test]
    fn headings_name_the_goal() {
        for (goal, heading) in [
            (Goal::Available, "### rollplan wait: 1 of 6 available, "),
            (Goal::Updated, "### rollplan wait: 1 of 6 updated, "),
            (Goal::Deleted, "### rollplan wait: 1 of 6 deleted, "),
        ] {
            let text = document("rollplan wait", &goal, &results());
            assert!(text.starts_with(heading), "{text}");
        }
    }

    #[test]
    fn only_commands_are_code() {
        for (text, expected) in [
            ("raise *the* quota", "raise \\*the\\* quota"),
            (
                "fix it, or roll back: rollplan undo deploy/web -n shop",
                "fix it, or roll back: `rollplan undo deploy/web -n shop`",
            ),
            (
                "read it (kubectl logs web -c 'a b'), or wait",
                "read it (`kubectl logs web -c 'a b'`), or wait",
            ),
            (
                "see kubectl get x; it helps",
                "see `kubectl get x`; it helps",
            ),
        ] {
            assert_eq!(with_code(text), expected);
        }
    }

    #[test]
    fn code_is_fenced_by_more_backticks_than_it_has() {
        assert_eq!(code("a b"), "`a b`");
        assert_eq!(code("a `b` ``c"), "``` a `b` ``c ```");
    }

    #[test]
    fn forecasts_are_tables_with_folded_steps() {
        let forecast = Forecast {
            outcome: Outcome::Never.into(),
            reason: "The quota is *used up*.".to_owned(),
            trajectory: vec![TrajectoryPoint {
                pods: vec![0, 4],
                available: vec![0, 4],
                events: vec!["scale up <b>".to_owned(), "b".to_owned()],
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = ForecastRolloutResponse {
            effect: proto::ChangeEffect::StartsRollout.into(),
            template_changes: vec![TemplateChange {
                path: "spec.a|b".to_owned(),
                from_json: String::new(),
                to_json: "\"@team\"".to_owned(),
            }],
            expected: Some(forecast.clone()),
            never_ready: Some(forecast),
            assumptions: vec!["a_b".to_owned()],
            ..Default::default()
        };
        let facts = Facts {
            subject: "Deployment shop/web",
            has_changes: true,
            response: &response,
        };
        assert_eq!(
            super::forecast(&facts),
            r#"### Deployment shop/web: the change starts a rollout, which replaces all pods

**Never completes. The quota is \*used up\*.**

| Field of the template | From | To |
| --- | --- | --- |
| spec.a\|b | (absent) | "&#64;team" |

|  | expected | never ready |
| --- | --- | --- |
| outcome | never completes | never completes |

<details><summary>Steps and assumptions</summary>

| step | new | old | available | terminating | what happens |
| --- | ---: | ---: | ---: | ---: | --- |
| 1 | 0 | 4 | 4 | 0 | scale up &lt;b&gt;<br>b |

- start times: none is known, so the forecast has no durations
- a\_b

</details>
"#
        );
    }
}
