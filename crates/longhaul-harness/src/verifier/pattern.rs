//! Texts held against patterns: names with `*` and `?`, contents with a text or a regular expression. Pure.

/// Whether a name fits a pattern with `*` (any characters) and `?` (one), without regard to capitals.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let (mut p, mut n, mut star, mut from) = (0, 0, None, 0);
    while n < name.len() {
        if p < pattern.len() && pattern[p] == '*' {
            (star, from) = (Some(p), n);
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == name[n]) {
            p += 1;
            n += 1;
        } else if let Some(at) = star {
            from += 1;
            (p, n) = (at + 1, from);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Holds a content against what must be in it; the error shows its beginning.
pub(super) fn content(text: &str, contains: Option<&str>, matches: Option<&str>) -> Result<(), String> {
    let shown = || format!("it begins {:?}", text.chars().take(200).collect::<String>());
    if let Some(wanted) = contains.filter(|wanted| !text.contains(*wanted)) {
        return Err(format!("{wanted:?} is not in it; {}", shown()));
    }
    if let Some(pattern) = matches {
        let regex = regex::Regex::new(pattern).map_err(|error| error.to_string())?;
        if !regex.is_match(text) {
            return Err(format!("nothing in it matches {pattern:?}; {}", shown()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        for (pattern, name, holds) in [
            ("*.csv", "People.CSV", true),
            ("chat-????.md", "chat-2026.md", true),
            ("*", "", true),
            ("a*b*c", "axxbyyc", true),
            ("*.csv", "a.csv.exe", false),
            ("a?", "a", false),
            ("메모*", "메모.txt", true),
        ] {
            assert_eq!(fits(pattern, name), holds, "{pattern} {name}");
        }
    }
}
