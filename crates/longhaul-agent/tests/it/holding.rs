//! A conversation in an execution: it fits its window by putting old results aside, hands over before and after the
//! service refuses, notices that it gets nowhere, and pays before it asks. Real client, real wire, real store.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use longhaul_agent::{
    After, Ending, Limits, Means, Opening, Patience, Purse, Reservation, Reserved, ToolHost, ToolTurn, Unlimited,
    Unused, Wanted, converse_with,
};
use longhaul_core::{Ambient, RecordId, Scope, ToolCall, ToolSpec};
use longhaul_durable::{END, GraphBuilder, GraphState, NodeContext, NodeError, Outcome, RunOptions, Runtime, START};
use longhaul_memory::Memory;
use longhaul_model::{
    Cassette, CassetteServer, CassetteServerSettings, ChatResponse, OpenAiChat, OpenAiSettings, Usage,
};
use longhaul_store::{Store, StoreError, StoreSettings, Tx, tasks};
use longhaul_workspace::{Filter, TaskWorkspace, Workspace};
use serde::{Deserialize, Serialize};

/// A story of so many turns: `entries` are what the model says in each.
fn story(head: &str, entries: &[String]) -> String {
    let mut text = format!("cassette = 1\ntitle = \"holding\"\n{head}\n");
    for (turn, entry) in entries.iter().enumerate() {
        text.push_str(&format!("[[entry]]\nid = \"e{turn}\"\nprompt = [\"Do the work\"]\nturn = {turn}\n{entry}\n"));
    }
    text
}

fn calls(tool: &str, argument: &str) -> String {
    format!("[[entry.call]]\ntool = \"{tool}\"\noffered = false\narguments = {{ command = \"{argument}\" }}")
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    ending: String,
    turns: u32,
}

impl GraphState for Held {
    type Update = Self;

    fn apply(&mut self, update: Self) {
        *self = update;
    }
}

/// Answers commands by what it was told to, and takes a note.
struct Scripted {
    results: BTreeMap<String, String>,
    shelf: TaskWorkspace,
}

#[async_trait]
impl ToolHost for Scripted {
    async fn call(&self, _: &NodeContext, call: &ToolCall) -> Result<ToolTurn, NodeError> {
        let arguments: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
        let command = arguments["command"].as_str().unwrap_or_default();
        let after = match call.name.as_str() {
            "claim_done" => After::Done,
            "hand_over" => After::HandOver(command.to_owned()),
            _ => After::Continue,
        };
        let text = match command.strip_prefix("read ") {
            None => self.results.get(command).cloned().unwrap_or_else(|| format!("exit 0\n{command}")),
            Some(summary) => {
                let kept = self.shelf.list(Filter::default(), None, 100).await.unwrap();
                let found = kept.records.iter().find(|record| record.summary.contains(summary));
                let id: RecordId = found.expect("it was put aside").reference.id.clone();
                String::from_utf8(self.shelf.read(&id).await.unwrap().1).unwrap()
            }
        };
        Ok(ToolTurn { text, after })
    }
}

/// What a conversation is held with.
struct Stage {
    window: u64,
    results: Vec<(&'static str, String)>,
    purse: Arc<dyn Purse>,
    patience: Patience,
    turns_max: u32,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            window: 4_000,
            results: Vec::new(),
            purse: Arc::new(Unlimited),
            patience: Patience::default(),
            turns_max: 30,
        }
    }
}

struct Came {
    held: Held,
    asked: usize,
    kept: usize,
}

