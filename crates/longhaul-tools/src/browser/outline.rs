//! A compact outline of what is on a page, for a model: roles, names, values and states, indented by nesting.

use super::{
    text::{cut, fold},
    tree::{Node, SILENT, Tree},
};

/// Most lines of an outline.
const LINES_MAX: usize = 250;
const NAME_CHARS_MAX: usize = 160;

/// The outline, one line an element.
pub(super) fn outline(tree: &Tree) -> String {
    let mut text = String::new();
    let mut lines = 0;
    let mut left_out = 0;
    for (index, node) in tree.nodes.iter().enumerate() {
        if SILENT.contains(&node.role.as_str()) || repeats_its_owner(tree, node) {
            continue;
        }
        if lines == LINES_MAX {
            left_out += 1;
            continue;
        }
        lines += 1;
        let depth = tree.ancestors(index).filter(|&above| !SILENT.contains(&tree.nodes[above].role.as_str())).count();
        text.push_str(&"  ".repeat(depth.min(12)));
        text.push_str(&line(node));
        text.push('\n');
    }
    if left_out > 0 {
        text.push_str(&format!("[{left_out} more lines left out]\n"));
    }
    if text.is_empty() { "(the page is empty)\n".to_owned() } else { text }
}

/// Text that is its owner's name already.
fn repeats_its_owner(tree: &Tree, node: &Node) -> bool {
    node.role == "StaticText"
        && node.parent.is_some_and(|above| {
            let name = fold(&tree.nodes[above].name);
            let own = fold(&node.name);
            own.is_empty() || name == own
        })
}

fn line(node: &Node) -> String {
    let mut line = format!("- {}", node.shown_role());
    let name = cut(&fold(&node.name), NAME_CHARS_MAX);
    if !name.is_empty() {
        line.push_str(&format!(" {name:?}"));
    }
    if !node.value.is_empty() && node.value != node.name {
        line.push_str(&format!(" value={:?}", cut(&node.value, NAME_CHARS_MAX)));
    }
    if let Some(level) = node.level {
        line.push_str(&format!(" level={level}"));
    }
    for (state, word) in [
        (node.checked == Some(true), " checked"),
        (node.expanded == Some(true), " expanded"),
        (node.disabled, " disabled"),
        (node.focused, " focused"),
    ] {
        if state {
            line.push_str(word);
        }
    }
    line
}
