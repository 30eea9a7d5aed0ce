//! A page for the artifacts of a pipeline: each rollout as it was, beside the forecast that was made at its start.

use rollplan_text::forecast::{Extent, Html, Picture};

use super::RolloutResult;
use crate::cli::goal::Goal;

pub(super) fn document(command: &str, goal: &Goal, results: &[RolloutResult]) -> String {
    let done = results.iter().filter(|result| result.is_done()).count();
    let title = format!("{command}: {done} of {} {}", results.len(), goal.text());
    let mut html = Html::new(&title);
    for result in results {
        html.heading(&format!("{}: {}", result.subject, result.state()));
        if !result.is_done() {
            html.preformatted(&result.details());
        }
        if let Some(summary) = result.course.summary() {
            html.paragraph(&summary);
        }
        let pictures = result.course.pictures(&result.subject);
        // With the same axes, they can be compared.
        let extent = pictures.iter().map(Picture::extent).reduce(Extent::with);
        for picture in &pictures {
            html.picture(picture, extent.unwrap_or_else(|| picture.extent()));
        }
    }
    html.finish()
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::*;

    #[test]
    fn each_rollout_has_a_heading_and_causes() {
        let html = document("rollplan wait", &Goal::Complete, &results());
        assert!(
            html.contains("<h1>rollplan wait: 1 of 6 complete</h1>"),
            "{html}"
        );
        assert_eq!(html.matches("<h2>").count(), 6);
        assert!(
            html.contains("<h2>Deployment shop/web: stalled</h2>\n<pre>"),
            "{html}"
        );
        let cause = "image &quot;x|y&quot; &lt;b&gt;: 100%";
        assert!(html.contains(cause), "{html}");
        assert!(
            !html.contains("\u{1b}") && !html.contains("\u{fffe}"),
            "{html}"
        );
    }
}