impl Stage {
    async fn hold(self, story: &str) -> Came {
        let ambient = Ambient::system();
        let folder = tempfile::tempdir().unwrap();
        let migrations = [longhaul_durable::MIGRATIONS, longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS];
        let store = Store::open(StoreSettings::new(folder.path()), ambient.clone(), &migrations).await.unwrap();
        let task = tasks::NewTask {
            thread: "held".parse().unwrap(),
            kind: "test".into(),
            title: "a conversation".into(),
            dir: None,
            model: None,
            data: serde_json::json!({}),
        };
        let scope = Scope::single_user();
        let write = store.write::<_, StoreError>(move |tx| tasks::create(tx, &scope, None, task));
        let task = write.await.unwrap();
        let cassette = Cassette::parse(story, "story.toml").unwrap();
        let settings = OpenAiSettings::new(cassette.model());
        let server = CassetteServer::start(cassette, CassetteServerSettings::default(), &ambient).await.unwrap();
        let settings = OpenAiSettings { base_url: server.base_url(), window_tokens: self.window, ..settings };
        let model = Arc::new(OpenAiChat::new(settings, &ambient).unwrap());
        let shelf = Workspace::new(store.clone(), Memory::new(store.clone(), None)).task(&task.scope);
        let results = self.results.into_iter().map(|(command, result)| (command.to_owned(), result)).collect();
        let host = Arc::new(Scripted { results, shelf: shelf.clone() });
        let kept_in = shelf.clone();
        let (purse, patience, turns_max, window) = (self.purse, self.patience, self.turns_max, self.window);
        let graph = GraphBuilder::<Held>::new("held", 1)
            .node("talk", move |ctx: NodeContext, _| {
                let (model, host, purse, shelf) = (model.clone(), host.clone(), purse.clone(), shelf.clone());
                async move {
                    let means =
                        Means { model: model.as_ref(), host: host.as_ref(), purse, shelf: Some(shelf), patience };
                    let tool = ToolSpec {
                        name: "shell".into(),
                        description: "runs a command".into(),
                        parameters: serde_json::json!({"type": "object"}),
                    };
                    let opening =
                        Opening { system: "You work.".into(), prompt: "Do the work".into(), tools: vec![tool] };
                    let limits = Limits { turns_max, window_tokens: window, answer_tokens_max: 500 };
                    let conversed = converse_with(&ctx, &means, opening, limits).await?;
                    let ending = match conversed.ending {
                        Ending::Done => "done".to_owned(),
                        Ending::HandOver { note, why } => format!("{why} | {note}"),
                        Ending::OutOfBudget { note, why } => format!("budget: {why} | {note}"),
                        Ending::CalledOff { note, why } => format!("called off: {why} | {note}"),
                    };
                    Ok::<_, NodeError>(Held { ending, turns: conversed.turns })
                }
            })
            .edge(START, "talk")
            .edge("talk", END)
            .build()
            .unwrap();
        let runtime = Runtime::new(store, ambient);
        let run = runtime.run(&graph, &task.scope, &task.thread, Held::default(), RunOptions::default());
        let outcome = run.await.unwrap();
        let Outcome::Completed(held) = outcome else { panic!("it ended otherwise: {outcome:?}") };
        let kept = kept_in.list(Filter::default(), None, 100).await.unwrap().records.len();
        Came { held, asked: server.served().len(), kept }
    }
}

/// About 600 tokens that say which command printed them.
fn output(of: &str) -> String {
    format!("exit 0\n{of} begins\n{}{of} ends", "a line of what it printed\n".repeat(100))
}

#[tokio::test]
async fn old_results_are_put_aside_and_can_be_brought_back() {
    let commands = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
    let mut entries: Vec<String> = commands.iter().map(|command| calls("shell", command)).collect();
    // What the newest command said is whole; the first one's stands aside, by name.
    entries[7] = format!(
        "require = [{{ in = \"tool\", text = \"seven ends\" }}, {{ in = \"any\", text = \"⟦put aside:\" }}]\n{}",
        entries[7]
    );
    entries.push(calls("shell", "read one begins"));
    entries.push(format!("require = [{{ in = \"tool\", text = \"one ends\" }}]\n{}", calls("claim_done", "")));
    let results = commands.map(|command| (command, output(command))).to_vec();
    let came = Stage { results, ..Stage::default() }.hold(&story("window_tokens = 4000", &entries)).await;
    assert_eq!(came.held, Held { ending: "done".into(), turns: 10 });
    assert_eq!(came.asked, 10, "no request was refused");
    assert!(came.kept >= 4, "{} texts were put aside", came.kept);
}

#[tokio::test]
async fn before_the_window_is_full_the_agent_writes_its_note() {
    // Each answer is one short command whose result is not worth putting aside, until the window is full of them. Then
    // it is asked for a note; what it says instead of one is the note.
    let line = "a short result that stays where it is, as a reference would be as long as it is itself";
    let entry = |n: u32| format!("reply = \"I got to step {n}.\"\n{}", calls("shell", &format!("step {n} {line}")));
    let entries: Vec<String> = (0..80).map(entry).collect();
    let stage = Stage { window: 2_600, turns_max: 99, ..Stage::default() };
    let came = stage.hold(&story("window_tokens = 2600", &entries)).await;
    let ending = format!("the context window was nearly full | I got to step {}.", came.held.turns - 1);
    assert_eq!(came.held.ending, ending);
    assert!((10..60).contains(&came.held.turns), "{:?}", came.held);
}

