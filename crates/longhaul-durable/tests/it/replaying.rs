//! Cases: recorded out of a store, replayed without the world, and the first difference where the code is another.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use longhaul_core::EventDraft;
use longhaul_durable::{
    Answer, END, Effect, Graph, GraphBuilder, NodeError, NodePolicy, Outcome, Retry, RunOptions, START, Send, Wait,
    WaitInfo, WaitKind,
    replay::{Case, CaseError, Difference, Redaction, ReplayError, Replayed, Replayer, What},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    ground::{Ground, on},
    support::{Done, Words, World, completed, failure, scope, thread},
};

on! { file, memory, postgres:
    a_whole_story_is_replayed_without_the_world,
    unfinished_ones_are_replayed_as_far_as_they_went,
    edits_and_forks_are_made_again,
}

/// One way in which the code may be another than when it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    StepName,
    StepMore,
    StepLess,
    Update,
    Inside,
    Child,
    Event,
    Question,
    Schema,
    NoQuestion,
    Way,
}

/// Where the story's steps leave something in the world.
#[derive(Clone)]
struct Outside {
    dir: PathBuf,
    /// Failures that are still to come.
    failures: Arc<AtomicU32>,
}

impl Outside {
    fn new(dir: &Path, failures: u32) -> Self {
        Self { dir: dir.to_owned(), failures: Arc::new(AtomicU32::new(failures)) }
    }

    /// Writes a file of this name; fails as often as was planned.
    fn write(&self, name: &str) -> Result<String, io::Error> {
        if self.failures.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(io::Error::other("the disk is busy"));
        }
        std::fs::write(self.dir.join(name), name)?;
        Ok(format!("wrote {name}"))
    }

    fn files(&self) -> usize {
        std::fs::read_dir(&self.dir).unwrap().count()
    }
}

fn step(outside: &Outside, name: &str) -> impl Future<Output = Result<String, longhaul_durable::StepError>> + use<> {
    let (outside, name) = (outside.clone(), name.to_owned());
    async move { Ok(outside.write(&name)?) }
}

fn inner(outside: &Outside, change: Change) -> Graph<Words> {
    let outside = outside.clone();
    GraphBuilder::<Words>::new("inner", 1)
        .node("look", move |ctx, _| {
            let outside = outside.clone();
            async move {
                let word = ctx.step("look", Effect::Pure, step(&outside, "look")).await?;
                Ok(vec![if change == Change::Inside { "looked away".to_owned() } else { word }])
            }
        })
        .edge(START, "look")
        .edge("look", END)
        .build()
        .unwrap()
}

/// Plans, works in parallel (with failures on the way), looks inside a subgraph, runs a child, asks, waits, publishes.
fn story(outside: &Outside, change: Change) -> Graph<Words> {
    let retry = Retry { first_ms: 1, jitter: false, max_attempts: 4, ..Retry::default() };
    GraphBuilder::<Words>::new("story", 1)
        .node("plan", {
            let outside = outside.clone();
            move |ctx, _| {
                let outside = outside.clone();
                async move {
                    let name = if change == Change::StepName { "plan again" } else { "plan" };
                    let word = ctx.step(name, Effect::Idempotent { key: "k".into() }, step(&outside, "plan")).await?;
                    if change != Change::StepLess {
                        ctx.now().await?;
                    }
                    if change == Change::StepMore {
                        ctx.step("more", Effect::Pure, step(&outside, "more")).await?;
                    }
                    let told = if change == Change::Event { "nothing" } else { word.as_str() };
                    ctx.emit(EventDraft::business("story.planned", json!({ "told": told })));
                    let random = ctx.random().await?;
                    Ok(vec![word, random.to_string()])
                }
            }
        })
        .node_with_input("work", {
            let outside = outside.clone();
            move |ctx, _, n: u64| {
                let outside = outside.clone();
                async move {
                    let (execution, id) = (ctx.execution().clone(), ctx.step_id("work").within());
                    let word =
                        ctx.step_tx("work", Effect::Once, step(&outside, &format!("work-{n}")), move |tx, word| {
                            let draft = EventDraft::business("work.done", json!({ "word": word }));
                            tx.append_event(&scope(), Some(&execution), Some(&id), draft).map(drop)
                        });
                    let word = word.await?;
                    Ok(vec![if change == Change::Update && n == 2 { "slept".to_owned() } else { word }])
                }
            }
        })
        .policy("plan", NodePolicy::new().retry(retry))
        .subgraph("inside", inner(outside, change), |_: &Words| Words::default(), |inner: Words| inner.words)
        .node("call", {
            let child = asking(outside, change);
            move |ctx, _| {
                let child = child.clone();
                async move { Ok(ctx.child("child", &child, Words::of(&["from", "above"])).await?.words) }
            }
        })
        .node("publish", {
            let outside = outside.clone();
            move |ctx, _| {
                let outside = outside.clone();
                async move {
                    ctx.sleep(Duration::from_millis(5)).await?;
                    let heard = ctx.interventions().await?;
                    ctx.step("publish", Effect::Once, step(&outside, "publish")).await?;
                    Ok(heard.into_iter().map(|heard| heard.note).collect::<Vec<_>>())
                }
            }
        })
        .edge(START, "plan")
        .fan_out("plan", &["work"], |_| (0..4).map(|n| Send::new("work", &n)).collect())
        .edge("work", "inside")
        .branch("inside", &["call", "publish"], move |_| if change == Change::Way { "publish" } else { "call" })
        .edge("call", "publish")
        .edge("publish", END)
        .build()
        .unwrap()
}

