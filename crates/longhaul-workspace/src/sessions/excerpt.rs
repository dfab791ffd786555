//! The part of a message that shows why it was found. Pure; characters of any language.

/// The part of a text in which most of the wanted words stand, on one line, at most so many characters.
pub(super) fn excerpt(text: &str, wanted: &[String], chars_max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let chars: Vec<char> = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if chars.len() <= chars_max {
        return chars.into_iter().collect();
    }
    let from = best(&chars, wanted, chars_max);
    let from = snapped(&chars, from);
    let to = (from + chars_max).min(chars.len());
    // The marks of what is left out take the place of characters.
    let (lead, trail) = (from > 0, to < chars.len());
    let shown = &chars[from + usize::from(lead)..to - usize::from(trail)];
    let mark = |is: bool| if is { "…" } else { "" };
    format!("{}{}{}", mark(lead), shown.iter().collect::<String>(), mark(trail))
}

/// Where a stretch of this length begins that has most of the wanted words, and the first of them near its beginning.
fn best(chars: &[char], wanted: &[String], length: usize) -> usize {
    let lower: Vec<char> = chars.iter().map(|c| c.to_lowercase().next().unwrap_or(*c)).collect();
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (word, number) in wanted.iter().zip(0..) {
        let word: Vec<char> = word.chars().collect();
        if !word.is_empty() && word.len() <= lower.len() {
            let found = lower.windows(word.len()).enumerate().filter(|(_, window)| *window == word);
            places.extend(found.take(50).map(|(at, _)| (at, number)));
        }
    }
    places.sort_unstable();
    let distinct = |from: usize| {
        let inside = places.iter().filter(|(at, _)| (from..from + length * 3 / 4).contains(at));
        inside.map(|(_, number)| number).collect::<std::collections::BTreeSet<_>>().len()
    };
    let lead = length / 8;
    let begins = places.iter().map(|(at, _)| at.saturating_sub(lead));
    let best = begins.map(|from| (distinct(from), std::cmp::Reverse(from))).max();
    best.map_or(0, |(_, from)| from.0).min(chars.len().saturating_sub(length))
}

/// The beginning of a word at or shortly before a place.
fn snapped(chars: &[char], from: usize) -> usize {
    let back = (from.saturating_sub(12)..from).rev().find(|at| chars[*at] == ' ');
    back.unwrap_or(from)
}

/// The words of a question to look for in a text: in lower case; of scripts without spaces each two neighbours.
pub(super) fn wanted(question: &str) -> Vec<String> {
    let lower = question.to_lowercase();
    let mut wanted = Vec::new();
    for word in lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let chars: Vec<char> = word.chars().collect();
        if chars.iter().all(|c| !c.is_ascii() && *c > '\u{2E80}') && chars.len() > 2 {
            wanted.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else if chars.len() > 3 || !word.is_ascii() {
            wanted.push(word.to_owned());
        }
    }
    wanted.sort();
    wanted.dedup();
    wanted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_place_with_the_words_is_shown() {
        let text = format!(
            "{}The cache of the parser was too small.\nSo we doubled it. {}",
            "a ".repeat(400),
            "z ".repeat(400)
        );
        let shown = excerpt(&text, &wanted("how small was the parser's cache?"), 80);
        assert!(shown.contains("cache of the parser was too small. So we doubled"), "{shown}");
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.chars().count() <= 80, "{shown}");
        let text = format!("{}我们决定把部署放到周五{}", "无关。".repeat(300), "后面。".repeat(300));
        let shown = excerpt(&text, &wanted("部署是哪天"), 40);
        assert!(shown.contains("把部署放到周五"), "{shown}");
        assert_eq!(excerpt("short\n text", &[], 80), "short text");
    }

    proptest! {
        #[test]
        fn it_is_one_line_within_its_bound(text in "(\\PC|\n|cache ){0,300}", question in "\\PC{0,30}", max in 2_usize..200) {
            let shown = excerpt(&text, &wanted(&question), max);
            prop_assert!(shown.chars().count() <= max && !shown.contains('\n'), "{}", shown);
        }
    }
}