#[tokio::test]
async fn after_a_refused_request_everything_is_put_aside_and_the_note_is_asked_for() {
    // The client is told of a window that the service does not have.
    let mut entries: Vec<String> = ["one", "two"].iter().map(|command| calls("shell", command)).collect();
    entries.push(format!(
        "require = [{{ in = \"last\", text = \"no longer fitted the context window\" }}]\n{}",
        calls("hand_over", "two commands were run")
    ));
    let results = ["one", "two"].map(|command| (command, output(command))).to_vec();
    let stage = Stage { window: 100_000, results, ..Stage::default() };
    let came = stage.hold(&story("window_tokens = 1400", &entries)).await;
    assert_eq!(came.held.ending, "the request no longer fitted the context window | two commands were run");
    assert!(came.kept >= 1 && came.asked >= 4, "{} kept, {} answers", came.kept, came.asked);
}

#[tokio::test]
async fn the_same_failure_again_and_again_is_told_and_then_ends_the_session() {
    let mut entries: Vec<String> = (0..4).map(|n| calls("shell", &format!("try {n}"))).collect();
    entries[2] = format!("require = [{{ in = \"last\", text = \"leads nowhere\" }}]\n{}", entries[2]);
    entries.push(format!(
        "require = [{{ in = \"last\", text = \"Call `hand_over` now\" }}]\n{}",
        calls("hand_over", "it needs a library that is not here")
    ));
    let failure = |n: u32| format!("exit 1\nModuleNotFoundError: no module named numpy (line {n})");
    let results = vec![("try 0", failure(3)), ("try 1", failure(8)), ("try 2", failure(11)), ("try 3", failure(2))];
    let patience = Patience { same_max: 2, still_turns_max: 50 };
    let came = Stage { results, patience, window: 100_000, ..Stage::default() }.hold(&story("", &entries)).await;
    let ending = "the agent was meeting the same failure, 2 times now: exit 1 ModuleNotFoundError: no module named numpy \
                  (line 2) | it needs a library that is not here";
    assert_eq!(came.held.ending, ending);
}

/// A purse with so many tokens in it.
struct Purseful {
    tokens: u64,
    log: Mutex<Vec<String>>,
    spent: Mutex<u64>,
}

#[async_trait]
impl Purse for Purseful {
    async fn reserve(&self, wanted: Wanted) -> Result<Reserved, StoreError> {
        let spent = *self.spent.lock().unwrap();
        if spent + wanted.tokens() > self.tokens {
            self.log.lock().unwrap().push("refused".to_owned());
            return Ok(Reserved::Refused { why: format!("{} tokens are used", self.tokens) });
        }
        self.log.lock().unwrap().push("reserved".to_owned());
        Ok(Reserved::Granted(Reservation { id: "r".into(), wanted }))
    }

    async fn unused(&self, _: &Reservation, how: Unused) -> Result<(), StoreError> {
        self.log.lock().unwrap().push(format!("{how:?}"));
        Ok(())
    }

    fn settle(&self, _: &mut Tx<'_>, reservation: &Reservation, answer: &ChatResponse) -> Result<(), StoreError> {
        let Usage { prompt_tokens, answer_tokens, .. } = answer.usage;
        assert!(prompt_tokens + answer_tokens <= reservation.wanted.tokens(), "more was used than reserved");
        *self.spent.lock().unwrap() += prompt_tokens + answer_tokens;
        self.log.lock().unwrap().push("settled".to_owned());
        Ok(())
    }

    async fn nearly_spent(&self, _: &Wanted) -> Result<Option<String>, StoreError> {
        Ok(None)
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_paid_for_is_not_made() {
    let entries: Vec<String> = (0..9).map(|n| calls("shell", &format!("look {n}"))).collect();
    let purse = Arc::new(Purseful { tokens: 1_000, log: Mutex::default(), spent: Mutex::default() });
    let came = Stage { purse: purse.clone(), ..Stage::default() }.hold(&story("", &entries)).await;
    assert!(came.held.ending.starts_with("budget: 1000 tokens are used | (no note was written; the last calls were"));
    assert!(came.held.turns >= 2, "{:?}", came.held);
    assert_eq!(came.asked, came.held.turns as usize, "the refused request never left");
    let log = purse.log.lock().unwrap();
    let pairs = log.chunks(2).take_while(|pair| pair.len() == 2);
    assert!(pairs.clone().all(|pair| pair == ["reserved", "settled"]), "{log:?}");
    assert_eq!(log.last().map(String::as_str), Some("refused"));
    assert!(*purse.spent.lock().unwrap() <= 1_000);
}
