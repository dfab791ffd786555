//! The laws of the port, on a server that is well.

use longhaul_core::TimeMs;
use longhaul_memory::remote::{Batch, RemoteFilter, RemoteVectors};
use longhaul_milvus::{Index, Milvus};
use longhaul_testbed::MilvusKind;

use crate::servers::{DIMENSIONS, Question, connect, kind, row, rows, settings, shared, space, vector};

/// Numbers by cosine, computed here.
fn exact(seqs: impl IntoIterator<Item = i64>, to: &[f32], take: usize) -> Vec<i64> {
    let cosine = |seq: i64| vector(seq).iter().zip(to).map(|(a, b)| a * b).sum::<f32>();
    let mut scored: Vec<(f32, i64)> = seqs.into_iter().map(|seq| (cosine(seq), seq)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(take).map(|(_, seq)| seq).collect()
}

#[tokio::test]
async fn the_nearest_are_those_that_an_exact_comparison_finds() {
    let mut question = Question::open(&shared(), "nearest").await;
    question.apply("s/tenant_a/main", &rows(0..500)).await;
    for number in 1000..1010 {
        let to = vector(number);
        assert_eq!(question.seqs("s/tenant_a/main", &to, 10).await, exact(0..500, &to, 10));
    }
    let scores = question.nearest("s/tenant_a/main", &vector(3), 1).await.unwrap();
    assert_eq!(scores[0].seq, 3);
    assert!((scores[0].score - 1.0).abs() < 1e-3, "{scores:?}");
}

#[tokio::test]
async fn a_write_is_seen_by_whoever_waits_for_its_mark() {
    let mut question = Question::open(&shared(), "marks").await;
    for seq in 0..10 {
        question.apply("s/tenant_a/main", &rows([seq])).await;
        assert_eq!(question.seqs("s/tenant_a/main", &vector(seq), 1).await, [seq]);
    }
}

#[tokio::test]
async fn a_row_is_there_once_and_a_deleted_one_is_gone() {
    let mut question = Question::open(&shared(), "once").await;
    for _ in 0..3 {
        question.apply("s/tenant_a/main", &rows(0..20)).await;
    }
    assert_eq!(question.milvus.count(&question.space, "s/tenant_a/main").await.unwrap(), 20);
    let mut moved = row(7);
    moved.vector = vector(700);
    moved.version = 99;
    question.apply("s/tenant_a/main", &Batch { upserts: vec![moved], deletes: vec![3, 4], is_first: false }).await;
    question.apply("s/tenant_a/main", &Batch { deletes: vec![3, 4, 5000], ..Batch::default() }).await;
    assert_eq!(question.milvus.count(&question.space, "s/tenant_a/main").await.unwrap(), 18);
    assert_eq!(question.seqs("s/tenant_a/main", &vector(700), 1).await, [7]);
    assert!(!question.seqs("s/tenant_a/main", &vector(3), 100).await.contains(&3));
    let mut stored = question.milvus.sample(&question.space, "s/tenant_a/main", &[3, 7, 8]).await.unwrap();
    stored.sort_by_key(|stored| stored.seq);
    let seen: Vec<(i64, i64)> = stored.iter().map(|stored| (stored.seq, stored.version)).collect();
    assert_eq!(seen, [(7, 99), (8, 8)]);
    assert!(stored[1].vector.iter().zip(vector(8)).all(|(a, b)| (a - b).abs() < 1e-6));
}

#[tokio::test]
async fn partitions_do_not_meet() {
    let mut question = Question::open(&shared(), "partitions").await;
    let partitions = ["s/tenant_a/main", "s/tenant_a/main2", "s/tenant_b/main", "t/tenant_a/main"];
    for (at, partition) in (0..).zip(partitions) {
        question.apply(partition, &rows((0..30).filter(|seq| seq % 4 == at))).await;
    }
    for (at, partition) in (0..).zip(partitions) {
        let found = question.seqs(partition, &vector(1), 100).await;
        assert!(!found.is_empty() && found.iter().all(|seq| seq % 4 == at), "{partition}: {found:?}");
    }
    question.mark = question.milvus.clear(&question.space, partitions[0]).await.unwrap();
    assert_eq!(question.milvus.count(&question.space, partitions[0]).await.unwrap(), 0);
    assert!(question.seqs(partitions[0], &vector(1), 100).await.is_empty());
    assert_eq!(question.seqs(partitions[1], &vector(1), 100).await.len(), 8);
}

#[tokio::test]
async fn conditions_and_expiry_are_the_servers_work() {
    let mut question = Question::open(&shared(), "filters").await;
    let mut batch = rows(0..40);
    for row in &mut batch.upserts {
        row.expires_at = (row.seq < 10).then_some(TimeMs(500));
    }
    question.apply("p", &batch).await;
    let mut check = async |filter: RemoteFilter, passes: &dyn Fn(i64) -> bool| {
        question.filter = filter;
        let mut found = question.seqs("p", &vector(1), 100).await;
        found.sort_unstable();
        let expected: Vec<i64> = (0..40).filter(|seq| passes(*seq)).collect();
        assert_eq!(found, expected, "{:?}", question.filter);
    };
    let all = RemoteFilter::default;
    check(all(), &|_| true).await;
    check(RemoteFilter { now: TimeMs(499), ..all() }, &|_| true).await;
    check(RemoteFilter { now: TimeMs(500), ..all() }, &|seq| seq >= 10).await;
    check(RemoteFilter { kinds: vec!["note".into()], ..all() }, &|seq| seq % 2 == 0).await;
    check(RemoteFilter { collections: vec!["c1".into(), "c3".into()], ..all() }, &|seq| matches!(seq % 5, 1 | 3)).await;
    let between = RemoteFilter { since: Some(TimeMs(5_000)), until: Some(TimeMs(9_000)), ..all() };
    check(between, &|seq| (5..9).contains(&seq)).await;
    // A text that needs quoting is not sent; the rows decide.
    check(RemoteFilter { collections: vec!["\" || id != \"".into()], ..all() }, &|_| true).await;
}

#[tokio::test]
async fn eight_at_once_make_one_collection() {
    let space = space("eight");
    let uri = shared();
    let open = |_| {
        let (uri, space) = (uri.clone(), space.clone());
        tokio::spawn(async move { connect(&uri).open(&space).await.unwrap().incarnation })
    };
    let opening: Vec<_> = (0..8).map(open).collect();
    let mut incarnations = Vec::new();
    for task in opening {
        incarnations.push(task.await.unwrap());
    }
    incarnations.dedup();
    assert_eq!(incarnations.len(), 1, "{incarnations:?}");
}

#[tokio::test]
async fn the_other_index_is_built_when_the_setting_names_it() {
    let uri = shared();
    let mut question = Question::open(&uri, "indexes").await;
    question.apply("p", &rows(0..300)).await;
    let with = |index: &str| {
        let mut settings = settings(&uri);
        settings.index = index.parse::<Index>().unwrap();
        Milvus::new(settings, longhaul_core::Ambient::system()).unwrap()
    };
    for index in ["ivf_flat(nlist=8, nprobe=8)", "hnsw(m=8)", "hnsw(m=8)"] {
        let milvus = with(index);
        let opened = milvus.open(&question.space).await.unwrap();
        assert_eq!(opened.incarnation, question.incarnation, "{index}: rows are kept");
        question.milvus = milvus.into();
        let to = vector(2000);
        assert_eq!(question.seqs("p", &to, 10).await, exact(0..300, &to, 10), "{index}");
    }
}

#[tokio::test]
async fn capabilities_are_those_of_the_server() {
    let seen = connect(&shared()).capabilities().await.unwrap();
    assert!(!seen.version.is_empty());
    assert!(seen.upsert && seen.waits_for_marks && !seen.enforces_ttl, "{seen:?}");
    assert_eq!(seen.indexes, ["HNSW", "IVF_FLAT"]);
    let lite = kind() == MilvusKind::Lite;
    assert_eq!((seen.fresh_reads, seen.keywords), (lite, lite), "{seen:?}");
}

#[tokio::test]
async fn a_collection_of_another_layout_is_refused() {
    let uri = shared();
    let first = space("layout");
    connect(&uri).open(&first).await.unwrap();
    assert_eq!(first.dimensions, DIMENSIONS);
    // Dropped by somebody: opening makes it anew, and it is another incarnation.
    let milvus = connect(&uri);
    let before = milvus.open(&first).await.unwrap();
    milvus.drop_space(&first).await.unwrap();
    let after = milvus.open(&first).await.unwrap();
    assert_ne!(before, after);
}
