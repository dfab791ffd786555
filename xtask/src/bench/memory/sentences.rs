//! Real sentences for measuring: the documentation in the sources of crates that building this project brought. It owns
//! finding and cutting them; they stay on this machine.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};

/// Characters of a sentence that is taken.
const CHARS: std::ops::RangeInclusive<usize> = 40..=240;

/// A file with `count` different sentences, one a line, always the same for the same sources; made when it is not there.
pub(super) fn file(kept: &Path, count: usize) -> anyhow::Result<PathBuf> {
    let path = kept.join(format!("sentences-{count}.txt"));
    if path.is_file() {
        return Ok(path);
    }
    fs::create_dir_all(kept)?;
    let mut files = Vec::new();
    walk(&sources()?, &mut files)?;
    files.sort();
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    // A stride spreads the choice over all crates.
    for start in 0..7 {
        for file in files.iter().skip(start).step_by(7) {
            let Ok(text) = fs::read_to_string(file) else { continue };
            let is_code = file.extension().is_some_and(|extension| extension == "rs");
            for sentence in sentences(&text, is_code) {
                if seen.insert(sentence.clone()) {
                    found.push(sentence);
                }
            }
            if found.len() >= count {
                found.truncate(count);
                fs::write(&path, found.join("\n"))?;
                return Ok(path);
            }
        }
    }
    ensure!(found.len() >= count, "only {} sentences are in the sources of crates here", found.len());
    Ok(path)
}

/// Where cargo unpacks sources.
fn sources() -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    Ok(home.context("no home of cargo: set HOME")?.join("registry/src"))
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            walk(&path, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
            files.push(path);
        }
    }
    Ok(())
}

/// The sentences of prose in a file: of code its documentation, of Markdown its paragraphs.
fn sentences(text: &str, is_code: bool) -> Vec<String> {
    let mut prose = String::new();
    let mut in_fence = false;
    for line in text.lines().map(str::trim) {
        let line = if is_code {
            let documented = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            documented.map_or("", str::trim)
        } else {
            line
        };
        in_fence ^= line.starts_with("```");
        let is_prose = !in_fence && line.starts_with(|c: char| c.is_alphabetic() || c == '`');
        prose.push_str(if is_prose { line } else { "\n" });
        prose.push(' ');
    }
    let ends = |c: char| c == '\n' || c == '\r';
    let paragraphs = prose.split(ends).flat_map(|paragraph| paragraph.split_inclusive(". "));
    let sentence = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    paragraphs.map(sentence).filter(|text| CHARS.contains(&text.chars().count())).collect()
}

#[cfg(test)]
mod tests {
    use super::sentences;

    #[test]
    fn prose_is_taken_and_code_is_not() {
        let code = "/// Gives the number of items that were found in the folder. It is never\n/// more than the limit that was asked for by the caller.\n/// ```\n/// let this_is_code_and_long_enough_to_be_a_sentence = 1;\n/// ```\nfn f() {}\n";
        assert_eq!(
            sentences(code, true),
            [
                "Gives the number of items that were found in the folder.",
                "It is never more than the limit that was asked for by the caller.",
            ]
        );
    }
}
