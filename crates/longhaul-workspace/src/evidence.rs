//! The graph of evidence: what stands behind something, what became of it, and how that looks as a picture.
//!
//! Links have two directions: that of the sentence (*report derived from observation*) and that of time (the observation
//! came first). This module walks in time, as [`Relation::target_is_earlier`] tells. Invariants: a walk ends, whatever
//! circles the links make; what the user may not see is not in it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write as _,
};

use longhaul_core::Scope;
use longhaul_memory::Memory;
use longhaul_store::ReadTx;
use serde::Serialize;

use crate::{Link, UserWorkspace, WorkspaceError, content, links};

/// Most steps from where a walk begins.
pub const DEPTH_MAX: u32 = 32;
/// Most ids of one walk.
pub const NODES_MAX: usize = 500;
/// Most characters of a label in a picture.
const LABEL_CHARS_MAX: usize = 60;

/// Which way to walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Toward {
    /// To what came before: what supports a decision, what a report was made from.
    Origins,
    /// To what came after: what was made of an observation, what it supports.
    Outcomes,
    /// Both ways.
    Both,
}

/// One id of a walk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EvidenceNode {
    /// The id.
    pub id: String,
    /// Steps from where the walk began.
    pub depth: u32,
    /// Of a record: its kind.
    pub kind: Option<String>,
    /// Of a record: what it is.
    pub summary: Option<String>,
    /// Of a record: where it came from.
    pub source: Option<String>,
}

/// What a walk has met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EvidenceGraph {
    /// Where it began.
    pub root: String,
    /// What was met, nearest first.
    pub nodes: Vec<EvidenceNode>,
    /// The links between them, as they were made.
    pub links: Vec<Link>,
    /// There is more, beyond the depth or the number of ids.
    pub truncated: bool,
}

impl UserWorkspace {
    /// What supports a decision (or anything else): the evidence behind it, that evidence's own origins, and so on.
    ///
    /// # Errors
    /// As [`UserWorkspace::walk`].
    pub async fn supports(&self, id: &str) -> Result<EvidenceGraph, WorkspaceError> {
        self.walk(id, Toward::Origins, DEPTH_MAX).await
    }

    /// What became of an observation (or anything else): what was made of it, what it supports, and so on.
    ///
    /// # Errors
    /// As [`UserWorkspace::walk`].
    pub async fn became(&self, id: &str) -> Result<EvidenceGraph, WorkspaceError> {
        self.walk(id, Toward::Outcomes, DEPTH_MAX).await
    }

    /// Follows links from an id, at most `depth` and [`DEPTH_MAX`] steps and [`NODES_MAX`] ids.
    ///
    /// # Errors
    /// [`WorkspaceError::NoSuchEnd`], [`WorkspaceError::UnknownEnd`] for the id; those of the store.
    pub async fn walk(&self, id: &str, toward: Toward, depth: u32) -> Result<EvidenceGraph, WorkspaceError> {
        let (scope, memory) = (self.scope().clone(), self.workspace().memory().clone());
        let (id, depth) = (id.to_owned(), depth.min(DEPTH_MAX));
        let walk = move |read: &ReadTx<'_>| walk(read, &memory, &scope, &id, toward, depth);
        self.workspace().store().read(walk).await
    }
}

