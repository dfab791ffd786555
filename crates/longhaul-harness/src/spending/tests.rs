//! Reservations in a real store: a limit is never exceeded, whoever asks at once and whoever is killed in between.

use longhaul_core::{Scope, SessionId, TaskId, TraceId};
use longhaul_model::Finish;
use longhaul_store::StoreSettings;
use longhaul_testbed::{Database, PrivateCluster};

use super::*;

struct Ground {
    spending: Spending,
    owner: TaskScope,
    store: Store,
    _folder: tempfile::TempDir,
    _database: Option<Database<'static>>,
}

async fn ground(settings: BudgetSettings) -> Ground {
    let folder = tempfile::tempdir().unwrap();
    let (mut place, mut database) = (StoreSettings::new(folder.path()), None);
    if std::env::var("LONGHAUL_TEST_STORE").is_ok_and(|name| name == "postgres") {
        let made = PrivateCluster::shared().unwrap().create_database().unwrap();
        place = StoreSettings::from_url(&made.url(), folder.path()).unwrap();
        database = Some(made);
    }
    let ambient = Ambient::system();
    let migrations = [longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS, crate::MIGRATIONS];
    let store = Store::open(place, ambient.clone(), &migrations).await.unwrap();
    let owner = TaskScope {
        scope: Scope::single_user(),
        session: SessionId::from_body("s"),
        task: TaskId::from_body("t"),
        trace: TraceId::from_body("r"),
    };
    Ground {
        spending: Spending::new(store.clone(), ambient, settings),
        owner,
        store,
        _folder: folder,
        _database: database,
    }
}

impl Ground {
    fn purse(&self) -> Arc<dyn Purse> {
        self.spending.purse(self.owner.clone(), 1)
    }

    async fn spent(&self) -> Spent {
        let owner = self.owner.clone();
        self.store.read::<_, StoreError>(move |read| spent(read, &owner)).await.unwrap()
    }

    async fn settle(&self, reservation: Reservation, usage: Usage) {
        let (purse, answer) = (self.purse(), answer(usage));
        self.store.write::<_, StoreError>(move |tx| purse.settle(tx, &reservation, &answer)).await.unwrap();
    }
}

fn wanted(tokens: u64) -> Wanted {
    Wanted { model: "m-2026".into(), prompt_tokens: tokens - 10, answer_tokens: 10 }
}

fn answer(usage: Usage) -> ChatResponse {
    ChatResponse {
        content: String::new(),
        tool_calls: Vec::new(),
        usage,
        finish: Finish::Stop,
        model: "m-2026-11".into(),
        retries: Vec::new(),
        reasoning: Vec::new(),
        answered_by: String::new(),
        passed_over: Vec::new(),
    }
}

fn granted(reserved: Reserved) -> Reservation {
    match reserved {
        Reserved::Granted(reservation) => reservation,
        Reserved::Refused { why } => panic!("refused: {why}"),
    }
}

#[tokio::test]
async fn what_is_reserved_counts_until_it_is_settled_and_for_ever_when_it_never_is() {
    let mut prices = Prices::default();
    prices.set("m", Price { input: Money(1_000_000), output: Money(2_000_000), ..Price::default() });
    let settings =
        BudgetSettings { tokens_max: Some(1_000), money_max: Some(Money(1_000)), prices, ..BudgetSettings::default() };
    let g = ground(settings).await;
    g.spending.begin(&g.owner, RunBudget::default()).await.unwrap();
    let first = granted(g.purse().reserve(wanted(600)).await.unwrap());
    assert_eq!(g.spent().await.tokens, 600);
    let refused = g.purse().reserve(wanted(500)).await.unwrap();
    assert_eq!(refused, Reserved::Refused { why: "600 of the project's 1,000 tokens are used".into() });
    g.settle(first, Usage { prompt_tokens: 200, answer_tokens: 50, ..Usage::default() }).await;
    let now = g.spent().await;
    assert_eq!((now.tokens, now.money, now.unsettled), (250, Money(300), 0));
    // Killed after this: nobody knows whether the service did it, so it counts whole.
    let killed = granted(g.purse().reserve(wanted(500)).await.unwrap());
    let again = Spending::new(g.store.clone(), Ambient::system(), BudgetSettings::default());
    let before = again.begin(&g.owner, RunBudget { tokens_max: Some(100), ..RunBudget::default() }).await.unwrap();
    assert_eq!((before.tokens, before.unsettled, before.newest_request), (750, 1, 500));
    assert_eq!(
        again.stops().as_deref(),
        Some("0 of this run's 100 tokens are used"),
        "the next is as large as the last"
    );
    // One that the service refused cost nothing.
    g.purse().unused(&killed, Unused::Free).await.unwrap();
    assert_eq!(g.spent().await.tokens, 250);
    // Money: 300 are used, and 700 at most may be reserved.
    let dear = Wanted { model: "m".into(), prompt_tokens: 100, answer_tokens: 301 };
    let Reserved::Refused { why } = g.purse().reserve(dear).await.unwrap() else { panic!("it is too dear") };
    assert_eq!(why, "0.0003 of the project's 0.001 of money are used");
    assert_eq!(g.spending.stops(), Some(why), "no session begins after a request that could not be paid for");
    assert_eq!(g.spending.lacks_price("another").as_deref(), Some("another"));
    assert_eq!(g.spending.lacks_price("m-mini"), None);
    let with_other = g.spending.clone().answered_also_by(vec!["dear".into()]);
    assert_eq!(with_other.lacks_price("m").as_deref(), Some("dear"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_ask_at_once_only_as_many_are_granted_as_fit() {
    let g = ground(BudgetSettings { tokens_max: Some(1_000), ..BudgetSettings::default() }).await;
    let asking = (0..24).map(|_| {
        let purse = g.purse();
        tokio::spawn(async move { matches!(purse.reserve(wanted(90)).await.unwrap(), Reserved::Granted(_)) })
    });
    let asking: Vec<_> = asking.collect();
    let mut grants = 0;
    for asked in asking {
        grants += u32::from(asked.await.unwrap());
    }
    assert_eq!((grants, g.spent().await.tokens), (11, 990));
}

#[tokio::test]
async fn attempts_that_broke_off_are_counted_with_the_answer() {
    let g = ground(BudgetSettings::default()).await;
    let reservation = granted(g.purse().reserve(wanted(100)).await.unwrap());
    let retry = |code: &str| longhaul_model::Retry { status: None, code: code.into(), waited_ms: 1 };
    let usage = Usage { prompt_tokens: 80, answer_tokens: 5, ..Usage::default() };
    let mut answer = answer(usage);
    answer.retries = vec![retry("model_cut"), retry("model_busy")];
    let purse = g.purse();
    g.store.write::<_, StoreError>(move |tx| purse.settle(tx, &reservation, &answer)).await.unwrap();
    assert_eq!(g.spent().await.tokens, 80 + 90 + 5 + 5);
}
