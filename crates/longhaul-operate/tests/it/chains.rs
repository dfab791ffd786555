//! Why did it fail: one chain from the event to the evidence, each id of which leads on.

use std::collections::{BTreeSet, VecDeque};

use longhaul_operate::{ChainLink, Explanation, OperateError, Operator};

use crate::{
    ground::{Ground, on_both, scope},
    story::Program,
};

on_both!(a_failure_is_traced_from_the_event_to_the_evidence_and_every_id_on_the_way_is_explained);

/// All ids in a text: whatever looks like one counts.
fn ids(text: &str) -> BTreeSet<String> {
    const PREFIXES: [&str; 14] = [
        "tenant_",
        "user_",
        "sess_",
        "task_",
        "exec_",
        "trace_",
        "evt_",
        "mem_",
        "rec_",
        "verdict_",
        "wait_",
        "milestone_",
        "msg_",
        "note_",
    ];
    let mut found = BTreeSet::new();
    for word in text.split(|char: char| char.is_whitespace() || "\"'`,;()[]{}".contains(char)) {
        let word = word.trim_end_matches(['.', ':', '\\']);
        let Some(prefix) = PREFIXES.iter().find(|prefix| word.starts_with(**prefix)) else { continue };
        let body = &word[prefix.len()..];
        // Names of fields, as `task_id`, are not written with these prefixes and an id's digits.
        if body.chars().any(|char| char.is_ascii_digit()) || body.starts_with("default") {
            found.insert(word.to_owned());
        }
    }
    found
}

async fn explained(operator: &Operator, id: &str) -> Result<Explanation, OperateError> {
    operator.explain(id, 200).await
}

fn kinds(chain: &[ChainLink]) -> Vec<&'static str> {
    let mut kinds: Vec<_> = chain.iter().map(|link| link.kind).collect();
    kinds.dedup();
    kinds
}

async fn a_failure_is_traced_from_the_event_to_the_evidence_and_every_id_on_the_way_is_explained(ground: Ground) {
    Program::of(&ground, &scope()).await.fail("report-1").await;
    let operator = ground.operator().await;
    let before = ground.everything().await;
    let told = explained(&operator, "report-1").await.unwrap();
    let chain = &told.chain;
    assert_eq!(kinds(chain), ["event", "step", "checkpoint", "evidence"], "{chain:#?}");
    assert!(
        chain[0].what.contains("execution.failed") && chain[0].what.contains("the printer is on fire"),
        "{chain:#?}"
    );
    let what = |kind: &str| chain.iter().filter(|link| link.kind == kind).map(|link| &*link.what).collect::<Vec<_>>();
    assert_eq!(what("step"), ["publish/4/seal#1 (pure): recorded", "publish/4/print#2: failed, and recorded nothing"]);
    assert_eq!(what("checkpoint"), ["the state after ask, from which it resumes with publish"]);
    assert!(chain.iter().any(|link| link.id.as_deref().is_some_and(|id| id.ends_with("@3"))), "{chain:#?}");
    let evidence = what("evidence").join("\n");
    for part in ["refers to it at", "derived_from", "supports"] {
        assert!(evidence.contains(part), "{part} is missing from {chain:#?}");
    }
    // Whatever is named anywhere in an explanation can be explained, and so on.
    let mut waiting = VecDeque::from(["report-1".to_owned(), "task_1".to_owned()]);
    let mut seen: BTreeSet<String> = waiting.iter().cloned().collect();
    while let Some(id) = waiting.pop_front() {
        let told = explained(&operator, &id).await.unwrap_or_else(|error| panic!("{id}: {error}"));
        // Names of steps may have spaces: what stands as an id by itself is taken whole.
        let mut text = serde_json::to_string(&told).unwrap();
        let own = told.chain.iter().map(|link| &link.id).chain(told.story.iter().map(|line| &line.id));
        let own: BTreeSet<String> = own.flatten().cloned().collect();
        for id in own.iter().rev() {
            text = text.replace(id, " ");
        }
        for next in ids(&text).into_iter().chain(own) {
            if seen.insert(next.clone()) {
                waiting.push_back(next);
            }
        }
    }
    let met: BTreeSet<&str> = seen.iter().filter_map(|id| id.split_once('_').map(|(kind, _)| kind)).collect();
    for kind in ["tenant", "user", "sess", "task", "exec", "trace", "evt", "rec", "wait", "milestone"] {
        assert!(met.contains(kind), "no {kind} was met on the way: {seen:?}");
    }
    assert!(seen.iter().any(|id| id.contains('#')) && seen.iter().any(|id| id.contains('@')), "{seen:?}");
    // A chain from everywhere on it.
    for id in seen.iter().filter(|id| ["exec_", "evt_", "wait_", "rec_"].iter().any(|kind| id.starts_with(kind))) {
        let chain = explained(&operator, id).await.unwrap().chain;
        // What was kept outside of an execution, and the events of that, have links and no chain.
        if (id.starts_with("rec_") || id.starts_with("evt_")) && chain.is_empty() {
            continue;
        }
        assert!(chain.len() >= 3, "{id}: {chain:#?}");
        if id.starts_with("evt_") && told.chain[0].id.as_ref() == Some(id) {
            assert_eq!(kinds(&chain), ["event", "step", "checkpoint", "evidence"], "{id}: {chain:#?}");
        }
        assert!(kinds_in_order(&chain), "{id}: {chain:#?}");
    }
    assert_eq!(ground.everything().await, before, "explaining changed something");
}

fn kinds_in_order(chain: &[ChainLink]) -> bool {
    let order = |kind: &str| ["event", "step", "checkpoint", "evidence"].iter().position(|known| *known == kind);
    chain.windows(2).all(|pair| order(pair[0].kind) <= order(pair[1].kind))
}
