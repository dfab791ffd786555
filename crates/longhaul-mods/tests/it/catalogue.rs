//! Which mods there are, what they say of themselves, and the page that is made of it.

use std::{collections::BTreeSet, fmt::Write as _, path::Path};

use longhaul_core::Ambient;
use longhaul_mods::{BUILTIN, Parts, manifests, unknown};
use longhaul_network::{EventName, Manifest, ModEvent};
use longhaul_store::{Store, StoreSettings};
use serde_json::{Map, Value};

#[test]
fn no_two_mods_answer_to_one_name() {
    let names: Vec<&str> = BUILTIN.iter().flat_map(|each| each.aliases.iter().copied().chain([each.name])).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    let wanted = [("wiki".to_owned(), Map::new()), ("a.mod.of.mine".to_owned(), Map::new())];
    assert_eq!(unknown(&wanted, &[]), ["a.mod.of.mine"]);
}

async fn all() -> Vec<Manifest> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let migrations = [longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS, longhaul_mods::MIGRATIONS];
    let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &migrations).await.expect("a store");
    manifests(&Parts::new(store)).unwrap_or_else(|refusal| panic!("{refusal}"))
}

#[tokio::test]
async fn manifests_are_whole() {
    let (mut tools, mut events) = (BTreeSet::new(), BTreeSet::new());
    for (manifest, builtin) in all().await.iter().zip(BUILTIN) {
        assert_eq!(manifest.name, builtin.name);
        let aliases: BTreeSet<&str> = manifest.aliases.iter().map(String::as_str).collect();
        assert_eq!(aliases, builtin.aliases.iter().copied().collect(), "{}", manifest.name);
        assert!(!manifest.description.is_empty() && !manifest.answers.is_empty(), "{}", manifest.name);
        for event in &manifest.answers {
            let name = event.pattern.as_str();
            assert!(name.parse::<EventName>().is_ok() || name.ends_with(".*"), "{name}");
            assert!(events.insert(name.to_owned()), "two mods answer {name}");
            assert!(!event.description.is_empty(), "{name} says nothing");
            assert_eq!(event.payload["type"], "object", "{name}");
            let fields = event.payload["properties"].as_object().cloned().unwrap_or_default();
            let required = event.payload["required"].as_array().cloned().unwrap_or_default();
            for field in &required {
                assert!(fields.contains_key(field.as_str().expect("a name")), "{name} needs {field}, which it has not");
            }
            if let Some(tool) = &event.tool {
                assert!(tools.insert(tool.name.clone()), "two tools are called {}", tool.name);
                assert!(tool.destination.as_ref().is_none_or(|field| fields.contains_key(field)), "{name}");
            }
        }
        for (name, about) in &manifest.emits {
            assert!(name.parse::<EventName>().is_ok() && !about.is_empty(), "{name}");
        }
    }
}

/// The page is what the mods say; `LONGHAUL_WRITE_DOCS=1` writes it anew.
#[tokio::test]
async fn the_page_on_mods_is_what_they_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/network/mods.md");
    let page = page(&all().await);
    if std::env::var_os("LONGHAUL_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
        std::fs::write(&path, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/network/mods.md is not what the mods say: run \
         `LONGHAUL_WRITE_DOCS=1 cargo test -p longhaul-mods --test it the_page_on_mods`"
    );
}

const BEGINNING: &str = "# Mods

A mod answers events. It runs in the transaction of the event that it answers: its rows, the notices that it emits and
the answer are there together or not at all, and the same event id gives the same answer again. A network loads the mods
that its `network.yaml` lists under `network.mods`, in that order; the first that answers an event ends its way.

```yaml
network:
  mods:
    - name: openagents.mods.workspace.messaging   # or: messaging
      config: {default_channels: [{name: general}, {name: plans, private: true}]}
    - name: shared_cache
```

Payloads are taken in both shapes: the fields themselves, or a whole inner event of which `payload` holds the fields, as
the Python SDK sends them. What is marked *reads* changes nothing and leaves no row. A *tool* is what models call through
MCP. Everybody who may have a thing may change it, unless something else is said; whoever may not have it is answered as
if it did not exist.

A mod of your own is one Rust file (`crates/longhaul-mods/examples/third_party_mod.rs`: rows, events, a notice, tools), or
a process of its own that joins as an agent of a group with the permission `mod`
(`crates/longhaul-mods/examples/external_mod.py`): events that are addressed to `mod:ITS_NAME` reach it as they reach any
agent, and what it sends with `response_to` is the answer.

This page is made of what the mods say of themselves.
";

fn page(manifests: &[Manifest]) -> String {
    let mut page = BEGINNING.to_owned();
    for manifest in manifests {
        let short: Vec<String> = manifest.aliases.iter().map(|alias| format!("`{alias}`")).collect();
        let _ = write!(page, "\n## `{}`\n\n{}", manifest.name, manifest.description);
        let _ = writeln!(page, " Short: {}.\n\n| event | what it does | payload |\n|---|---|---|", short.join(", "));
        manifest.answers.iter().for_each(|event| page.push_str(&line(event)));
        if !manifest.emits.is_empty() {
            page.push_str("\n| notice | what it says |\n|---|---|\n");
        }
        for (name, about) in &manifest.emits {
            let _ = writeln!(page, "| `{name}` | {} |", about.replace('|', "\\|"));
        }
    }
    page
}

fn line(event: &ModEvent) -> String {
    let required = event.payload["required"].as_array().cloned().unwrap_or_default();
    let fields = event.payload["properties"].as_object().cloned().unwrap_or_default();
    let field = |(name, schema): (&String, &Value)| {
        let needed = if required.contains(&Value::from(name.as_str())) { "**" } else { "" };
        let about = schema["description"].as_str().unwrap_or_default();
        format!("{needed}`{name}`{needed} ({}) {about}", schema["type"].as_str().unwrap_or("any"))
    };
    let fields: Vec<String> = fields.iter().map(field).collect();
    let mut about = event.description.clone();
    if event.reads_only {
        about.push_str(" *Reads.*");
    }
    if let Some(tool) = &event.tool {
        let _ = write!(about, " Tool `{}`.", tool.name);
    }
    format!(
        "| `{}` | {} | {} |\n",
        event.pattern.as_str(),
        about.replace('|', "\\|"),
        fields.join("<br>").replace('|', "\\|")
    )
}
