//! The workload "wide state": fifteen fields, growing lists of large values. A value is kept in the store's blobs and
//! the state holds its ref, as a state here always does with large content.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use longhaul_core::Digest;
use longhaul_durable::{END, Graph, GraphBuilder, GraphState, START};
use longhaul_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
pub(crate) struct Wide {
    #[append]
    messages: Vec<Digest>,
    #[append]
    triggers: Vec<Digest>,
    #[reduce(truthy)]
    medium: String,
    reply: Option<Digest>,
    #[reduce(later)]
    issue: Option<Digest>,
    rules: Vec<Digest>,
    docs: Vec<Digest>,
    #[append]
    categories: Vec<Digest>,
    #[append]
    responses: Vec<Digest>,
    #[reduce(later)]
    user: Option<Digest>,
    #[reduce(later)]
    crm: Option<Digest>,
    #[reduce(later)]
    mail_thread: Option<String>,
    #[reduce(merged)]
    participants: BTreeMap<String, Digest>,
    bot: String,
    #[reduce(merged)]
    assignees: BTreeMap<String, Digest>,
}

fn truthy(old: &mut String, new: String) {
    if !new.is_empty() {
        *old = new;
    }
}

fn later<T>(old: &mut Option<T>, new: Option<T>) {
    if new.is_some() {
        *old = new;
    }
}

fn merged(old: &mut BTreeMap<String, Digest>, new: BTreeMap<String, Digest>) {
    old.extend(new);
}

impl Wide {
    /// Whether it has as many messages as the original ends with: each way round adds all responses so far.
    pub(crate) fn filled(&self, size: usize) -> bool {
        let (mut messages, mut triggers, mut responses) = (1, 0, 0);
        while messages <= size {
            triggers += messages;
            responses += triggers;
            messages += responses;
        }
        self.messages.len() == messages
    }
}

/// One message of 25, 15 or 9 lists of 25 values each, in the blobs, and its ref in the state.
pub(crate) async fn start(store: Option<&Store>, entries: usize) -> anyhow::Result<Wide> {
    let (rows, columns) = match entries {
        25 => (5, 5),
        15 => (3, 5),
        9 => (3, 3),
        _ => bail!("a message has 25, 15 or 9 entries"),
    };
    let values = [json!("hi?".repeat(10)), json!(true), json!(1), json!(6_327_816_386_138_u64), json!(null)];
    let list: Vec<_> = values.iter().cycle().take(25).collect();
    let key = |n: usize| n.to_string().repeat(10);
    let row = || (0..columns).map(|column| (key(column), &list)).collect::<BTreeMap<_, _>>();
    let message: BTreeMap<String, _> = (0..rows).map(|n| (key(n), row())).collect();
    let bytes = serde_json::to_vec(&message)?;
    let message = match store {
        Some(store) => store.blobs().put(&longhaul_core::Scope::single_user(), bytes).await?,
        None => Digest::of(&bytes),
    };
    Ok(Wide { messages: vec![message], medium: "email".to_owned(), ..Wide::default() })
}

/// A letter, and the next seed.
pub(crate) fn letter(seed: &mut u64) -> char {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    char::from(b'a' + ((*seed >> 33) % 26) as u8)
}

fn text(size: usize, seed: usize) -> String {
    let mut seed = seed as u64;
    (0..size).map(|_| letter(&mut seed)).collect()
}

/// Six nodes, two of them in parallel, hand the lists on until there are more than `size` messages.
pub(crate) fn graph(size: usize) -> anyhow::Result<Graph<Wide>> {
    let graph = GraphBuilder::<Wide>::new("wide", 1)
        .node("one", move |_, state| async move {
            let medium = text(size, state.messages.len());
            Ok(WideUpdate::new().triggers(state.messages.clone()).medium(medium))
        })
        .node("two", |_, state| async move {
            let last = state.triggers.last().copied();
            Ok(WideUpdate::new().reply(last).issue(last))
        })
        .node("three", |_, state| async move { Ok(WideUpdate::new().rules(state.reply.iter().copied().collect())) })
        .node("four", |_, state| async move {
            let all = state.triggers.clone();
            Ok(WideUpdate::new().categories(all.clone()).responses(all.clone()).docs(all))
        })
        .node("five", move |_, state| async move {
            let last = state.categories.last().copied();
            let named: BTreeMap<String, Digest> = last.iter().map(|one| ("last".to_owned(), *one)).collect();
            let update = WideUpdate::new().user(last).crm(last).mail_thread(Some(text(size, 1)));
            Ok(update.participants(named.clone()).bot(text(size, 2)).assignees(named))
        })
        .node("six", |_, state| async move { Ok(WideUpdate::new().messages(state.responses.clone())) })
        .edge(START, "one")
        .edge("one", "two")
        .edge("two", "three")
        .edge("two", "four")
        .join(&["three", "four"], "five")
        .edge("five", "six")
        .branch("six", &["one", END], move |state| if state.messages.len() > size { END } else { "one" });
    graph.build().context("the wide graph")
}
