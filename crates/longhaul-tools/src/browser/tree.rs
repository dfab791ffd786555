//! The accessibility tree as the browser gives it, and which of its nodes a target may mean. Pure: no call is made here.
//! What only the rendered page knows (text as shown, visibility) is decided by `look`.

use std::collections::HashMap;

use serde_json::Value;

use super::{FrameWanted, Target, text::fold};

/// Roles which only group or style; what is in them stands for itself.
pub(super) const SILENT: &[&str] =
    &["generic", "none", "InlineTextBox", "LineBreak", "RootWebArea", "LabelText", "ListMarker", "Section", "Pre"];

/// A node that assistive technology sees.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) role: String,
    pub(super) name: String,
    pub(super) value: String,
    pub(super) backend: i64,
    pub(super) disabled: bool,
    pub(super) focused: bool,
    pub(super) checked: Option<bool>,
    pub(super) expanded: Option<bool>,
    pub(super) level: Option<u64>,
    /// Position of the nearest ancestor in [`Tree::nodes`].
    pub(super) parent: Option<usize>,
    /// Position of its frame in [`Tree::frames`].
    pub(super) frame: usize,
}

/// Where a document is: a session of the browser's and a frame's id there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) session: String,
    pub(super) frame: String,
}

/// A document of the page: the page's own, or a frame's.
#[derive(Debug, Clone, Default)]
pub(super) struct Frame {
    pub(super) spot: Spot,
    /// The frame that holds it, in [`Tree::frames`]; none for the page's own document.
    pub(super) parent: Option<usize>,
    /// The element that shows it, in that frame's document.
    pub(super) owner: i64,
    pub(super) name: String,
    pub(super) url: String,
    /// The element's label.
    pub(super) label: String,
    /// Its document's title.
    pub(super) title: String,
}

impl Frame {
    fn fits(&self, wanted: &FrameWanted) -> bool {
        let same = |one: &str, other: &str| fold(one).to_lowercase() == fold(other).to_lowercase();
        let titled = |title: &str| same(&self.label, title) || same(&self.title, title);
        let any = |any: &str| self.name == any || titled(any) || self.url.contains(any);
        self.parent.is_some()
            && wanted.any.as_deref().is_none_or(any)
            && wanted.name.as_deref().is_none_or(|name| self.name == name)
            && wanted.title.as_deref().is_none_or(titled)
            && wanted.url.as_deref().is_none_or(|url| self.url.contains(url))
    }
}

/// The nodes in document order, without those that assistive technology ignores.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// The page's own document first.
    pub(super) frames: Vec<Frame>,
}

