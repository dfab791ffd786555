//! Names and types of files: labels that a receiver may save a file under, so nothing in them may lead anywhere.

use longhaul_network::Refusal;

use crate::shape::wrong;

/// Longest name, bytes: what file systems take.
const NAME_BYTES_MAX: usize = 255;

/// The name without the folders in front of it.
///
/// # Errors
/// That nothing is left, or that it would be a folder, hidden, or unprintable.
pub(super) fn clean(given: &str) -> Result<String, Refusal> {
    let name = given.rsplit(['/', '\\']).next().unwrap_or_default().trim();
    let climbs = given.split(['/', '\\']).any(|part| part == "..");
    let unprintable = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if climbs || name.is_empty() || name.starts_with('.') || name.chars().any(unprintable) {
        return Err(wrong("filename", "is no plain name of a file: write it without folders, as in \"report.pdf\""));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(wrong("filename", &format!("is {} bytes long: at most {NAME_BYTES_MAX} are taken", name.len())));
    }
    Ok(name.to_owned())
}

/// Whether a file is of one of these types: media types (`image/*`, `text/plain`), or endings with or without the dot.
pub(crate) fn is_type_taken(types: &[String], filename: &str, media_type: &str) -> bool {
    let ending = filename.rsplit_once('.').map(|(_, ending)| ending.to_lowercase()).unwrap_or_default();
    types.iter().any(|each| match (each.split_once('/'), each.strip_suffix("/*")) {
        (_, Some(family)) => media_type.split('/').next() == Some(family),
        (Some(_), None) => each == media_type,
        (None, None) => !ending.is_empty() && each.trim_start_matches('.').to_lowercase() == ending,
    })
}

/// The media type that an ending stands for.
pub(super) fn media_type_of(filename: &str) -> &'static str {
    let ending = filename.rsplit_once('.').map(|(_, ending)| ending.to_lowercase()).unwrap_or_default();
    match ending.as_str() {
        "txt" | "log" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "json" => "application/json",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere() {
        for (given, kept) in [("report.pdf", "report.pdf"), ("/tmp/a b.txt", "a b.txt"), (r"C:\x\日本.md", "日本.md")]
        {
            assert_eq!(clean(given).expect("a name"), kept);
        }
        for given in
            ["..", "../../etc/passwd", "a/..", "", "/", ".bashrc", "x\u{0}y", "a\\..\\b", "evil\u{202e}gpj.exe"]
        {
            assert!(clean(given).is_err(), "{given:?}");
        }
    }

    #[test]
    fn types_are_media_types_or_endings() {
        let types = ["image/*", "text/plain", ".PDF", "csv"].map(str::to_owned);
        for (name, media) in [("a", "image/png"), ("a.bin", "text/plain"), ("a.pdf", "x/y"), ("a.CSV", "x/y")] {
            assert!(is_type_taken(&types, name, media), "{name} {media}");
        }
        assert!(!is_type_taken(&types, "a.exe", "application/x-dosexec"));
    }
}
