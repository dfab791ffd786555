//! Verdicts as JUnit XML, which CI services read. Printing only.
//!
//! Invariant: the text is well-formed whatever a page or an application put into a reason.

use std::fmt::Write as _;

use super::VerdictView;

/// One test suite, a test case a feature: a refusal is a failure, a feature without checks is skipped.
#[must_use]
pub fn junit(suite: &str, views: &[VerdictView]) -> String {
    let failures = views.iter().filter(|view| !view.passed && !view.unchecked).count();
    let skipped = views.iter().filter(|view| view.unchecked).count();
    let seconds: f64 = views.iter().map(|view| seconds(view.elapsed_ms)).sum();
    let counts = format!("tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\"", views.len());
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts} time=\"{seconds:.3}\">\n\
         <testsuite name=\"{}\" {counts} time=\"{seconds:.3}\">\n",
        text(suite)
    );
    for view in views {
        // Writing to a String never fails.
        let _ = write!(
            xml,
            "<testcase classname=\"{}\" name=\"{} {}\" time=\"{:.3}\"",
            text(&view.category),
            text(&view.feature),
            text(&view.description),
            self::seconds(view.elapsed_ms)
        );
        let _ = match (view.passed, view.unchecked) {
            (true, _) => writeln!(xml, "/>"),
            (false, true) => writeln!(xml, "><skipped message=\"{}\"/></testcase>", text(&view.reason())),
            (false, false) => {
                let check = view.refusal.as_ref().map(|refusal| refusal.check.as_str()).unwrap_or_default();
                writeln!(
                    xml,
                    "><failure type=\"refused\" message=\"{}\">{}</failure></testcase>",
                    text(&view.reason()),
                    text(check)
                )
            }
        };
    }
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a flow are far below 2^52")]
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1_000.0
}

/// Text for an attribute or an element; what XML cannot hold becomes U+FFFD.
fn text(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    for char in raw.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' | '\r' | '\t' => safe.push_str(&format!("&#{};", u32::from(char))),
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            char => safe.push(char),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use longhaul_harness::verification::Refusal;

    use super::*;

    fn view(feature: &str, refusal: Option<&str>) -> VerdictView {
        VerdictView {
            feature: feature.to_owned(),
            category: "functional".to_owned(),
            description: "It \"greets\" <all>".to_owned(),
            passed: refusal.is_none(),
            unchecked: false,
            refusal: refusal.map(|reason| Refusal {
                step: 2,
                sentence: "Look & see".to_owned(),
                check: r#"{"check":"expect"}"#.to_owned(),
                reason: reason.to_owned(),
            }),
            elapsed_ms: 1_250,
            evidence: Vec::new(),
        }
    }

    #[test]
    fn verdicts_become_test_cases_whatever_they_say() {
        let mut unchecked = view("F03", None);
        (unchecked.passed, unchecked.unchecked) = (false, true);
        let xml = junit("app", &[view("F01", None), view("F02", Some("found \u{1b}[1m\nno <b>")), unchecked]);
        assert!(xml.contains(r#"<testsuite name="app" tests="3" failures="1" errors="0" skipped="1" time="3.750">"#));
        let passed = r#"<testcase classname="functional" name="F01 It &quot;greets&quot; &lt;all&gt;" time="1.250"/>"#;
        assert!(xml.contains(passed), "{xml}");
        let failed = "message=\"step 2 &quot;Look &amp; see&quot;: found \u{fffd}[1m&#10;no &lt;b&gt;\">{&quot;check&quot;:&quot;expect&quot;}</failure>";
        assert!(xml.contains(failed), "{xml}");
        assert!(xml.contains(r#"<skipped message="it has no checks, so nothing was verified"/>"#), "{xml}");
    }
}
