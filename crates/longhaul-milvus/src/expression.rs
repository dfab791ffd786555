//! Filters as the server reads them.
//!
//! Servers quote texts differently, so only texts that need no quoting are sent; a condition on another text is left out
//! and the rows decide. Invariant: every expression of a search names a partition and the time.

use std::fmt::Write;

use longhaul_memory::remote::RemoteFilter;

/// Names of a row's fields.
pub(crate) mod field {
    pub(crate) const ID: &str = "id";
    pub(crate) const PARTITION: &str = "partition_key";
    pub(crate) const KIND: &str = "kind";
    pub(crate) const COLLECTION: &str = "collection";
    pub(crate) const HAPPENED_AT: &str = "happened_at";
    pub(crate) const CREATED_AT: &str = "created_at";
    pub(crate) const EXPIRES_AT: &str = "expires_at";
    pub(crate) const VERSION: &str = "version";
    pub(crate) const VECTOR: &str = "vector";
}

/// Longest partition key.
pub(crate) const PARTITION_BYTES_MAX: usize = 230;

/// The rows that a search may find.
pub(crate) fn searchable(partition: &str, filter: &RemoteFilter) -> String {
    let mut expr = of_partition(partition);
    let _ = write!(expr, " && {} > {}", field::EXPIRES_AT, filter.now.0);
    for (name, texts) in [(field::COLLECTION, &filter.collections), (field::KIND, &filter.kinds)] {
        if !texts.is_empty() && texts.iter().all(|text| is_plain(text)) {
            let _ = write!(expr, " && {name} in {}", list(texts));
        }
    }
    if let Some(since) = filter.since {
        let _ = write!(expr, " && {} >= {}", field::HAPPENED_AT, since.0);
    }
    if let Some(until) = filter.until {
        let _ = write!(expr, " && {} < {}", field::HAPPENED_AT, until.0);
    }
    expr
}

/// All rows of a partition.
pub(crate) fn of_partition(partition: &str) -> String {
    format!("{} == {}", field::PARTITION, quoted(partition))
}

/// The rows of these primary keys in a partition.
pub(crate) fn of_keys(keys: &[String]) -> String {
    format!("{} in {}", field::ID, list(keys))
}

fn list<T: AsRef<str>>(texts: &[T]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", quoted.join(", "))
}

/// A text between double quotes.
fn quoted(text: &str) -> String {
    debug_assert!(is_plain(text), "{text:?} needs no quoting rules of any server");
    format!("\"{text}\"")
}

/// Whether every server reads this text as it stands.
fn is_plain(text: &str) -> bool {
    text.len() <= 256 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:/-#".contains(&b))
}

#[cfg(test)]
mod tests {
    use longhaul_core::TimeMs;

    use super::*;

    #[test]
    fn every_expression_names_the_partition_and_the_time() {
        let filter = RemoteFilter { now: TimeMs(7), ..RemoteFilter::default() };
        assert_eq!(searchable("s/t/main", &filter), r#"partition_key == "s/t/main" && expires_at > 7"#);
    }

    #[test]
    fn a_text_that_needs_quoting_rules_is_not_sent() {
        let odd = "a\" || expires_at > 0 || kind == \"\\";
        let filter =
            RemoteFilter { collections: vec![odd.to_owned()], kinds: vec!["note".into()], ..RemoteFilter::default() };
        assert_eq!(searchable("p", &filter), r#"partition_key == "p" && expires_at > 0 && kind in ["note"]"#);
    }
}
