//! Writes JUnit XML: a test suite with one test case per rollout.

use std::io;
use std::time::Duration;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use rollplan_text::one_line;

use super::RolloutResult;
use crate::cli::exit::Exit;

/// The result of a test case in JUnit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CaseResult {
    Passed,
    Failure,
    Error,
    Skipped,
}

/// The document. A test case passes if its exit code is 0.
pub(super) fn document(command: &str, results: &[RolloutResult]) -> io::Result<Vec<u8>> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let count = |wanted| {
        results
            .iter()
            .filter(|it| case_result(it) == wanted)
            .count()
            .to_string()
    };
    let longest = results.iter().filter_map(|result| result.elapsed).max();
    let mut counts = vec![
        ("name", command.to_owned()),
        ("tests", results.len().to_string()),
        ("failures", count(CaseResult::Failure)),
        ("errors", count(CaseResult::Error)),
    ];
    // Few suites have any.
    let skipped = count(CaseResult::Skipped);
    counts.extend((skipped != "0").then_some(("skipped", skipped)));
    counts.extend(longest.map(|longest| ("time", seconds(longest))));
    let counts = || counts.iter().map(|(name, value)| (*name, value.as_str()));
    writer
        .create_element("testsuites")
        .with_attributes(counts())
        .write_inner_content(|writer| {
            writer
                .create_element("testsuite")
                .with_attributes(counts())
                .write_inner_content(|writer| {
                    results
                        .iter()
                        .try_for_each(|result| case(writer, command, result))
                })?;
            Ok(())
        })?;
    let mut document = writer.into_inner();
    document.push(b'\n');
    Ok(document)
}

fn case(writer: &mut Writer<Vec<u8>>, command: &str, result: &RolloutResult) -> io::Result<()> {
    let name = allowed(&one_line(&result.subject));
    let mut attributes = vec![("classname", command.to_owned()), ("name", name)];
    attributes.extend(result.elapsed.map(|elapsed| ("time", seconds(elapsed))));
    let attributes = attributes
        .iter()
        .map(|(name, value)| (*name, value.as_str()));
    let case = writer
        .create_element("testcase")
        .with_attributes(attributes);
    let element = match case_result(result) {
        CaseResult::Passed => return case.write_empty().map(|_| ()),
        CaseResult::Failure => "failure",
        CaseResult::Error => "error",
        CaseResult::Skipped => {
            let message = allowed(&result.headline());
            case.write_inner_content(|writer| {
                writer
                    .create_element("skipped")
                    .with_attribute(("message", message.as_str()))
                    .write_empty()?;
                Ok(())
            })?;
            return Ok(());
        }
    };
    case.write_inner_content(|writer| {
        let (reason, message) = (allowed(&result.reason()), allowed(&result.headline()));
        writer
            .create_element(element)
            .with_attributes([("type", reason.as_str()), ("message", message.as_str())])
            .write_text_content(BytesText::new(&allowed(&result.details())))?;
        Ok(())
    })?;
    Ok(())
}

fn case_result(result: &RolloutResult) -> CaseResult {
    match result.exit {
        _ if result.is_skipped => CaseResult::Skipped,
        Exit::Done => CaseResult::Passed,
        Exit::Failed | Exit::Going | Exit::NotJudged => CaseResult::Failure,
        Exit::Usage | Exit::Unreachable | Exit::Internal => CaseResult::Error,
    }
}

/// The text without characters that are invalid in XML or not printable.
fn allowed(text: &str) -> String {
    text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

fn seconds(span: Duration) -> String {
    format!("{:.3}", span.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::*;

    #[test]
    fn each_rollout_is_a_test_case() {
        let document = document("rollplan wait", &results()).unwrap();
        assert_eq!(
            String::from_utf8(document).unwrap(),
            r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="rollplan wait" tests="6" failures="3" errors="1" skipped="1" time="12.340">
  <testsuite name="rollplan wait" tests="6" failures="3" errors="1" skipped="1" time="12.340">
    <testcase classname="rollplan wait" name="Deployment shop/web" time="12.340">
      <failure type="IMAGE_PULL" message="image &quot;x|y&quot; &lt;b&gt;: 100% ::error::]]&gt; `a` ##[error]\u{1b}[31m�">1 of 2 pods are updated
  - image &quot;x|y&quot; &lt;b&gt;: 100%
    ::error::]]&gt; `a` ##[error]\u{1b}[31m�
    remedy: rollplan undo deploy/web -n shop
</failure>
    </testcase>
    <testcase classname="rollplan wait" name="Deployment shop/api" time="12.340"/>
    <testcase classname="rollplan wait" name="Deployment shop/db" time="12.340">
      <failure type="PROGRESSING" message="1 of 2 pods are updated">1 of 2 pods are updated
</failure>
    </testcase>
    <testcase classname="rollplan wait" name="shop/gone" time="12.340">
      <error type="UNKNOWN" message="deployments.apps &quot;gone&quot; not found">deployments.apps &quot;gone&quot; not found
</error>
    </testcase>
    <testcase classname="rollplan wait" name="Thing shop/x" time="12.340">
      <skipped message="no rule"/>
    </testcase>
    <testcase classname="rollplan wait" name="Thing shop/y" time="12.340">
      <failure type="NOT_JUDGED" message="no rule">1 of 2 pods are updated
  - no rule
</failure>
    </testcase>
  </testsuite>
</testsuites>
"#
        );
    }
}
