//! The trace of a request: taken from its header where that is well formed, else made, and always returned.
//!
//! Invariant: what a header says is parsed into a [`TraceId`] or ignored; no byte of it reaches a log or an answer
//! otherwise.

use axum::http::{HeaderMap, HeaderName};
use longhaul_core::{Ambient, TraceId};

/// In which header the trace is returned, and may be given: the id itself or its body.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The trace that the request names, by W3C's `traceparent` first; a new one where it names none.
pub(crate) fn of(headers: &HeaderMap, ambient: &Ambient) -> TraceId {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let parent = text("traceparent").and_then(of_traceparent);
    let given = parent.or_else(|| text(REQUEST_ID.as_str()).and_then(of_request_id));
    given.unwrap_or_else(|| TraceId::from_body(&ambient.ids.body()))
}

/// `00-` 32 hexadecimal digits `-` 16 `-` 2, of which neither id is all zeros; later versions may have more behind.
fn of_traceparent(text: &str) -> Option<TraceId> {
    let mut parts = text.split('-');
    let mut hex = |digits: usize| {
        let part = parts.next()?;
        let fits = part.len() == digits && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        fits.then_some(part)
    };
    let (version, trace, parent, _flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
    let zeros = |part: &str| part.bytes().all(|b| b == b'0');
    if version == "ff" || zeros(trace) || zeros(parent) || (version == "00" && parts.next().is_some()) {
        return None;
    }
    Some(TraceId::from_body(trace))
}

fn of_request_id(text: &str) -> Option<TraceId> {
    text.parse().ok().or_else(|| format!("trace_{text}").parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_taken_only_as_the_standard_writes_it() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(of_traceparent(good).unwrap().as_str(), "trace_0af7651916cd43dd8448eb211c80319c");
        for wrong in [
            "",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        ] {
            assert_eq!(of_traceparent(wrong), None, "{wrong}");
        }
        assert_eq!(of_request_id("trace_a1").unwrap().as_str(), "trace_a1");
        assert_eq!(of_request_id("a1").unwrap().as_str(), "trace_a1");
        for wrong in ["", "a b", "a\r\nSet-Cookie: x", "../..", &"a".repeat(65)] {
            assert_eq!(of_request_id(wrong), None, "{wrong:?}");
        }
    }
}
