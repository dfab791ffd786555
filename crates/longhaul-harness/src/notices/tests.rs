//! A person's command, really run: told once in order, again after a failure or a death, never waited for too long.

use std::{fs, path::Path};

use longhaul_core::{Ambient, EventDraft, Scope, SessionId, TaskId, TraceId};
use longhaul_store::StoreSettings;
use longhaul_testbed::{Database, PrivateCluster};
use serde_json::{Value, json};

use super::*;

struct Ground {
    store: Store,
    owner: TaskScope,
    folder: tempfile::TempDir,
    _database: Option<Database<'static>>,
}

impl Ground {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (mut place, mut database) = (StoreSettings::new(folder.path()), None);
        if std::env::var("LONGHAUL_TEST_STORE").is_ok_and(|name| name == "postgres") {
            let made = PrivateCluster::shared().unwrap().create_database().unwrap();
            place = StoreSettings::from_url(&made.url(), folder.path()).unwrap();
            database = Some(made);
        }
        let migrations = [longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS, crate::MIGRATIONS];
        let store = Store::open(place, Ambient::system(), &migrations).await.unwrap();
        let owner = TaskScope {
            scope: Scope::single_user(),
            session: SessionId::from_body("s"),
            task: TaskId::from_body("t"),
            trace: TraceId::from_body("r"),
        };
        Self { store, owner, folder, _database: database }
    }

    fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// A line for the shell, with short patience.
    fn hook(&self, line: &str) -> Hook {
        Hook {
            command: ["sh", "-c", line].map(str::to_owned).to_vec(),
            dir: self.dir().to_owned(),
            hidden: vec!["HOME".to_owned()],
            limits: HookLimits {
                time: Duration::from_secs(5),
                pause: Duration::from_millis(1),
                pause_max: Duration::from_millis(2),
                look: Duration::from_millis(5),
                ..HookLimits::default()
            },
        }
    }

    async fn begin(&self, hook: Hook) -> Teller {
        Teller::begin(self.store.clone(), self.owner.clone(), "/home/ada/app".into(), hook).await.unwrap()
    }

    async fn happens(&self, kind: &'static str, data: Value) {
        let owner = self.owner.clone();
        let draft = EventDraft::business(kind, data);
        let write = self.store.write::<_, StoreError>(move |tx| tx.append_event(&owner, None, None, draft).map(drop));
        write.await.unwrap();
    }

    async fn session(&self, number: u32) {
        let data = json!({"session": number, "outcome": "verified", "summary": "sk-a-secret"});
        self.happens("session.ended", data).await;
    }

    fn told(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.dir().join("told")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn given_up(&self) -> usize {
        let owner = self.owner.clone();
        let read = move |read: &longhaul_store::ReadTx<'_>| {
            longhaul_store::events(read, &owner.scope, Some(&owner.task), 0, 1_000)
        };
        let events = self.store.read::<_, StoreError>(read).await.unwrap();
        events.iter().filter(|event| event.kind == "notice.given_up").count()
    }

    /// Until the file is there.
    async fn appears(&self, name: &str) {
        let mut looks = tokio::time::interval(Duration::from_millis(5));
        let there = async {
            while !self.dir().join(name).exists() {
                looks.tick().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), there).await.unwrap();
    }
}

