//! Records: visible with their content or not at all, once, verified, and only to those who may see them.

use longhaul_core::RecordId;
use longhaul_workspace::{Ingest, Kind, WorkspaceError};

use crate::ground::{Ground, note, owner, scope};

#[tokio::test]
async fn a_record_is_visible_once_its_transaction_is_done() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let staged = task.stage(Ingest::new(Kind::Note, "notes", "한국어 요약", "agent", "내용")).await.unwrap();
    let reference = staged.reference().clone();
    assert!(matches!(task.read(&reference).await, Err(WorkspaceError::NoSuchRecord(_))));
    ground.store.write(move |tx| staged.commit(tx)).await.unwrap();
    let (record, content) = task.read(&reference).await.unwrap();
    assert_eq!((record.summary.as_str(), content.as_slice()), ("한국어 요약", "내용".as_bytes()));
    assert_eq!((record.size, record.seq, record.version), (6, 1, 1));
}

#[tokio::test]
async fn others_find_nothing_even_by_id() {
    let ground = Ground::new().await;
    let kept = ground.task("1").ingest(note("secret")).await.unwrap();
    for (tenant, user) in [("other", "a"), ("t", "b")] {
        let foreign = ground.workspace.user(&scope(tenant, user));
        assert!(matches!(foreign.read(&kept).await, Err(WorkspaceError::NoSuchRecord(_))));
        assert!(matches!(foreign.get(&kept.id).await, Err(WorkspaceError::NoSuchRecord(_))));
    }
    let nobody = ground.workspace.task(&owner("t", "a", "1")).get(&RecordId::from_body("none")).await;
    assert!(matches!(nobody, Err(WorkspaceError::NoSuchRecord(_))));
}