/// The child: asks two things at once.
fn asking(outside: &Outside, change: Change) -> Graph<Words> {
    let outside = outside.clone();
    GraphBuilder::<Words>::new("asking", 1)
        .node("ask", move |ctx, state: Arc<Words>| {
            let outside = outside.clone();
            async move {
                let draft = ctx.step("draft", Effect::Pure, step(&outside, "draft")).await?;
                if change == Change::NoQuestion {
                    return Ok(vec![draft]);
                }
                let question = if change == Change::Question { "this?" } else { draft.as_str() };
                let fits = if change == Change::Schema { "integer" } else { "string" };
                let first = Wait::approval("publish?").payload(json!({ "draft": question }));
                let waits = [
                    first.schema(json!({ "type": fits })).deadline_ms(3_600_000),
                    Wait::event("weather").correlation("north"),
                ];
                let mut words = vec![draft];
                for answer in ctx.pause_for_all::<Value>(waits).await? {
                    let Answer::Given { value, actor, at } = answer else { panic!("{answer:?}") };
                    words.push(format!("{actor} said {value} at {}", at.0));
                }
                if change == Change::Child {
                    words.push(state.words.concat());
                }
                Ok(words)
            }
        })
        .edge(START, "ask")
        .edge("ask", END)
        .build()
        .unwrap()
}

fn waits(outcome: Outcome<Words>) -> Vec<WaitInfo> {
    let Outcome::Waiting(waits) = outcome else { panic!("{outcome:?}") };
    waits
}

async fn goes_on(world: &World, graph: &Graph<Words>) -> Outcome<Words> {
    world.run_with(graph, RunOptions { await_timers: true, ..RunOptions::default() }).await
}

/// Runs the story to its end, with answers, an intervention and failures.
async fn told(world: &World, outside: &Outside) -> Words {
    let graph = story(outside, Change::None);
    let scope = scope().scope;
    for wait in waits(goes_on(world, &graph).await) {
        match wait.kind {
            WaitKind::Event => {
                let payload = json!({ "sky": "grey" });
                world.runtime.deliver(&scope, "weather", "north", payload, "event 1").await.unwrap();
            }
            WaitKind::Approval => {
                world.runtime.intervene(&scope, &thread(), json!({ "x": 1 }), "ada", "mind the gap").await.unwrap();
                world.runtime.continue_with(&scope, &wait.id, json!("yes"), "r1", "ada").await.unwrap();
            }
            WaitKind::Webhook | WaitKind::Timer => panic!("{wait:?}"),
        }
        waits_or_end(goes_on(world, &graph).await);
    }
    world.runtime.state(&scope, &thread()).await.unwrap().unwrap()
}

