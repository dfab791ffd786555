//! From bytes to text: byte order marks, UTF-8, UTF-16 without a mark, and the older encodings of many countries.
//!
//! Invariant: what comes out has no NUL and Unix line ends, and every line is as it was counted in the file. What is
//! not text is refused, never guessed at.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use crate::parse::Refusal;

/// Bytes looked at to tell text from other things.
const SAMPLE_BYTES: usize = 64 * 1024;
/// One undecodable character in so many is a slip; more, and it is another encoding or no text.
const SLIPS_ONE_IN: usize = 200;

/// The text of a file in any encoding.
///
/// # Errors
/// When it is not text.
pub(crate) fn text(bytes: &[u8]) -> Result<String, Refusal> {
    decoded(bytes, None)
}

/// The text of an HTML file, whose head may name its encoding.
///
/// # Errors
/// When it is not text.
pub(crate) fn html(bytes: &[u8]) -> Result<String, Refusal> {
    decoded(bytes, named_in_head(bytes))
}

fn decoded(bytes: &[u8], named: Option<&'static Encoding>) -> Result<String, Refusal> {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return with(encoding, &bytes[mark..]);
    }
    // Before UTF-8, as ASCII in UTF-16 is UTF-8 with zero bytes.
    if let Some(encoding) = utf16_without_mark(bytes) {
        return with(encoding, bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return checked(text.to_owned(), 0);
    }
    if bytes[..bytes.len().min(SAMPLE_BYTES)].contains(&0) {
        return Err(Refusal::Binary { problem: "it has zero bytes" });
    }
    if let Some(encoding) = named.filter(|encoding| *encoding != UTF_8) {
        return with(encoding, bytes);
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(bytes, true);
    with(detector.guess(None, Utf8Detection::Allow), bytes)
}

fn with(encoding: &'static Encoding, bytes: &[u8]) -> Result<String, Refusal> {
    let (text, _) = encoding.decode_without_bom_handling(bytes);
    let slips = text.chars().filter(|char| *char == char::REPLACEMENT_CHARACTER).count();
    checked(text.into_owned(), slips)
}

fn checked(mut text: String, slips: usize) -> Result<String, Refusal> {
    let sample = &text[..text.floor_char_boundary(SAMPLE_BYTES)];
    let chars = sample.chars().count();
    let odd = sample.chars().filter(|char| char.is_control() && !char.is_whitespace() && *char != '\u{1b}').count();
    if slips * SLIPS_ONE_IN > chars.max(SLIPS_ONE_IN) {
        return Err(Refusal::Binary { problem: "it is in no encoding that is known" });
    }
    if odd * 50 > chars {
        return Err(Refusal::Binary { problem: "it has many control characters" });
    }
    if text.contains('\r') {
        text = text.replace("\r\n", "\n").replace('\r', "\n");
    }
    if text.contains('\0') {
        text = text.replace('\0', "\u{fffd}");
    }
    Ok(text)
}

/// UTF-16 shows by zero bytes that stand in one half of the pairs only, as ASCII and line breaks are everywhere.
fn utf16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES) & !1];
    let zeros = |half: usize| sample.iter().skip(half).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd, pairs) = (zeros(0), zeros(1), sample.len() / 2);
    if bytes.len() % 2 != 0 || pairs == 0 || even + odd == 0 {
        return None;
    }
    let many = |count: usize| count * 20 > pairs;
    match (even, odd) {
        (0, odd) if many(odd) => Some(UTF_16LE),
        (even, 0) if many(even) => Some(UTF_16BE),
        _ => None,
    }
}

fn named_in_head(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(2048)]).to_ascii_lowercase();
    let after = head.split("charset=").nth(1)?.trim_start_matches(['"', '\'', ' ']);
    let label: String =
        after.chars().take_while(|char| char.is_ascii_alphanumeric() || "-_:".contains(*char)).collect();
    Encoding::for_label(label.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_many_encodings_come_out_alike() {
        let chinese = "长期任务需要记忆。\n向量检索与关键词检索要融合，才能找到需要的内容。\r\n";
        let japanese = "記憶は取引の中で書かれる。日本語の検索も正しいはずである。";
        let plain = chinese.replace("\r\n", "\n");
        assert_eq!(text(chinese.as_bytes()).unwrap(), plain);
        let (gbk, ..) = encoding_rs::GBK.encode(chinese);
        assert_eq!(text(&gbk).unwrap(), plain);
        let (shift_jis, ..) = encoding_rs::SHIFT_JIS.encode(japanese);
        assert_eq!(text(&shift_jis).unwrap(), japanese);
        let little: Vec<u8> = "a plain text\nof lines".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(text(&little).unwrap(), "a plain text\nof lines");
        let big: Vec<u8> =
            [&[0xfe, 0xff][..], &chinese.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<_>>()].concat();
        assert_eq!(text(&big).unwrap(), plain);
    }

    #[test]
    fn what_is_not_text_is_refused() {
        let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &[0, 7, 200, 13, 255, 0, 1]].concat();
        assert!(matches!(text(&png), Err(Refusal::Binary { .. })));
        let noise: Vec<u8> = (0..4000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert!(matches!(text(&noise), Err(Refusal::Binary { .. })));
    }
}
