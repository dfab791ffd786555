//! What the first release kept is there after the upgrade.

use longhaul_core::{Ambient, Digest, RecordId, Scope};
use longhaul_memory::Memory;
use longhaul_store::{Migrations, Store, StoreError, tasks, values};
use longhaul_workspace::{Ingest, Kind, MIGRATIONS, Relation, Workspace};

use crate::ground::{ALL, new_store};

/// The tables of the first release, as it made them.
const FIRST: Migrations = Migrations { component: "workspace", steps: MIGRATIONS.steps.split_at(2).0 };

#[tokio::test]
async fn records_and_links_of_the_first_release_are_carried_over() {
    let folder = tempfile::tempdir().unwrap();
    let (settings, _database) = new_store(folder.path());
    let before = [longhaul_memory::MIGRATIONS, FIRST];
    let store = Store::open(settings.clone(), Ambient::system(), &before).await.unwrap();
    let scope = Scope::single_user();
    let digest = store.blobs().put(&scope, b"a diff".to_vec()).await.unwrap();
    let writer = scope.clone();
    let task = store
        .write(move |tx| {
            let new = tasks::NewTask {
                thread: "project".parse().expect("a literal thread id"),
                kind: "harness".into(),
                title: "an app".into(),
                dir: None,
                model: None,
                data: serde_json::json!({}),
            };
            let task = tasks::create(tx, &writer, None, new)?;
            for (id, of, at) in [
                ("rec_b", &task.scope.task, 2),
                ("rec_a", &task.scope.task, 1),
                ("rec_c", &"task_gone".parse().unwrap(), 3),
            ] {
                tx.execute(
                    "insert into records (tenant_id, record_id, task_id, collection, kind, media_type, summary, source,
                         digest, size, created_at, schema)
                     values (?1, ?2, ?3, 'unfinished', 'artifact', 'text/x-diff', 'a patch', 'harness', ?4, 6, ?5, 1)",
                    &values![&writer.tenant, id, of, &digest, at],
                )?;
            }
            tx.execute(
                "insert into links (tenant_id, source_id, relation, target_id, created_at)
                 values (?1, 'rec_a', 'verifies', 'rec_b', 5)",
                &values![&writer.tenant],
            )?;
            Ok::<_, StoreError>(task)
        })
        .await
        .unwrap();
    drop(store);

    let store = Store::open(settings, Ambient::system(), &ALL).await.unwrap();
    let workspace = Workspace::new(store.clone(), Memory::new(store.clone(), None));
    let handle = workspace.task(&task.scope);
    let (record, content) = handle.read(&RecordId::from_body("b")).await.unwrap();
    assert_eq!((content.as_slice(), record.seq, record.owner.trace), (&b"a diff"[..], 2, task.scope.trace.clone()));
    assert_eq!(record.reference.digest, Digest::of("a diff"));
    let orphan = handle.get(&RecordId::from_body("c")).await.unwrap();
    assert_eq!((orphan.owner.scope, orphan.seq), (scope.clone(), 1));
    let links = workspace.user(&scope).links("rec_a").await.unwrap();
    assert_eq!((links.len(), &links[0].relation, links[0].target.as_str()), (1, &Relation::Verifies, "rec_b"));
    assert_eq!((&links[0].user, &links[0].task), (&scope.user, &Some(task.scope.task.clone())));

    // The task goes on where it was.
    let next = Ingest::new(Kind::Note, "notes", "after the upgrade", "agent", "small");
    let next = handle.ingest(next).await.unwrap();
    assert_eq!(handle.get(&next).await.unwrap().seq, 3);
    // What old records hold is still referred to.
    assert!(store.verify(&[]).await.unwrap().findings.is_empty());
}