impl Tree {
    /// From the answer of `Accessibility.getFullAXTree`.
    pub(super) fn parse(answer: &Value) -> Self {
        let raw = answer["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let by_id: HashMap<&str, &Value> =
            raw.iter().filter_map(|node| Some((node["nodeId"].as_str()?, node))).collect();
        let mut tree = Self::default();
        let Some(root) = raw.iter().find(|node| node["parentId"].is_null()) else { return tree };
        // A stack instead of recursion: pages may nest deeper than ours allows.
        let mut stack: Vec<(&Value, Option<usize>)> = vec![(root, None)];
        while let Some((raw, parent)) = stack.pop() {
            let mut below = parent;
            if raw["ignored"] != true {
                tree.nodes.push(parse_node(raw, parent));
                below = Some(tree.nodes.len() - 1);
            }
            let children = raw["childIds"].as_array().map(Vec::as_slice).unwrap_or_default();
            for child in children.iter().rev().filter_map(|id| by_id.get(id.as_str()?)) {
                stack.push((child, below));
            }
        }
        tree
    }

    /// Nodes of the target's role, and of its name where the tree knows it, below one of `outer` if given. A node
    /// without a name stays in: its text as shown stands for its name.
    pub(super) fn candidates(&self, target: &Target, outer: Option<&[usize]>) -> Vec<usize> {
        let below = |index: usize| outer.is_none_or(|outer| self.ancestors(index).any(|a| outer.contains(&a)));
        let framed = |index: usize| target.frame.as_ref().is_none_or(|wanted| self.in_frame(index, wanted));
        let of_role: Vec<usize> = (0..self.nodes.len())
            .filter(|&index| role_is(&target.role, &self.nodes[index]) && below(index) && framed(index))
            .collect();
        let Some(wanted) = target.name.as_deref().map(fold) else { return of_role };
        let named = |same: &dyn Fn(&str) -> bool| -> Vec<usize> {
            of_role.iter().copied().filter(|&index| same(&fold(&self.nodes[index].name))).collect()
        };
        let exact = named(&|name| name == wanted);
        if !exact.is_empty() {
            return exact;
        }
        // Letter case is often a matter of style (text-transform), so it decides only between several.
        let loose = named(&|name| !name.is_empty() && name.to_lowercase() == wanted.to_lowercase());
        if !loose.is_empty() {
            return loose;
        }
        named(&str::is_empty)
    }

    /// Whether a node is in such a frame, or in a frame of it.
    fn in_frame(&self, index: usize, wanted: &FrameWanted) -> bool {
        let frame = |at: usize| self.frames.get(at);
        let outward = std::iter::successors(Some(self.nodes[index].frame), |&at| frame(at).and_then(|f| f.parent));
        outward.filter_map(frame).any(|frame| frame.fits(wanted))
    }

    /// Whether there are frames to look into.
    pub(super) fn has_frames(&self) -> bool {
        self.nodes.iter().any(|node| node.role.starts_with("Iframe"))
    }

    /// One tree of all documents: each frame's nodes stand below the element that shows it. `parts` begins with the page's
    /// own document; a frame whose element nobody can perceive is left out.
    pub(super) fn grafted(parts: Vec<(Frame, Self)>) -> Self {
        let mut whole = Self::default();
        let mut trees = Vec::with_capacity(parts.len());
        for (frame, tree) in parts {
            whole.frames.push(frame);
            trees.push(tree.nodes);
        }
        // What is left to place: frame, position in its nodes, and where each of them has come to.
        let mut places: Vec<Vec<usize>> = trees.iter().map(|nodes| Vec::with_capacity(nodes.len())).collect();
        let mut stack: Vec<(usize, usize, Option<usize>)> = vec![(0, 0, None)];
        while let Some((frame, at, root)) = stack.pop() {
            let Some(node) = trees[frame].get(at) else { continue };
            let parent = node.parent.map_or(root, |above| places[frame].get(above).copied());
            let place = whole.nodes.len();
            places[frame].push(place);
            let inner = whole.frames.iter().position(|f| f.parent == Some(frame) && f.owner == node.backend);
            let mut node = node.clone();
            (node.parent, node.frame) = (parent, frame);
            stack.push((frame, at + 1, root));
            if let Some(inner) = inner {
                whole.frames[inner].label.clone_from(&node.name);
                whole.frames[inner].title = trees[inner].first().map(|top| top.name.clone()).unwrap_or_default();
                stack.push((inner, 0, Some(place)));
            }
            whole.nodes.push(node);
        }
        whole
    }

    pub(super) fn ancestors(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.nodes[index].parent, |&above| self.nodes[above].parent)
    }

    /// Things of the same role, or of the same name, for the message when a target is not found.
    pub(super) fn alike(&self, target: &Target) -> Vec<String> {
        let wanted = target.name.as_deref().map(|name| fold(name).to_lowercase());
        let mut found: Vec<String> = Vec::new();
        let mut add = |node: &Node| {
            let said = node.say();
            if !SILENT.contains(&node.role.as_str()) && !found.contains(&said) && found.len() < 8 {
                found.push(said);
            }
        };
        if let Some(wanted) = &wanted {
            let same_name = |node: &&Node| node.role != "StaticText" && fold(&node.name).to_lowercase() == *wanted;
            self.nodes.iter().filter(same_name).for_each(&mut add);
        }
        self.nodes.iter().filter(|node| role_is(&target.role, node)).for_each(&mut add);
        found
    }
}