fn walk(
    read: &ReadTx<'_>,
    memory: &Memory,
    scope: &Scope,
    root: &str,
    toward: Toward,
    depth_max: u32,
) -> Result<EvidenceGraph, WorkspaceError> {
    links::check_end(read, memory, scope, root)?;
    let mut graph = EvidenceGraph { root: root.to_owned(), nodes: Vec::new(), links: Vec::new(), truncated: false };
    let mut seen = BTreeSet::from([root.to_owned()]);
    let mut made: BTreeSet<(String, String, String)> = BTreeSet::new();
    let mut waiting = VecDeque::from([(root.to_owned(), 0)]);
    while let Some((id, depth)) = waiting.pop_front() {
        graph.nodes.push(node(read, memory, scope, &id, depth)?);
        for link in links::around(read, memory, scope, &id)? {
            let (earlier, later) = if link.relation.target_is_earlier() {
                (&link.target, &link.source)
            } else {
                (&link.source, &link.target)
            };
            let other = match toward {
                Toward::Origins if *later == id => earlier,
                Toward::Outcomes if *earlier == id => later,
                Toward::Both => {
                    if *later == id {
                        earlier
                    } else {
                        later
                    }
                }
                Toward::Origins | Toward::Outcomes => continue,
            };
            if !seen.contains(other) {
                if depth == depth_max || seen.len() == NODES_MAX {
                    graph.truncated = true;
                    continue;
                }
                seen.insert(other.clone());
                waiting.push_back((other.clone(), depth + 1));
            }
            if made.insert((link.source.clone(), link.relation.to_string(), link.target.clone())) {
                graph.links.push(link);
            }
        }
    }
    Ok(graph)
}

fn node(
    read: &ReadTx<'_>,
    memory: &Memory,
    scope: &Scope,
    id: &str,
    depth: u32,
) -> Result<EvidenceNode, WorkspaceError> {
    let mut node = EvidenceNode { id: id.to_owned(), depth, kind: None, summary: None, source: None };
    if let Ok(record) = id.parse() {
        match content::visible(read, memory, scope, &record) {
            Ok(record) => {
                node.kind = Some(record.kind.to_string());
                node.summary = Some(record.summary);
                node.source = Some(record.source);
            }
            // Expired since.
            Err(WorkspaceError::NoSuchRecord(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(node)
}

impl EvidenceGraph {
    /// The graph as a Mermaid flowchart, for a page or a README. What stands in summaries cannot end a label or add to
    /// the picture.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut out = "flowchart TD\n".to_owned();
        let names: BTreeMap<&str, String> =
            self.nodes.iter().enumerate().map(|(number, node)| (node.id.as_str(), format!("n{number}"))).collect();
        for node in &self.nodes {
            let name = &names[node.id.as_str()];
            let title = match (&node.kind, &node.summary) {
                (Some(kind), Some(summary)) => format!("{kind}: {}", shortened(summary)),
                _ => String::new(),
            };
            let label = if title.is_empty() {
                escaped(&node.id)
            } else {
                format!("{}<br/>{}", escaped(&title), escaped(&node.id))
            };
            let _ = writeln!(out, "    {name}[\"{label}\"]");
        }
        for link in &self.links {
            if let (Some(source), Some(target)) = (names.get(link.source.as_str()), names.get(link.target.as_str())) {
                let _ = writeln!(out, "    {source} -->|{}| {target}", link.relation.as_str().replace('_', " "));
            }
        }
        if self.truncated {
            out.push_str("    more[\"and more\"]\n");
        }
        out
    }
}

fn shortened(text: &str) -> String {
    let mut chars = text.chars();
    let short: String = chars.by_ref().take(LABEL_CHARS_MAX).collect();
    if chars.next().is_some() { format!("{short}…") } else { short }
}

/// A label that Mermaid shows as it is: letters and digits of any script, spaces and what cannot mean anything to it;
/// everything else as the number of its character.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            _ if c.is_alphanumeric() => out.push(c),
            ' ' | '-' | '_' | '.' | ',' | ':' | '/' | '…' => out.push(c),
            _ if c.is_whitespace() || c.is_control() => out.push(' '),
            _ => {
                let _ = write!(out, "#{};", u32::from(c));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_summary_can_leave_its_label() {
        let hostile = "a\"] --> x[\"b\n%%{init: {}}%% <script>alert(1)</script> `c` #quot; 結論。";
        let label = escaped(hostile);
        assert!(!label.contains(['"', '[', ']', '<', '>', '`', '{', '}', '%', '\n', '(']), "{label}");
        assert!(label.contains("結論"));
        // Each `#` begins the number of a character.
        let mut rest = label.as_str();
        while let Some(at) = rest.find('#') {
            rest = &rest[at + 1..];
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            assert!(digits > 0 && rest[digits..].starts_with(';'), "{rest}");
        }
    }
}
