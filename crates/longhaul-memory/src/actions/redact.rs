//! Taking secrets out of a text before it becomes a memory: commands and summaries are full of them.
//!
//! It errs on the side of removing. It is a net, not a proof: what a file holds is kept out by its name (`path`).

use std::sync::LazyLock;

use regex::Regex;

/// What stands in place of a secret.
pub(crate) const PLACE: &str = "[removed]";

static SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = [
        // NAME=value, "name": "value", --name value
        // NAME=value, "name": "value"
        r#"(?i)(?P<keep>["']?\b[\w.-]*(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|private[_-]?key|credential)[\w.-]*["']?\s*[=:]\s*)(?:"[^"\n]{3,}"|'[^'\n]{3,}'|[^\s"',;&|]{3,})"#,
        // --name value
        r#"(?i)(?P<keep>--?[\w-]*(?:password|passwd|passphrase|secret|token|api-?key|access-key)[\w-]*\s+)(?:"[^"\n]{3,}"|'[^'\n]{3,}'|[^\s"']{3,})"#,
        r"(?i)(?P<keep>\b(?:bearer|basic|token)\s+)[A-Za-z0-9._~+/=-]{8,}",
        r"(?i)(?P<keep>\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?:@)",
        r"(?i)(?P<keep>\b(?:mysql|mariadb)\w*\s(?:[^\n|;]*\s)?-p)[^\s-]\S+",
        r"(?P<keep>)\b(?:sk|pk|rk)[-_](?:live|test|proj|ant)?[-_]?[A-Za-z0-9_-]{12,}",
        r"(?P<keep>)\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|npm_[A-Za-z0-9]{30,}|ya29\.[\w-]{20,})",
        r"(?P<keep>)\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
        r"(?s)(?P<keep>)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        r"(?P<keep>)\b[A-Fa-f0-9]{48,}\b",
    ];
    patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect()
});

/// The text without what looks like a secret.
pub(crate) fn without_secrets(text: &str) -> String {
    let mut text = text.to_owned();
    for pattern in SECRETS.iter() {
        if pattern.is_match(&text) {
            text = pattern.replace_all(&text, format!("${{keep}}{PLACE}")).into_owned();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(SECRETS.len(), 10);
    }

    #[test]
    fn secrets_are_removed_and_the_rest_stays() {
        for (text, secret) in [
            ("export API_KEY=abc123def", "abc123def"),
            ("curl -H 'Authorization: Bearer abcdef123456' https://x.y", "abcdef123456"),
            ("psql postgres://app:hunter22@db/main", "hunter22"),
            ("mysql -phunter22 main", "hunter22"),
            ("login --password hunter22", "hunter22"),
            ("{\"client_secret\": \"a b c d\"}", "a b c d"),
            ("git clone https://u:ghp_abcdefghijklmnopqrstuvwxyz@github.com/a/b", "ghp_"),
            ("use sk-proj-abcdefghijklmnop now", "abcdefghijklmnop"),
            ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY----- rest", "MIIE"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "eyJzdWIi"),
        ] {
            let clean = without_secrets(text);
            assert!(!clean.contains(secret) && clean.contains(PLACE), "{text} -> {clean}");
        }
        for text in [
            "cargo test -p app",
            "author: Bob, tar -pxf a.tar",
            "git commit -m \"add the login page\"",
            "changed src/token.rs",
        ] {
            assert_eq!(without_secrets(text), text);
        }
    }
}
