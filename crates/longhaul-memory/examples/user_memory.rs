//! What is known of a user: said by them, shown to every prompt, corrected, and taken back.
//!
//! `cargo run -p longhaul-memory --example user_memory`; nothing is kept, and no model is asked.

use std::error::Error;

use longhaul_core::{Ambient, Scope};
use longhaul_memory::{
    MIGRATIONS, Memory,
    user::{By, EntryRef, RenderLimits, UserMemory, UserMemoryEdit},
};
use longhaul_store::{Store, StoreSettings};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &[MIGRATIONS]).await?;
    let (user, scope) = (UserMemory::new(Memory::new(store, None)), Scope::single_user());

    let add = |text: &str| UserMemoryEdit::Add { block: None, text: text.to_owned() };
    user.edit(&scope, add("Works on a compiler in Rust")).await?;
    user.edit(&scope, add("Prefers short answers")).await?;
    println!("what every prompt is given:");
    println!("{}", user.render(&scope, RenderLimits::default()).await?.text.trim_end());

    let entry = EntryRef::Containing("short answers".to_owned());
    let text = "Prefers short answers with an example".to_owned();
    let edited = user.edit(&scope, UserMemoryEdit::Replace { entry, text }).await?;
    println!("version {}: {}", edited.version, edited.entries.last().map_or("", |entry| entry.text.as_str()));

    user.rollback(&scope, 2, By::person(&scope.user)).await?;
    for version in user.history(&scope, None, 10).await?.iter().rev() {
        for change in &version.changes {
            let (before, after) = (change.before.as_deref().unwrap_or("-"), change.after.as_deref().unwrap_or("-"));
            println!("  version {} by {}: {before} => {after}", version.version, version.actor);
        }
    }
    Ok(())
}
