//! A forecast as text.

use rollplan_wire::proto::Outcome;

use super::facts::{Facts, Step};
use crate::page::{Columns, Page, Style};
use crate::revision::{spec_changes, template_changes};

/// The effect of the change, the steps, the scenarios, what is assumed, and the outcome in the last line.
pub fn forecast(page: &mut Page, facts: &Facts<'_>) {
    page.line(&facts.title(), Style::Strong);
    spec_changes(page, &facts.response.spec_changes);
    template_changes(page, &facts.response.template_changes);
    if !facts.is_idle() {
        steps(page, facts);
        scenarios(page, facts);
        model(page, facts);
    }
    page.gap();
    let expected = facts.response.expected.as_ref();
    page.line(
        &facts.outcome(),
        match expected.map(|it| it.outcome()) {
            Some(Outcome::Completes) => Style::Good,
            Some(Outcome::Never) => Style::Bad,
            _ => Style::Warn,
        },
    );
}

/// Where the start times come from, and what is assumed.
fn model(page: &mut Page, facts: &Facts<'_>) {
    page.gap();
    page.paragraph(
        "start times: ",
        Style::Faint,
        &facts.start_times(),
        Style::Plain,
    );
    for assumption in &facts.response.assumptions {
        page.paragraph("assumption: ", Style::Faint, assumption, Style::Plain);
    }
}

fn steps(page: &mut Page, facts: &Facts<'_>) {
    let steps = facts.steps();
    if steps.len() <= 1 {
        return;
    }
    page.gap();
    let head = facts.step_head().to_uppercase();
    let names = ["NEW", "OLD", "AVAILABLE", "TERMINATING", "WHAT HAPPENS"];
    let names = [head.as_str()].into_iter().chain(names);
    let mut table = Columns::head(names);
    let plain = |text: String| (text, Style::Plain);
    for step in steps {
        match step {
            Step::At { at, counts, events } => {
                let counts = counts.columns().map(|it| plain(it.to_string()));
                let events = events.join("\n");
                let cells = [plain(at)].into_iter().chain(counts);
                table.row(cells.chain([plain(events)]), "");
            }
            Step::More(count) => {
                table.row(
                    [("…".to_owned(), Style::Faint)],
                    &format!("{count} more steps"),
                );
            }
        }
    }
    page.columns(&table);
}

/// The scenarios side by side.
fn scenarios(page: &mut Page, facts: &Facts<'_>) {
    let names = facts.scenarios();
    if names.is_empty() {
        return;
    }
    page.gap();
    let names = names.iter().map(|it| it.name.to_uppercase());
    let mut table = Columns::head(["SCENARIO".to_owned()].into_iter().chain(names));
    for (name, values) in facts.comparison() {
        let values = values.into_iter().map(|value| (value, Style::Plain));
        let name = (name.to_owned(), Style::Plain);
        table.row([name].into_iter().chain(values), "");
    }
    page.columns(&table);
}
