//! Records over a real store: visible with their content or not at all, and only within their tenant.

use std::time::Duration;

use longhaul_core::{Ambient, RecordId, Scope, TaskScope, TenantId};
use longhaul_store::{Store, StoreError, StoreSettings};
use longhaul_workspace::{Kind, MIGRATIONS, NewRecord, Relation, Workspace, WorkspaceError, link, links_from};

fn owner(tenant: &str) -> TaskScope {
    TaskScope {
        scope: Scope { tenant: TenantId::from_body(tenant), ..Scope::single_user() },
        session: "sess_1".parse().expect("a literal id"),
        task: "task_1".parse().expect("a literal id"),
        trace: "trace_1".parse().expect("a literal id"),
    }
}

fn about(summary: &str) -> NewRecord {
    NewRecord {
        collection: "evidence".into(),
        kind: Kind::Evidence,
        media_type: "text/plain".into(),
        summary: summary.into(),
        source: "a test".into(),
    }
}

async fn workspace() -> (tempfile::TempDir, Store, Workspace) {
    let home = tempfile::tempdir().expect("a folder for the store");
    let store = Store::open(StoreSettings::new(home.path()), Ambient::system(), &[MIGRATIONS])
        .await
        .expect("a new store opens");
    let workspace = Workspace::new(store.clone(), Ambient::system());
    (home, store, workspace)
}

#[tokio::test]
async fn a_record_is_visible_once_its_transaction_is_done() {
    let (_home, store, workspace) = workspace().await;
    let owner = owner("a");
    let staged = workspace.stage(&owner, about("한국어 요약"), "내용".as_bytes()).await.unwrap();
    let id = staged.reference().id.clone();
    let before = workspace.read(&owner.scope, &id).await;
    assert!(matches!(before, Err(WorkspaceError::NoSuchRecord(_))));
    let row = staged.clone();
    store.write::<_, StoreError>(move |tx| row.commit(tx)).await.unwrap();
    let (record, content) = workspace.read(&owner.scope, &id).await.unwrap();
    assert_eq!((record.about.summary.as_str(), content.as_slice()), ("한국어 요약", "내용".as_bytes()));
    assert_eq!(record.size, 6);
}

#[tokio::test]
async fn another_tenant_finds_nothing_even_by_id() {
    let (_home, store, workspace) = workspace().await;
    let staged = workspace.stage(&owner("a"), about("secret"), b"secret").await.unwrap();
    let (id, row) = (staged.reference().id.clone(), staged.clone());
    store.write::<_, StoreError>(move |tx| row.commit(tx)).await.unwrap();
    let foreign = workspace.read(&owner("b").scope, &id).await;
    assert!(matches!(foreign, Err(WorkspaceError::NoSuchRecord(_))));
    let nobody = workspace.read(&owner("a").scope, &RecordId::from_body("none")).await;
    assert!(matches!(nobody, Err(WorkspaceError::NoSuchRecord(_))));
}

#[tokio::test]
async fn changed_content_is_noticed() {
    let (_home, store, workspace) = workspace().await;
    let owner = owner("a");
    let staged = workspace.stage(&owner, about("log"), b"what was seen").await.unwrap();
    let (reference, row) = (staged.reference().clone(), staged.clone());
    store.write::<_, StoreError>(move |tx| row.commit(tx)).await.unwrap();
    let file = store.blobs().path(&owner.scope, &reference.digest);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, b"what was sawn").unwrap();
    let read = workspace.read(&owner.scope, &reference.id).await;
    assert!(matches!(read, Err(WorkspaceError::Store(StoreError::BlobDamaged { .. }))), "{read:?}");
}

#[tokio::test]
async fn a_sweep_leaves_what_records_hold() {
    let (_home, store, workspace) = workspace().await;
    let owner = owner("a");
    let staged = workspace.stage(&owner, about("log"), b"what was seen").await.unwrap();
    let reference = staged.reference().clone();
    store.write::<_, StoreError>(move |tx| staged.commit(tx)).await.unwrap();
    let unused = store.blobs().put(&owner.scope, b"what nobody holds".to_vec()).await.unwrap();
    // As if both had been put long ago.
    for digest in [&reference.digest, &unused] {
        let file = std::fs::File::options().write(true).open(store.blobs().path(&owner.scope, digest));
        file.unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    store.sweep_blobs(Duration::from_secs(60)).await.unwrap();
    workspace.read(&owner.scope, &reference.id).await.unwrap();
    let gone = store.blobs().get(&owner.scope, &unused).await;
    assert!(matches!(gone, Err(StoreError::BlobMissing { .. })), "{gone:?}");
}

#[tokio::test]
async fn a_record_says_what_it_is_and_where_it_came_from() {
    let (_home, _store, workspace) = workspace().await;
    let unnamed = workspace.stage(&owner("a"), about("  "), b"x").await;
    assert!(matches!(unnamed, Err(WorkspaceError::Missing("summary"))));
    let unsourced = NewRecord { source: String::new(), ..about("x") };
    assert!(matches!(workspace.stage(&owner("a"), unsourced, b"x").await, Err(WorkspaceError::Missing("source"))));
}

#[tokio::test]
async fn a_link_is_stored_once() {
    let (_home, store, _workspace) = workspace().await;
    let scope = owner("a").scope;
    let writer = scope.clone();
    store
        .write::<_, StoreError>(move |tx| {
            link(tx, &writer, "rec_1", Relation::Verifies, "verdict_1")?;
            link(tx, &writer, "rec_1", Relation::Verifies, "verdict_1")
        })
        .await
        .unwrap();
    let links = store.read::<_, StoreError>(move |read| links_from(read, &scope, "rec_1")).await.unwrap();
    assert_eq!(links.len(), 1);
    assert_eq!((links[0].relation.as_str(), links[0].target.as_str()), ("verifies", "verdict_1"));
}
