//! Pages that browsers show without anything else: one file, with pictures and tables, and without scripts.

use std::fmt::Write as _;

use rollplan_wire::proto::TemplateChange;

use super::axes::Extent;
use super::facts::{Facts, Step};
use super::picture::{CSS, Picture, xml};
use crate::json_or_absent;

/// The style of pages.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:14px/1.5 system-ui,-apple-system,'Segoe UI','Helvetica Neue','DejaVu Sans',sans-serif;max-width:60rem;\
margin:2rem auto;padding:0 1rem;color:#1f2328;background:#fff}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}\
.wide{overflow-x:auto;margin:1rem 0}svg{width:100%;min-width:40rem;height:auto;display:block}\
table{border-collapse:collapse}\
th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #d1d9e0}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}code{overflow-wrap:anywhere}pre{white-space:pre-wrap}\
.outcome{font-weight:600}\
@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#30363d}}";

/// The SHA-256 of the style, which alone is allowed. A test computes it.
const STYLE_HASH: &str = "C+PuThrhzkU75BQF87A8H9YFb/RGPvb1Af1T+2VLQFY=";

/// A page in the making.
#[derive(Debug)]
pub struct Html {
    title: String,
    body: String,
    pictures: usize,
}

/// The page about a forecast.
pub fn page(facts: &Facts<'_>) -> String {
    let mut html = Html::new(&facts.title());
    html.forecast(facts);
    html.finish()
}

// === impl Html ===

impl Html {
    /// A page with this title.
    pub fn new(title: &str) -> Self {
        let title = xml(title);
        Self {
            body: format!("<h1>{title}</h1>\n"),
            title,
            pictures: 0,
        }
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "<h2>{}</h2>", xml(text));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", xml(text));
    }

    /// Adds lines that are not wrapped.
    pub fn preformatted(&mut self, text: &str) {
        let lines: Vec<String> = text.lines().map(xml).collect();
        let _ = writeln!(self.body, "<pre>{}</pre>", lines.join("\n"));
    }

    /// Adds a picture, with axes that others may share.
    pub fn picture(&mut self, picture: &Picture, extent: Extent) {
        self.pictures += 1;
        let id = format!("picture{}", self.pictures);
        self.wide(&picture.title, &picture.fragment(&id, extent));
    }

    /// Adds something that may be wider than a small screen. Those who use a keyboard can scroll it, too.
    fn wide(&mut self, name: &str, content: &str) {
        let name = xml(name);
        let _ = writeln!(
            self.body,
            "<div class=\"wide\" role=\"region\" aria-label=\"{name}\" tabindex=\"0\">\n{content}\n</div>"
        );
    }

    /// The outcome of a forecast, pictures and tables.
    fn forecast(&mut self, facts: &Facts<'_>) {
        let _ = writeln!(
            self.body,
            "<p class=\"outcome\">{}</p>",
            xml(&facts.outcome())
        );
        self.changes("Changes of the spec", &facts.response.spec_changes);
        self.changes("Changes of the template", &facts.response.template_changes);
        for scenario in facts.scenarios() {
            let mut picture = Picture::of(facts, scenario);
            picture.title = match scenario.name {
                "expected" => "Expected",
                "slow" => "Slow: every pod takes as long to start as the slowest",
                _ => "Never ready: no new pod becomes ready",
            }
            .to_owned();
            picture.subtitle = facts.summary(scenario.forecast);
            let extent = picture.extent();
            self.picture(&picture, extent);
        }
        self.scenarios(facts);
        self.steps(facts);
        self.heading("Start times and assumptions");
        self.paragraph(&facts.start_times());
        self.body += "<ul>\n";
        for assumption in &facts.response.assumptions {
            let _ = writeln!(self.body, "<li>{}</li>", xml(assumption));
        }
        self.body += "</ul>\n";
    }

    fn changes(&mut self, title: &str, changes: &[TemplateChange]) {
        if changes.is_empty() {
            return;
        }
        self.heading(title);
        let rows = changes.iter().map(|change| {
            let (from, to) = (
                json_or_absent(&change.from_json),
                json_or_absent(&change.to_json),
            );
            let cells = [change.path.as_str(), from, to];
            cells
                .map(|it| format!("<td><code>{}</code></td>", xml(it)))
                .concat()
        });
        let rows: Vec<String> = rows.collect();
        self.table("Changes of the template", &["field", "from", "to"], &rows);
    }

    fn scenarios(&mut self, facts: &Facts<'_>) {
        self.heading("Scenarios");
        let names = facts.scenarios();
        let names = names.iter().map(|it| it.name);
        let heads: Vec<&str> = [""].into_iter().chain(names).collect();
        let rows = facts.comparison().into_iter().map(|(name, values)| {
            let values = values.iter().map(|it| format!("<td>{}</td>", xml(it)));
            format!("<th>{name}</th>{}", values.collect::<String>())
        });
        let rows: Vec<String> = rows.collect();
        self.table("Scenarios", &heads, &rows);
    }

    fn steps(&mut self, facts: &Facts<'_>) {
        self.heading("Steps");
        let heads = ["new", "old", "available", "terminating", "what happens"];
        let heads: Vec<&str> = [facts.step_head()].into_iter().chain(heads).collect();
        let rows = facts.steps().into_iter().map(|step| match step {
            Step::At { at, counts, events } => {
                let counts = counts
                    .columns()
                    .map(|it| format!("<td class=\"n\">{it}</td>"))
                    .concat();
                let events: Vec<String> = events.iter().map(|it| xml(it)).collect();
                format!("<td>{at}</td>{counts}<td>{}</td>", events.join("<br/>"))
            }
            Step::More(count) => format!("<td>…</td><td colspan=\"5\">{count} more steps</td>"),
        });
        let rows: Vec<String> = rows.collect();
        self.table("Steps", &heads, &rows);
    }

    /// A table of rows that are escaped already.
    fn table(&mut self, name: &str, heads: &[&str], rows: &[String]) {
        let heads = heads.iter().map(|head| match *head {
            // A header must not be empty.
            "" => "<td></td>".to_owned(),
            head => format!("<th>{head}</th>"),
        });
        let mut table = format!("<table>\n<tr>{}</tr>\n", heads.collect::<String>());
        for row in rows {
            let _ = writeln!(table, "<tr>{row}</tr>");
        }
        self.wide(name, &(table + "</table>"));
    }

    /// The page. It is valid XML, too.
    pub fn finish(self) -> String {
        let Self { title, body, .. } = self;
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; \
             base-uri 'none'; form-action 'none'\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
             <title>{title}</title>\n<style>{STYLE}{CSS}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
        )
    }
}