fn waits_or_end(outcome: Outcome<Words>) {
    assert!(matches!(outcome, Outcome::Waiting(_) | Outcome::Completed(_)), "{outcome:?}");
}

async fn recorded(world: &World) -> Case {
    let execution = world.runtime.find(&scope().scope, &thread()).await.unwrap().unwrap();
    let case = world.runtime.record_case(&scope().scope, &execution.id, &Redaction::none()).await.unwrap();
    // As a file has it.
    Case::parse(&case.to_text().unwrap()).unwrap()
}

async fn replayed(case: &Case, graph: &Graph<Words>) -> Replayed {
    Replayer::new().graph(graph).replay(case).await.unwrap()
}

/// The first difference, when the story's code is another; nothing outside is touched either way.
async fn difference(case: &Case, change: Change) -> Option<Difference> {
    let dir = tempfile::tempdir().unwrap();
    let outside = Outside::new(dir.path(), 0);
    let replayed = replayed(case, &story(&outside, change)).await;
    assert_eq!(outside.files(), 0, "{change:?} called something outside");
    replayed.difference
}

async fn a_whole_story_is_replayed_without_the_world(ground: Ground) {
    let world = ground.world().await;
    let dir = tempfile::tempdir().unwrap();
    let outside = Outside::new(dir.path(), 2);
    let state = told(&world, &outside).await;
    assert_eq!(outside.files(), 8);
    let mut case = recorded(&world).await;
    case.accept = serde_json::from_value(json!({
        "status": "completed",
        "state": [{ "at": "/words/0", "equals": "wrote plan" }, { "at": "/count", "min": 13, "max": 13 }],
        "events": [{ "kind": "wait.opened", "count": 3 }, { "kind": "story.planned", "data": { "told": "wrote plan" } },
            { "kind": "story.burnt", "count": 0 }],
        "order": ["story.planned", "wait.opened", "wait.answered", "wait.expired"],
        "supersteps": { "min": 5, "max": 5 },
        "steps": { "max": 12 },
    }))
    .unwrap();

    std::fs::remove_dir_all(dir.path()).unwrap();
    std::fs::create_dir(dir.path()).unwrap();
    let again = replayed(&case, &story(&outside, Change::None)).await;
    assert_eq!(again.difference, None);
    assert_eq!(outside.files(), 0, "a replay called something outside");
    assert_eq!(again.final_state, Some(json!(state)));
    assert!(again.passes(), "{:#?}", again.checked);
    assert_eq!((again.counts.steps, again.counts.answers, again.counts.events), (11, 3, 7), "{:?}", again.counts);
    assert_eq!(again.notes, Vec::<String>::new());

    case.accept.status = Some("failed".to_owned());
    let wrong = replayed(&case, &story(&outside, Change::None)).await;
    assert!(wrong.difference.is_none() && !wrong.passes());
    assert_eq!(wrong.checked[0].found, "completed");

    for (change, what, expected) in [
        (Change::StepName, What::Step, r#"node plan, superstep 1, step 1: expected "plan", found "plan again""#),
        (Change::StepMore, What::Step, r#"node plan, superstep 1, step 3: expected "random", found "more""#),
        (Change::StepLess, What::Step, r#"node plan, superstep 1, step 2: expected "now", found "random""#),
        (
            Change::Event,
            What::Event,
            r#"event story.planned at plan/1.0, data /told: expected "wrote plan", found "nothing""#,
        ),
        (
            Change::Update,
            What::Checkpoint,
            r#", superstep 2 (nodes work), updates /2/0/0: expected "wrote work-2", found "slept""#,
        ),
        (
            Change::Inside,
            What::Checkpoint,
            r#" inside 3.0.inside>, superstep 1 (nodes look), updates /0/0/0: expected "wrote look", found "looked away""#,
        ),
        (Change::Way, What::Checkpoint, r#", superstep 3 (nodes inside), next /f/0: expected "call", found "publish""#),
        (Change::Question, What::Wait, r#"payload /draft: expected "wrote draft", found "this?""#),
        (Change::Schema, What::Wait, "found it is refused now: answer: want integer, but got string"),
        (Change::NoQuestion, What::Wait, r#"expected a wait for "publish?", found none"#),
        (
            Change::Child,
            What::Checkpoint,
            r#", superstep 1 (nodes ask), updates /0/0/3: expected nothing, found "fromabove""#,
        ),
    ] {
        let found = difference(&case, change).await.unwrap_or_else(|| panic!("{change:?} was not noticed"));
        assert_eq!(found.what, what, "{change:?}: {found}");
        assert!(found.to_string().contains(expected), "{change:?}: {found}");
    }
}

/// Does a step, and then whatever this one says.
fn two_steps(outside: &Outside, second: fn(u64) -> Result<(), io::Error>) -> Graph<Words> {
    let outside = outside.clone();
    GraphBuilder::<Words>::new("two", 1)
        .node("one", move |ctx, state: Arc<Words>| {
            let outside = outside.clone();
            let n = state.count;
            async move {
                let word = ctx.step("first", Effect::Pure, step(&outside, &format!("first-{n}"))).await?;
                ctx.step("second", Effect::Pure, async move { Ok(second(n)?) }).await?;
                Ok(vec![word])
            }
        })
        .edge(START, "one")
        .branch("one", &["one", END], |state| if state.count < 3 { "one" } else { END })
        .build()
        .unwrap()
}

async fn unfinished_ones_are_replayed_as_far_as_they_went(ground: Ground) {
    let dir = tempfile::tempdir().unwrap();
    let outside = Outside::new(dir.path(), 0);
    let world = ground.world().await;
    let fails: fn(u64) -> Result<(), io::Error> =
        |n| if n < 2 { Ok(()) } else { Err(io::Error::other("no paper: 纸没有了")) };

    // One that failed: the failure is made again, without the world.
    let error = failure(world.run(&two_steps(&outside, fails)).await);
    let failed = recorded(&world).await;
    assert_eq!(failed.root().end.error.as_deref(), Some(error.as_str()));
    let fine = two_steps(&outside, |_| Ok(()));
    let before = outside.files();
    let again = replayed(&failed, &fine).await;
    assert_eq!((again.difference.as_ref(), again.passes()), (None, true), "{again:#?}");
    assert_eq!((outside.files(), again.counts.steps), (before, 5));
    let another = GraphBuilder::<Words>::new("two", 1)
        .node("one", |ctx, _| async move {
            ctx.step("first", Effect::Pure, async { Ok(String::new()) }).await.map(|word| vec![word])
        })
        .edge(START, "one")
        .edge("one", END)
        .build()
        .unwrap();
    let found = replayed(&failed, &another).await.difference.unwrap();
    assert_eq!(found.to_string(), r#"node one, superstep 1, step 2: expected "second", found the node ends before it"#);

    // The same one cancelled.
    assert!(world.runtime.cancel(&scope().scope, &thread(), "ada", "enough").await.unwrap());
    let cancelled = recorded(&world).await;
    assert_eq!(cancelled.accept.status.as_deref(), Some("cancelled"));
    let again = replayed(&cancelled, &fine).await;
    assert_eq!((again.difference.as_ref(), again.passes()), (None, true), "{again:#?}");
    assert_eq!(again.notes, ["the recording ends inside a run of a node: what came after that is not known"]);

    // One that was stopped at a boundary, and one that waits.
    let stop = CancellationToken::new();
    let graph = two_steps(&outside, |_| Ok(()));
    let options = RunOptions {
        stop: stop.clone(),
        stop_when: Some(Arc::new(|words: &Words| words.count == 2)),
        ..RunOptions::default()
    };
    assert!(matches!(world.run_with(&graph, options).await, Outcome::Stopped(_)));
    let stopped = recorded(&world).await;
    let again = replayed(&stopped, &graph).await;
    assert_eq!((again.difference, again.counts.checkpoints), (None, 3));
    completed(world.run(&graph).await);

    let asking = asking(&outside, Change::None);
    waits(world.run(&asking).await);
    let waiting = recorded(&world).await;
    let again = replayed(&waiting, &asking).await;
    assert_eq!((again.difference, again.counts.answers), (None, 0));
    let found = replayed(&waiting, &self::asking(&outside, Change::NoQuestion)).await.difference.unwrap();
    assert!(found.to_string().contains("expected a wait for"), "{found}");
}

async fn edits_and_forks_are_made_again(ground: Ground) {
    let dir = tempfile::tempdir().unwrap();
    let outside = Outside::new(dir.path(), 0);
    let world = ground.world().await;
    let graph = two_steps(&outside, |_| Ok(()));
    let options = RunOptions { stop_when: Some(Arc::new(|words: &Words| words.count == 1)), ..RunOptions::default() };
    world.run_with(&graph, options).await;
    let scope = scope();
    let update = vec!["by hand".to_owned()];
    let point = world.runtime.update_state(&graph, &scope.scope, &thread(), update, None, "ada").await.unwrap();
    completed(world.run(&graph).await);
    let edited = recorded(&world).await;
    assert!(edited.root().checkpoints[2].edited);
    let again = replayed(&edited, &graph).await;
    assert_eq!((again.difference.as_ref(), again.passes(), again.counts.checkpoints), (None, true, 4), "{again:#?}");

    world.runtime.fork_inside::<Words>(&scope, &point, &thread()).await.unwrap();
    completed(world.run(&graph).await);
    let forked = recorded(&world).await;
    assert_eq!((forked.root().begins.superstep, forked.root().checkpoints.len()), (2, 2));
    let again = replayed(&forked, &graph).await;
    assert_eq!((again.difference.as_ref(), again.passes()), (None, true), "{again:#?}");
}

/// A case of the small graph, as a text and in memory.
async fn small(dir: &Path) -> (Case, Graph<Words>) {
    let ground = Ground::memory();
    let world = ground.world().await;
    let graph = two_steps(&Outside::new(dir, 0), |_| Ok(()));
    completed(world.run(&graph).await);
    (recorded(&world).await, graph)
}

#[tokio::test]
async fn a_file_of_another_version_or_changed_by_hand_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (case, _) = small(dir.path()).await;
    let text = case.to_text().unwrap();
    let as_version = |v: u64| text.replacen("\"longhaul_case\": 1", &format!("\"longhaul_case\": {v}"), 1);
    for version in [0, 2, 4_000_000_000_000] {
        let error = Case::parse(&as_version(version)).unwrap_err();
        assert!(matches!(error, CaseError::Version { found } if found == version), "{error}");
    }
    assert!(matches!(Case::parse("{}").unwrap_err(), CaseError::Form { .. }));
    assert!(matches!(Case::parse(&text[..text.len() / 2]).unwrap_err(), CaseError::Form { .. }));
    let more = text.replacen("\"longhaul_case\": 1,", "\"longhaul_case\": 1, \"surprise\": 1,", 1);
    assert!(matches!(Case::parse(&more).unwrap_err(), CaseError::Form { .. }));
    // The expectation may not be adapted to what was found.
    let mut changed: Value = serde_json::from_str(&text).unwrap();
    changed["executions"][0]["checkpoints"][2]["updates"][0][0][0] = json!("something else");
    let error = Case::parse(&changed.to_string()).unwrap_err();
    assert!(error.to_string().contains("superstep 2 (nodes one)"), "{error}");
    // The criteria may.
    let mut other: Value = serde_json::from_str(&text).unwrap();
    other["accept"] = json!({ "steps": { "max": 2 } });
    other["name"] = json!("another name");
    let other = Case::parse(&other.to_string()).unwrap();
    assert_eq!((other.name.as_str(), other.accept.status), ("another name", None));

    let file = dir.path().join("deep/case.json");
    case.write(&file).unwrap();
    assert_eq!(Case::read(&file).unwrap().to_text().unwrap(), text);
    assert!(matches!(Case::read(&dir.path().join("none.json")).unwrap_err(), CaseError::Io { .. }));
}

#[tokio::test]
async fn an_unknown_graph_or_state_is_said_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (mut case, graph) = small(dir.path()).await;
    let error = Replayer::new().replay(&case).await.unwrap_err();
    assert!(error.to_string().contains(r#"the graph "two", and this program has none"#), "{error}");
    case.executions[0].begins.state = serde_json::value::to_raw_value(&json!({ "letters": [] })).unwrap();
    let error = Replayer::new().graph(&graph).replay(&case).await.unwrap_err();
    assert!(matches!(error, ReplayError::Begins { .. }), "{error}");
}

#[tokio::test]
async fn a_case_that_would_be_too_large_is_refused() {
    let world = Ground::memory().world().await;
    let graph = GraphBuilder::<Words>::new("large", 1)
        .node("grow", |ctx, _| async move {
            for _ in 0..9 {
                ctx.step("grow", Effect::Pure, async { Ok("x".repeat(1_000_000)) }).await?;
            }
            Ok(vec!["grown".to_owned()])
        })
        .edge(START, "grow")
        .branch("grow", &["grow", END], |state| if state.count < 8 { "grow" } else { END })
        .build()
        .unwrap();
    completed(world.run(&graph).await);
    let execution = world.runtime.find(&scope().scope, &thread()).await.unwrap().unwrap();
    let error = world.runtime.record_case(&scope().scope, &execution.id, &Redaction::none()).await.unwrap_err();
    assert!(matches!(error, CaseError::TooLarge { .. }), "{error}");
}

/// Carries a key about.
fn secretive(done: &Done) -> Graph<Words> {
    let done = done.clone();
    GraphBuilder::<Words>::new("secretive", 1)
        .node("login", move |ctx, state: Arc<Words>| {
            let (done, user) = (done.clone(), state.words[0].clone());
            async move {
                let work = async {
                    done.add("login");
                    Ok(json!({ "token": "sk-live-4711", "for": user.clone() }))
                };
                let session: Value = ctx.step("login", Effect::Pure, work).await?;
                let token = session["token"].as_str().unwrap_or_default().to_owned();
                ctx.emit(EventDraft::business("user.known", json!({ "text": format!("hello {user}") })));
                Ok(vec![format!("token {token} of {user}")])
            }
        })
        .edge(START, "login")
        .edge("login", END)
        .build()
        .unwrap()
}

#[tokio::test]
async fn what_is_redacted_is_nowhere_in_the_file_and_the_case_still_replays() {
    let world = Ground::memory().world().await;
    let graph = secretive(&world.done);
    let (scope, of) = (scope(), Words::of(&["ada@example.org"]));
    completed(world.runtime.run(&graph, &scope, &thread(), of, RunOptions::default()).await.unwrap());
    let id = world.runtime.find(&scope.scope, &thread()).await.unwrap().unwrap().id;
    let redaction = Redaction::none()
        .path("/executions/*/steps/0/result/token")
        .hook(|text| text.contains("ada@example.org").then(|| text.replace("ada@example.org", "somebody")));
    let case = world.runtime.record_case(&scope.scope, &id, &redaction).await.unwrap();
    let text = case.to_text().unwrap();
    assert!(!text.contains("4711") && !text.contains("ada@") && text.contains("hello somebody"), "{text}");
    assert!(case.redacted >= 5, "{}", case.redacted);
    let again = replayed(&Case::parse(&text).unwrap(), &graph).await;
    assert_eq!((again.difference.as_ref(), again.passes()), (None, true), "{again:#?}");
    assert_eq!(world.done.take(), ["login"]);

    let nothing = world.runtime.record_case(&scope.scope, &id, &Redaction::none().path("/steps/0")).await;
    assert!(matches!(nothing.unwrap_err(), CaseError::RedactsNothing { .. }));
}

#[tokio::test]
async fn a_node_that_fails_by_itself_fails_again() {
    let world = Ground::memory().world().await;
    let graph = |why: &'static str| {
        GraphBuilder::<Words>::new("grim", 1)
            .node("fail", move |_, _| async move { Err::<Vec<String>, _>(NodeError::gave_up(io::Error::other(why))) })
            .edge(START, "fail")
            .edge("fail", END)
            .build()
            .unwrap()
    };
    failure(world.run(&graph("no paper")).await);
    let case = recorded(&world).await;
    assert_eq!(replayed(&case, &graph("no paper")).await.difference, None);
    let found = replayed(&case, &graph("no ink")).await.difference.unwrap();
    assert!(
        found
            .to_string()
            .ends_with("expected failed: the node gave up: no paper, found failed: the node gave up: no ink"),
        "{found}"
    );
}
