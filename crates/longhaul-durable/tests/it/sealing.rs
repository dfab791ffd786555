//! What stands in the files when the store was opened with keys, and who can read it.

use std::{fs, path::Path, sync::Arc};

use longhaul_core::{Ambient, Scope};
use longhaul_durable::{
    CHECKS, DurableError, END, Effect, Graph, GraphBuilder, MIGRATIONS, NodeError, Outcome, RunOptions, Runtime, START,
    Send, Wait,
};
use longhaul_store::{StateKeys, StateKeysError, Store, StoreError, StoreSettings};

use crate::support::{Words, completed, scope, thread};

const MARKER: &str = "tangerine";
const ONE: &str = "one:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const TWO: &str = "two:ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
/// Another key by the name of the first.
const FALSE: &str = "one:ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";

async fn opened(dir: &Path, keys: Option<&str>) -> (Store, Runtime) {
    let keys = keys.map(|keys| StateKeys::parse(keys).unwrap());
    let settings = StoreSettings { keys, ..StoreSettings::new(dir) };
    let store = Store::open(settings, Ambient::system(), &[MIGRATIONS]).await.unwrap();
    (store.clone(), Runtime::new(store, Ambient::system()))
}

/// The marker goes everywhere: through inputs, updates, results, a wait and its answer; one of two tasks fails first.
fn graph(fails: bool) -> Graph<Words> {
    GraphBuilder::<Words>::new("secret", 1)
        .node("split", |_, _| async { Ok(vec![MARKER.to_owned()]) })
        .node_with_input("work", move |ctx, _, word: String| async move {
            let word = ctx.step("say", Effect::Once, async move { Ok(word) }).await?;
            if fails && ctx.task() == 1 {
                return Err(NodeError::gave_up(std::io::Error::other("later")));
            }
            Ok(vec![word])
        })
        .node("ask", |ctx, state: Arc<Words>| async move {
            let asked = Wait::approval("go on?").payload(state.words[0].clone()).default_answer(MARKER);
            let answer = ctx.pause_for::<String>(asked).await?;
            Ok(vec![answer.into_value().unwrap_or_default()])
        })
        .edge(START, "split")
        .fan_out("split", &["work"], |_| (0..2).map(|n| Send::new("work", &format!("{MARKER} {n}"))).collect())
        .edge("work", "ask")
        .edge("ask", END)
        .build()
        .unwrap()
}

async fn run(runtime: &Runtime, fails: bool) -> Result<Outcome<Words>, DurableError> {
    let initial = Words::of(&["tangerine at first"]);
    runtime.run(&graph(fails), &scope(), &thread(), initial, RunOptions::default()).await
}

fn found(dir: &Path) -> Vec<String> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let holds = |path: &std::path::PathBuf| {
        fs::read(path).unwrap().windows(MARKER.len()).any(|window| window == MARKER.as_bytes())
    };
    files.filter(holds).map(|path| path.display().to_string()).collect()
}

#[tokio::test]
async fn nothing_of_a_state_can_be_read_in_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let expected = ["tangerine at first", "tangerine", "tangerine 0", "tangerine 1", "tangerine, yes"];
    let single = Scope::single_user();
    {
        let (_store, runtime) = opened(dir.path(), Some(ONE)).await;
        assert!(matches!(run(&runtime, true).await.unwrap(), Outcome::Failed { .. }));
        assert!(matches!(run(&runtime, false).await.unwrap(), Outcome::Waiting(_)));
        let waits = runtime.copy_thread(&single, &thread(), &"thread_2".parse().unwrap()).await;
        assert_eq!(waits.unwrap().len(), 1);
        assert_eq!(found(dir.path()), Vec::<String>::new());
    }
    // Without the key, and with another one, nothing can be read and nothing is changed.
    for keys in [None, Some(TWO), Some(FALSE)] {
        let before = fs::read(dir.path().join("longhaul.db")).unwrap();
        let (store, runtime) = opened(dir.path(), keys).await;
        let state = runtime.state::<Words>(&single, &thread()).await.unwrap_err();
        assert!(matches!(&state, DurableError::Store(StoreError::Unsealed { key, .. }) if key == "one"), "{state:?}");
        let run = run(&runtime, false).await.unwrap_err();
        assert!(matches!(&run, DurableError::Store(StoreError::Unsealed { .. })), "{run:?}");
        assert!(!format!("{run} {run:?}").contains(MARKER));
        drop((store, runtime));
        assert_eq!(fs::read(dir.path().join("longhaul.db")).unwrap().len(), before.len());
    }
    // After a rotation the old key still opens; the copy goes on as well.
    let (store, runtime) = opened(dir.path(), Some(&format!("{TWO},{ONE}"))).await;
    for name in ["thread_1", "thread_2"] {
        let on = name.parse().unwrap();
        let [wait] = &runtime.waits(&single, &on).await.unwrap()[..] else { panic!("one wait") };
        assert_eq!(wait.payload, "tangerine at first");
        runtime.continue_thread(&single, &on, "tangerine, yes".into(), "r1", "ann").await.unwrap();
        let options = RunOptions::default();
        let outcome = runtime.run(&graph(false), &scope(), &on, Words::default(), options).await.unwrap();
        assert_eq!(completed(outcome).words, expected);
    }
    assert_eq!(runtime.history(&single, &thread(), 10).await.unwrap().len(), 4);
    assert_eq!(found(dir.path()), Vec::<String>::new());
    let report = store.verify(CHECKS).await.unwrap();
    assert!(report.is_sound(), "{report}");
    // Rows cannot be swapped.
    let swap = "UPDATE steps SET result = (SELECT result FROM steps s WHERE s.execution_id = steps.execution_id
         AND s.task = 0 LIMIT 1) WHERE task = 1";
    store.write(move |tx| tx.execute(swap, &[])).await.map_err(|error: StoreError| error).unwrap();
    let execution = runtime.find(&single, &thread()).await.unwrap().unwrap().id;
    let step = format!("{execution}/work/2.1/say#1").parse().unwrap();
    let moved = runtime.step_result(&single, &step).await.unwrap_err();
    assert!(matches!(moved, DurableError::Store(StoreError::Unsealed { .. })), "{moved:?}");
}

#[test]
fn keys_are_read_strictly_and_shown_nowhere() {
    let keys = StateKeys::parse(&format!("{TWO}, {ONE}")).unwrap();
    let shown = format!("{keys:?}");
    assert!(shown.contains("two") && !shown.contains("AAEC") && !shown.contains("ICEi"), "{shown}");
    for (text, expected) in [
        ("", StateKeysError::None),
        ("AAEC", StateKeysError::Id { number: 1 }),
        ("one:AAEC", StateKeysError::Key { id: "one".to_owned() }),
        ("one:not base64", StateKeysError::Key { id: "one".to_owned() }),
    ] {
        assert_eq!(StateKeys::parse(text).unwrap_err(), expected);
    }
    let twice = StateKeys::parse(&format!("{ONE},{FALSE}")).unwrap_err();
    assert_eq!(twice, StateKeysError::Twice { id: "one".to_owned() });
    assert!(!format!("{twice} {twice:?}").contains("ICEi"));
}