impl Node {
    /// `button "Save"`.
    pub(super) fn say(&self) -> String {
        let name = super::text::cut(&fold(&self.name), 60);
        if name.is_empty() { self.shown_role().to_owned() } else { format!("{} {name:?}", self.shown_role()) }
    }

    /// The role in a target's words.
    pub(super) fn shown_role(&self) -> &str {
        match self.role.as_str() {
            "StaticText" => "text",
            "image" => "img",
            role => role,
        }
    }
}

fn role_is(wanted: &str, node: &Node) -> bool {
    match wanted {
        "text" => node.role == "StaticText",
        "img" | "image" => matches!(node.role.as_str(), "img" | "image"),
        // A search field is a textbox to most people, and so are fields for a date or a time, for which ARIA has no role.
        "textbox" => ["textbox", "searchbox", "Date", "DateTime", "InputTime"].contains(&node.role.as_str()),
        wanted => node.role.eq_ignore_ascii_case(wanted),
    }
}

fn parse_node(raw: &Value, parent: Option<usize>) -> Node {
    let text = |field: &str| match raw[field].get("value") {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let property = |name: &str| {
        let all = raw["properties"].as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter().find(|property| property["name"] == name).map(|property| &property["value"]["value"])
    };
    let is = |name: &str| property(name).is_some_and(|value| *value == true || *value == "true");
    Node {
        role: text("role"),
        name: text("name"),
        value: text("value"),
        backend: raw["backendDOMNodeId"].as_i64().unwrap_or_default(),
        disabled: is("disabled"),
        focused: is("focused"),
        checked: property("checked").or(property("pressed")).map(|_| is("checked") || is("pressed")),
        expanded: property("expanded").map(|_| is("expanded")),
        level: property("level").and_then(Value::as_u64),
        parent,
        frame: 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree() -> Tree {
        let node = |id: &str, role: &str, name: &str, children: &[&str]| {
            let parent = if id == "1" { Value::Null } else { json!("above") };
            json!({"nodeId": id, "parentId": parent, "ignored": role.is_empty(), "role": {"value": role},
                "name": {"value": name}, "childIds": children, "backendDOMNodeId": 7})
        };
        Tree::parse(&json!({"nodes": [
            node("1", "RootWebArea", "", &["2", "5"]),
            node("2", "", "", &["3", "4"]),
            node("3", "button", "Save", &[]),
            node("4", "button", "SAVE", &[]),
            node("5", "navigation", "Chats", &["6"]),
            node("6", "button", "Delete", &[]),
        ]}))
    }

    fn said(tree: &Tree, target: &Target, outer: Option<&[usize]>) -> Vec<String> {
        tree.candidates(target, outer).into_iter().map(|index| tree.nodes[index].say()).collect()
    }

    #[test]
    fn names_match_exactly_first_and_then_without_letter_case() {
        let tree = tree();
        assert_eq!(said(&tree, &Target::new("button", Some("Save")), None), ["button \"Save\""]);
        assert_eq!(said(&tree, &Target::new("button", Some("save")), None), ["button \"Save\"", "button \"SAVE\""]);
        assert_eq!(said(&tree, &Target::new("button", Some(" delete ")), None), ["button \"Delete\""]);
        assert!(said(&tree, &Target::new("button", Some("Sav")), None).is_empty());
    }

    #[test]
    fn within_means_below_and_ignored_nodes_are_seen_through() {
        let tree = tree();
        let outer = tree.candidates(&Target::new("navigation", None), None);
        assert_eq!(said(&tree, &Target::new("button", None), Some(&outer)), ["button \"Delete\""]);
        assert_eq!(tree.nodes[1].parent, Some(0), "an ignored node is nobody's parent");
    }

    #[test]
    fn what_is_alike_has_the_name_or_the_role() {
        let alike = tree().alike(&Target::new("button", Some("chats")));
        assert_eq!(alike[0], "navigation \"Chats\"");
        assert_eq!(alike.len(), 4);
    }
}
