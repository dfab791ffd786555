//! The picture of a graph as a Mermaid flow chart.
//!
//! Invariant: no name of a graph or node can change the meaning of the text around it.

use std::fmt::Write as _;

use crate::shape::{END, START, Shape, Way};

impl Shape {
    /// The graph as a Mermaid flow chart. Branches are dotted, fan-outs thick, and ways that a node takes by its own
    /// answer are dotted and say `goto`; subgraphs are drawn inside.
    #[must_use]
    pub fn to_mermaid(&self) -> String {
        let mut text = String::from("flowchart TD\n");
        self.draw(&mut text, "", 1);
        text
    }

    fn draw(&self, text: &mut String, prefix: &str, depth: usize) {
        let indent = "    ".repeat(depth);
        for (name, node) in &self.nodes {
            let id = id(prefix, name);
            if let Some(child) = &node.child {
                let _ = writeln!(text, "{indent}subgraph {id}[\"{}\"]", escaped(name));
                child.shape.draw(text, &format!("{id}_"), depth + 1);
                let _ = writeln!(text, "{indent}end");
            }
        }
        let start = self.ways.get_key_value(START).into_iter();
        for (from, ways) in start.chain(self.ways.iter().filter(|(from, _)| &***from != START)) {
            for (way, to) in ways.all() {
                let arrow = match way {
                    Way::Edge => "-->",
                    Way::Branch => "-.->",
                    Way::FanOut => "==>",
                    Way::Goto => "-. goto .->",
                    Way::Join => "-- join -->",
                };
                let _ = writeln!(text, "{indent}{} {arrow} {}", self.drawn(prefix, from), self.drawn(prefix, to));
            }
        }
    }

    fn drawn(&self, prefix: &str, node: &str) -> String {
        match node {
            START => format!("{prefix}start_([start])"),
            END => format!("{prefix}end_([end])"),
            other if self.nodes.get(other).is_some_and(|node| node.child.is_some()) => id(prefix, other),
            other => format!("{}[{}]", id(prefix, other), escaped(other)),
        }
    }
}

/// A prefix, for some of Mermaid's own words (`end`) cannot name a node.
fn id(prefix: &str, node: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_string()
        } else if c == '-' {
            "_".to_owned()
        } else {
            "__".to_owned()
        }
    };
    format!("{prefix}n_{}", node.chars().map(plain).collect::<String>())
}

/// As Mermaid wants what is not plain: by number.
fn escaped(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if plain(c) { c.to_string() } else { format!("#{};", u32::from(c)) }).collect()
}
