//! `longhaul sessions`, `conversations` and `review` over a store that a program of one's own has filled.

use longhaul::{
    memory::{
        Memory,
        user::{Actor, UserMemory},
    },
    workspace::{Ingest, Kind, Workspace, review::NewProposal, sessions::NewMessage},
};
use longhaul_core::{Ambient, SessionId, TaskScope};
use longhaul_store::{Store, StoreSettings};
use serde_json::{Value, json};

use crate::program::{Account, Ended};

impl Account {
    fn ok(&self, args: &[&str]) -> String {
        let ended = self.run(args);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
        ended.out
    }

    fn wrong(&self, args: &[&str], said: &str) {
        let ended: Ended = self.run(args);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{args:?}: {ended:?}");
        assert!(ended.err.contains(said), "{args:?} should say {said:?}: {}", ended.err);
    }
}

/// A store with two conversations and a proposal, in the folder `store`; the proposal's id.
fn filled(account: &Account) -> String {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let migrations = [longhaul::memory::MIGRATIONS, longhaul::workspace::MIGRATIONS];
        let settings = StoreSettings::new(account.path("store"));
        let store = Store::open(settings, Ambient::system(), &migrations).await.unwrap();
        let memory = Memory::new(store.clone(), None);
        let workspace = Workspace::new(store, memory.clone());
        let owner = TaskScope { session: SessionId::from_body("one"), ..TaskScope::single_user() };
        let task = workspace.task(&owner);
        let log = task.ingest(Ingest::new(Kind::Evidence, "logs", "netstat", "tool:shell", "8080")).await.unwrap();
        let talk = task.session();
        let asked = NewMessage::user("I live in Lisbon. Which port has the lighthouse?").attached(log.clone());
        let (_, learning) = talk.append_and_learn(asked, None).await.unwrap();
        learning.done().await.unwrap();
        talk.append(NewMessage::assistant("The lighthouse listens on 8080.")).await.unwrap();
        let other = TaskScope { session: SessionId::from_body("two"), ..owner };
        workspace.task(&other).session().append(NewMessage::user("Good evening")).await.unwrap();
        let knowledge = task.user().shared_knowledge();
        knowledge.define_schema("port@1", json!({"type": "object", "required": ["port"]})).await.unwrap();
        let new = NewProposal::set("lighthouse/port", "port@1", json!({"port": 8080}), Actor::Agent("coder".into()));
        let proposal = task.propose(new.shown_by(&log.id).because("seen")).await.unwrap();
        assert!(!UserMemory::new(memory).entries(&owner_scope()).await.unwrap().is_empty());
        proposal.id.to_string()
    })
}

fn owner_scope() -> longhaul_core::Scope {
    TaskScope::single_user().scope
}

#[test]
fn conversations_are_listed_found_shown_and_deleted() {
    let account = Account::new();
    filled(&account);
    let store = account.path("store");
    let at = ["--store", store.to_str().unwrap()];
    let with = |args: &[&str]| account.ok(&[args, &at].concat());
    let listed = with(&["sessions", "list"]);
    assert!(listed.lines().count() == 2 && listed.contains("sess_two Good evening"), "{listed}");
    let shown = with(&["sessions", "show", "sess_one"]);
    for part in ["2 messages", "#1 ", "user", "attached rec_", "#2 ", "The lighthouse listens on 8080."] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(with(&["sessions", "memo", "sess_one", "ports only"]).contains("version 1"));
    assert_eq!(with(&["sessions", "memo", "sess_one"]).trim(), "ports only");
    let found = with(&["conversations", "search", "that lighthouse today"]);
    assert!(found.contains("assistant sess_one #2") && found.contains("of \"today\""), "{found}");
    let json: Value =
        serde_json::from_str(&with(&["conversations", "search", "lighthouse", "--role", "user", "--json"])).unwrap();
    assert_eq!((json["hits"].as_array().unwrap().len(), &json["hits"][0]["seq"]), (1, &json!(1)));
    account.wrong(&[&["conversations", "search", "x", "--when", "soon"], &at[..]].concat(), "is no time");
    account.wrong(&[&["sessions", "show", "sess_none"], &at[..]].concat(), "longhaul sessions list");
    account.wrong(&[&["sessions", "delete", "sess_one"], &at[..]].concat(), "say --yes");
    let deleted = with(&["sessions", "delete", "sess_one", "--yes"]);
    assert!(deleted.contains("2 messages") && deleted.contains("1 entry of user memory faded"), "{deleted}");
    assert!(with(&["conversations", "search", "lighthouse"]).contains("nothing was said that answers this"));
    assert_eq!(with(&["sessions", "list"]).lines().count(), 1);
    // Another user sees nothing of it.
    assert!(with(&["sessions", "list", "--user", "user_other"]).contains("there are no conversations"));
}

#[test]
fn a_person_decides_on_shared_knowledge() {
    let account = Account::new();
    let proposal = filled(&account);
    let store = account.path("store");
    let at = ["--store", store.to_str().unwrap()];
    let with = |args: &[&str]| account.ok(&[args, &at].concat());
    let listed = with(&["review", "list"]);
    assert!(listed.contains(&proposal) && listed.contains("lighthouse/port {\"port\":8080}"), "{listed}");
    let shown = with(&["review", "show", &proposal]);
    assert!(shown.contains("shown by rec_") && shown.contains("nothing holds now"), "{shown}");
    assert!(with(&["review", "list", "--entries"]).contains("no entry holds"));
    let approved = with(&["review", "approve", &proposal, "--note", "looked at it"]);
    assert!(approved.contains("lighthouse/port applied as version 1"), "{approved}");
    account.wrong(&[&["review", "approve", &proposal], &at[..]].concat(), "is applied already");
    assert!(with(&["review", "list"]).contains("nothing is proposed"));
    assert!(with(&["review", "list", "--entries"]).contains("lighthouse/port {\"port\":8080}"));
    assert!(with(&["review", "rollback", "lighthouse/port", "0"]).contains("version 2"));
    let history = with(&["review", "show", "lighthouse/port"]);
    assert!(history.contains("version 2, back to 0") && history.contains("version 1,"), "{history}");
    account.wrong(&[&["review", "rollback", "lighthouse/port", "9"], &at[..]].concat(), "the newest is 2");
    account.wrong(&[&["review", "list", "--state", "nonsense"], &at[..]].concat(), "pending, applied or rejected");
}
