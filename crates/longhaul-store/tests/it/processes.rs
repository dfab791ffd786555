//! Several processes on one file.

use std::process::{Child, Command, Stdio};

use longhaul_store::{StoreError, values};

use crate::support::{notes, open, scratch};

const DIR: &str = "LONGHAUL_TEST_HAMMER_DIR";
const FIRST: &str = "LONGHAUL_TEST_HAMMER_FIRST";
const WRITES: i64 = 10_000;

fn hammer(dir: &std::path::Path, first: i64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::hammering_process", "--nocapture"])
        .env(DIR, dir)
        .env(FIRST, first.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn two_processes_write_ten_thousand_times_each_and_neither_is_told_that_it_is_locked() {
    let dir = scratch();
    let store = open(dir.path()).await;
    let (mut one, mut other) = (hammer(dir.path(), 0), hammer(dir.path(), WRITES));
    assert!(one.wait().unwrap().success());
    assert!(other.wait().unwrap().success());
    assert_eq!(notes(&store).await, (0..2 * WRITES).collect::<Vec<_>>());
}

/// Not a test by itself: one of the two processes above. Some writes are alone, some in groups.
#[tokio::test]
async fn hammering_process() {
    let (Some(dir), Ok(first)) = (std::env::var_os(DIR), std::env::var(FIRST)) else { return };
    let first: i64 = first.parse().unwrap();
    let store = open(dir.as_ref()).await;
    let write = |n: i64| {
        let store = store.clone();
        async move {
            store
                .write(move |tx| {
                    // As a reader that becomes a writer would: what it read must still hold.
                    tx.query_optional("SELECT n FROM notes WHERE n = ?1", &values![n], |_| Ok(()))?;
                    tx.execute("INSERT INTO notes VALUES ('a', ?1, 'x')", &values![n]).map(drop)
                })
                .await
                .map_err(|error: StoreError| error)
        }
    };
    for n in 0..WRITES / 2 {
        write(first + n).await.unwrap();
    }
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let writes: Vec<_> = (WRITES / 2..WRITES).filter(|n| n % 8 == writer).map(|n| write(first + n)).collect();
            tokio::spawn(async move {
                for write in writes {
                    write.await?;
                }
                Ok::<_, StoreError>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
}
