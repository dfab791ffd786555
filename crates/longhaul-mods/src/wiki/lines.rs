//! What changed between two texts, line by line. Pure.

/// Lines of the differing middle that are looked at; a longer one is shown as replaced as a whole.
const LINES_MAX: usize = 1_000;

/// Each changed line with `+ ` or `- ` before it, in order; lines that stay are left out.
pub(super) fn compare(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let before = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let behind = old[before..].iter().rev().zip(new[before..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[before..old.len() - behind], &new[before..new.len() - behind]);
    if old.len() > LINES_MAX || new.len() > LINES_MAX {
        return old.iter().map(|line| removed(line)).chain(new.iter().map(|line| added(line))).collect();
    }
    // longest[i][j]: how many lines are common to what begins at i and at j.
    let mut longest = vec![vec![0_u16; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i][j] =
                if old[i] == new[j] { longest[i + 1][j + 1] + 1 } else { longest[i + 1][j].max(longest[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut changes) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && longest[i + 1][j] >= longest[i][j + 1]) {
            changes.push(removed(old[i]));
            i += 1;
        } else {
            changes.push(added(new[j]));
            j += 1;
        }
    }
    changes
}

fn added(line: &str) -> String {
    format!("+ {line}")
}

fn removed(line: &str) -> String {
    format!("- {line}")
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn only_what_changed_is_shown() {
        assert_eq!(compare("a\nb\nc\nd", "a\nc\nx\nd"), ["- b", "+ x"]);
        assert_eq!(compare("", "a"), ["+ a"]);
        assert_eq!(compare("a\n", "a"), Vec::<String>::new());
    }
}
