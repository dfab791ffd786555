//! Bringing tables up to date, and leaving alone what is newer.

use longhaul_store::{Migrations, StoreError};

use super::{Ground, on};
use crate::support::{NOTES, notes};

on! { file, postgres: steps_are_applied_once_in_order_and_a_failing_one_changes_nothing, a_newer_store_is_refused_and_left_as_it_is,
many_first_openings_at_once_agree }

async fn steps_are_applied_once_in_order_and_a_failing_one_changes_nothing(ground: Ground) {
    const GOOD: &[&str] = &["CREATE TABLE a (x INTEGER) STRICT", "INSERT INTO a VALUES (1)"];
    const BAD: &[&str] = &[GOOD[0], GOOD[1], "INSERT INTO a VALUES (2); INSERT INTO nowhere VALUES (3)"];
    let count = "SELECT count(*) FROM a";
    for _ in 0..2 {
        let store = ground.try_open(&[Migrations { component: "a", steps: GOOD }]).await.unwrap();
        assert_eq!(store.read(|read| read.query_one(count, &[], |row| row.get::<i64>(0))).await.unwrap(), 1);
    }
    let error = ground.try_open(&[Migrations { component: "a", steps: BAD }]).await.unwrap_err();
    assert!(matches!(error, StoreError::Migration { component: "a", version: 3, .. }), "{error:?}");
    let store = ground.try_open(&[]).await.unwrap();
    assert_eq!(store.read(|read| read.query_one(count, &[], |row| row.get::<i64>(0))).await.unwrap(), 1);
}

async fn a_newer_store_is_refused_and_left_as_it_is(ground: Ground) {
    const OTHER: Migrations = Migrations { component: "other", steps: &["CREATE TABLE other (x INTEGER) STRICT"] };
    let store = ground.open().await;
    store
        .write(|tx| tx.execute("UPDATE schema_versions SET version = 7 WHERE component = 'notes'", &[]))
        .await
        .unwrap();
    let error = ground.try_open(&[OTHER, NOTES]).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Newer { component, found: 7, known: 1, .. } if component == "notes"),
        "{error:?}"
    );
    assert!(error.to_string().contains("update longhaul"), "{error}");
    assert_eq!(notes(&store).await, [0_i64; 0]);
    let other = store.read(|read| read.query("SELECT x FROM other", &[], |_| Ok(()))).await;
    assert!(matches!(other, Err(StoreError::Sql { .. })), "{other:?}");
}

async fn many_first_openings_at_once_agree(ground: Ground) {
    let (a, b, c, d) = tokio::join!(ground.open(), ground.open(), ground.open(), ground.open());
    for (n, store) in (1..).zip([&a, &b, &c, &d]) {
        let insert = format!("INSERT INTO notes VALUES ('a', {n}, 'x')");
        store.write(move |tx| tx.execute(&insert, &[])).await.unwrap();
    }
    assert_eq!(notes(&a).await, [1, 2, 3, 4]);
}