fn sessions(told: &[Value]) -> Vec<u64> {
    told.iter().map(|notice| notice["data"]["session"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_command_is_told_what_happens_in_order_and_nothing_else() {
    let ground = Ground::new().await;
    ground.session(1).await;
    let teller = ground.begin(ground.hook("cat >> told; printf %s \"$HOME\" >> hidden")).await;
    ground.session(2).await;
    ground.happens("model.answered", json!({"turn": 1})).await;
    ground.happens("wait.opened", json!({"wait": "w", "kind": "approval", "name": "may it?"})).await;
    ground.happens("wait.opened", json!({"wait": "w", "kind": "timer", "name": "later"})).await;
    let ended =
        Ended { ending: "budget".to_owned(), limit: Some("9 tokens".to_owned()), passing: 1, total: 3, parked: 0 };
    let event = ended.event();
    ground.happens("run.ended", event.data).await;
    teller.end().await;
    let told = ground.told();
    let kinds: Vec<_> = told.iter().map(|notice| notice["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["session.ended", "wait.opened", "run.ended"], "what was before is nobody's news");
    assert_eq!((&told[0]["folder"], &told[0]["task"]), (&json!("/home/ada/app"), &json!("task_t")));
    assert_eq!(told[2]["title"], "The run ended at a limit of the budget (9 tokens): 1 of 3 features verified");
    assert!(told[1]["what_to_do"].as_str().unwrap().contains("longhaul waits"));
    assert!(!fs::read_to_string(ground.dir().join("told")).unwrap().contains("sk-a-secret"));
    assert_eq!(fs::read_to_string(ground.dir().join("hidden")).unwrap(), "", "a hidden variable was passed on");
}

#[tokio::test]
async fn whoever_died_before_it_was_noted_tells_it_again_with_the_same_id() {
    let ground = Ground::new().await;
    // The command takes the notice and hangs; the process dies meanwhile.
    let teller = ground.begin(ground.hook("cat >> told; touch taken; exec sleep 1000")).await;
    ground.session(1).await;
    ground.appears("taken").await;
    drop(teller);
    let teller = ground.begin(ground.hook("cat >> told")).await;
    ground.session(2).await;
    teller.end().await;
    let told = ground.told();
    assert_eq!(sessions(&told), [1, 1, 2]);
    assert_eq!(told[0]["id"], told[1]["id"]);
    // Without a command nothing moves; the next one goes on where this one stopped.
    ground.session(3).await;
    let teller = ground.begin(ground.hook("cat >> told")).await;
    teller.end().await;
    assert_eq!(sessions(&ground.told()), [1, 1, 2, 3]);
}

#[tokio::test]
async fn a_command_that_hangs_ends_with_its_children_and_is_tried_again() {
    let ground = Ground::new().await;
    let line = "if [ -e first ]; then cat >> told; exit; fi; touch first; sleep 1000 & echo $! > child; wait";
    let hook = ground.hook(line);
    let limits = HookLimits { time: Duration::from_millis(500), ..hook.limits };
    let teller = ground.begin(Hook { limits, ..hook }).await;
    ground.session(1).await;
    ground.appears("told").await;
    teller.end().await;
    assert_eq!(sessions(&ground.told()), [1]);
    let child = fs::read_to_string(ground.dir().join("child")).unwrap();
    // It was killed; the kernel needs a moment to take it apart.
    let gone = async {
        let mut often = tokio::time::interval(Duration::from_millis(10));
        loop {
            let state = fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
            if state.is_empty() || state.contains(") Z ") {
                break;
            }
            often.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("its child still runs");
}

#[tokio::test]
async fn a_command_that_never_takes_one_notice_is_told_the_others() {
    let ground = Ground::new().await;
    let line = "read -r line; case $line in *'\"session\":1,'*) echo x >> tries; yes no >&2; exit 1;; esac; \
                printf '%s\\n' \"$line\" >> told";
    let hook = ground.hook(line);
    let limits = HookLimits { tries_max: 3, time: Duration::from_millis(300), ..hook.limits };
    let teller = ground.begin(Hook { limits, ..hook }).await;
    ground.session(1).await;
    ground.session(2).await;
    ground.appears("told").await;
    teller.end().await;
    assert_eq!(sessions(&ground.told()), [2]);
    assert_eq!(fs::read_to_string(ground.dir().join("tries")).unwrap().lines().count(), 3);
    assert_eq!(ground.given_up().await, 1);
}

#[tokio::test]
async fn the_end_of_a_run_does_not_wait_for_a_command_that_hangs() {
    let ground = Ground::new().await;
    let hook = ground.hook("exec sleep 1000");
    let limits = HookLimits { time: Duration::from_secs(600), farewell: Duration::from_millis(300), ..hook.limits };
    let teller = ground.begin(Hook { limits, ..hook }).await;
    ground.session(1).await;
    tokio::time::timeout(Duration::from_secs(20), teller.end()).await.unwrap();
    // A crowd waited: the newest are told, and how many were left out.
    for number in 2..=9 {
        ground.session(number).await;
    }
    let hook = ground.hook("cat >> told");
    let limits = HookLimits { waiting_max: 3, ..hook.limits };
    ground.begin(Hook { limits, ..hook }).await.end().await;
    assert_eq!(sessions(&ground.told()), [7, 8, 9]);
    assert_eq!(ground.told()[0]["skipped"], 6);
}
