//! What goes into a column comes out of it.

use longhaul_store::{Migrations, StoreError, Value, values};

use super::{Ground, on};

on! { file, memory, postgres: every_value_comes_back_as_it_was, what_does_not_fit_its_column_is_a_contradiction,
parameters_stand_where_sql_allows_them, keys_are_handed_out_in_order }

const CELLS: Migrations = Migrations {
    component: "cells",
    steps: &["CREATE TABLE cells (id INTEGER PRIMARY KEY AUTOINCREMENT, i INTEGER, r REAL, t TEXT, b BLOB) STRICT"],
};

async fn every_value_comes_back_as_it_was(ground: Ground) {
    let store = ground.try_open(&[CELLS]).await.unwrap();
    let texts = ["", "a'b\"c", "会議 ?1 $1 \\", "\u{1f469}\u{200d}\u{1f680} e\u{301}", "{\"a\": \"\\u0000\"}"];
    let reals = [0.0, -0.0, 1.5, f64::MAX, f64::MIN_POSITIVE, 0.1, 3.0];
    let integers = [0, 1, -1, i64::MIN, i64::MAX, i64::from(i32::MAX) + 1, i64::from(u32::MAX)];
    let bytes: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0, 1, 255, 0], (0..=255).collect(), vec![7; 70_000]];
    let read = store
        .write(move |tx| {
            let insert = "INSERT INTO cells (i, r, t, b) VALUES (?1, ?2, ?3, ?4)";
            let mut expected = Vec::new();
            for n in 0..7 {
                let row = (integers[n], reals[n], texts.get(n).copied(), bytes.get(n).cloned());
                tx.execute(insert, &values![row.0, row.1, row.2, row.3.clone()])?;
                expected.push(row);
            }
            let found = tx.query("SELECT i, r, t, b FROM cells ORDER BY id", &[], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get::<Option<String>>(2)?, row.get(3)?))
            })?;
            for (expected, found) in expected.into_iter().zip(&found) {
                let found: (i64, f64, Option<&str>, Option<Vec<u8>>) =
                    (found.0, found.1, found.2.as_deref(), Option::clone(&found.3));
                assert_eq!(expected, found);
            }
            Ok::<_, StoreError>(found.len())
        })
        .await;
    assert_eq!(read.unwrap(), 7);
}

async fn what_does_not_fit_its_column_is_a_contradiction(ground: Ground) {
    let store = ground.try_open(&[CELLS]).await.unwrap();
    let wrong: [(&'static str, Value); 3] = [("i", "text".into()), ("i", vec![1_u8].into()), ("b", "text".into())];
    for (column, value) in wrong {
        let sql = format!("INSERT INTO cells ({column}) VALUES (?1)");
        let written = store.write(move |tx| tx.execute(&sql, &[value])).await;
        assert!(matches!(written, Err(StoreError::Constraint { .. })), "{column}: {written:?}");
    }
    // An integer is read as a number, and a number is not read as an integer.
    store.write(|tx| tx.execute("INSERT INTO cells (i, r) VALUES (7, 2)", &[])).await.unwrap();
    store
        .read(|read| {
            read.query_one("SELECT i, r, t FROM cells", &[], |row| {
                assert_eq!((row.get::<f64>(0)?, row.get::<f64>(1)?), (7.0, 2.0));
                assert!(matches!(row.get::<i64>(1), Err(StoreError::Column { column: 1, .. })));
                assert!(matches!(row.get::<String>(2), Err(StoreError::Column { column: 2, .. })));
                assert!(matches!(row.get::<i64>(3), Err(StoreError::Column { column: 3, .. })));
                Ok(())
            })
        })
        .await
        .unwrap();
}

async fn parameters_stand_where_sql_allows_them(ground: Ground) {
    let store = ground.try_open(&[CELLS]).await.unwrap();
    store
        .write(|tx| {
            for n in 1..=4_i64 {
                tx.execute("INSERT INTO cells (i, r, t) VALUES (?1, ?1, ?2)", &values![n, format!("t{n}")])?;
            }
            Ok::<_, StoreError>(())
        })
        .await
        .unwrap();
    let answers = store
        .read(|read| {
            let one = |sql: &str, params: &[Value]| read.query_one(sql, params, |row| row.get::<i64>(0));
            let big = i64::MAX - 5;
            let optional = "SELECT count(*) FROM cells WHERE ?1 IS NULL OR t = ?1";
            Ok::<_, StoreError>([
                one("SELECT ?1", &values![big])?,
                one("SELECT ?1 + 1", &values![big])?,
                one("SELECT sum(i) FROM cells", &[])?,
                one("SELECT count(*) FROM cells WHERE i > ?1 AND r < ?2", &values![1, 4])?,
                one(optional, &values![Value::Null])?,
                one(optional, &values!["t3"])?,
                one("SELECT i FROM cells ORDER BY i LIMIT ?1 OFFSET ?2", &values![1, 2])?,
                one("SELECT count(*) FROM cells WHERE t IN (?1, ?2) AND length(t) = ?3", &values!["t1", "t2", 2])?,
                one("SELECT CASE WHEN ?1 = 1 THEN i ELSE ?2 END FROM cells WHERE i = ?1", &values![1, 9])?,
                one("SELECT CAST('12' AS INTEGER) + coalesce(?1, 0)", &values![Value::Null])?,
                one("SELECT EXISTS (SELECT 1 FROM cells WHERE t = ?1)", &values!["t4"])?,
            ])
        })
        .await
        .unwrap();
    assert_eq!(answers, [i64::MAX - 5, i64::MAX - 4, 10, 2, 4, 1, 3, 2, 1, 12, 1]);
    let average = store.read(|read| read.query_one("SELECT avg(i) FROM cells", &[], |row| row.get::<f64>(0))).await;
    let average: Result<f64, StoreError> = average;
    assert_eq!(average.unwrap(), 2.5);
}

async fn keys_are_handed_out_in_order(ground: Ground) {
    let store = ground.try_open(&[CELLS]).await.unwrap();
    let insert = |fails: bool| {
        store.write(move |tx| {
            let key = tx.insert("INSERT INTO cells (t) VALUES (?1)", &values!["x"])?;
            if fails { Err(StoreError::NoRow { sql: "planned".into() }) } else { Ok(key) }
        })
    };
    let first = insert(false).await.unwrap();
    insert(true).await.unwrap_err();
    let second = insert(false).await.unwrap();
    assert!(first < second, "{first}, {second}");
}
