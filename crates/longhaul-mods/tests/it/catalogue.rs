//! Which mods there are, and what they say of themselves.

use std::collections::BTreeSet;

use longhaul_mods::BUILTIN;

#[test]
fn no_two_mods_answer_to_one_name() {
    let names: Vec<&str> = BUILTIN.iter().flat_map(|each| each.aliases.iter().copied().chain([each.name])).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
}
