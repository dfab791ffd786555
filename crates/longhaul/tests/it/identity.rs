//! Every row says whose it is, first of all: read from the schema of both databases, as all components make it.

use longhaul::{
    Ambient,
    store::{ReadTx, Store, StoreError, StoreSettings},
};
use longhaul_testbed::PrivateCluster;

/// Tables whose rows are nobody's, or are found otherwise, and why.
const EXCEPTIONS: [(&str, &str); 6] = [
    ("blob_references", "queries of components, the same in every store"),
    ("erase_queries", "queries of components, the same in every store"),
    ("events", "numbered across tenants, so that one number says where a reader is; its indexes begin with the tenant"),
    ("link_ends", "queries of components, the same in every store"),
    ("schema_versions", "versions of components"),
    ("store_writers", "connections of processes, which work for all tenants"),
];

/// A table, its first column, and the first column of its primary key.
type Shape = (String, Option<String>, Option<String>);

async fn open(settings: StoreSettings) -> Store {
    let sets = [
        longhaul::durable::MIGRATIONS,
        longhaul::memory::MIGRATIONS,
        longhaul::knowledge::MIGRATIONS,
        longhaul::workspace::MIGRATIONS,
        longhaul_harness::MIGRATIONS,
        longhaul_server::MIGRATIONS,
    ];
    Store::open(settings, Ambient::system(), &sets).await.unwrap()
}

fn of_sqlite(read: &ReadTx<'_>) -> Result<Vec<Shape>, StoreError> {
    read.query(
        "SELECT t.name, (SELECT name FROM pragma_table_info(t.name) WHERE cid = 0),
             (SELECT name FROM pragma_table_info(t.name) WHERE pk = 1)
         FROM sqlite_schema t WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name",
        &[],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )
}

fn of_postgres(read: &ReadTx<'_>) -> Result<Vec<Shape>, StoreError> {
    read.query(
        "SELECT CAST(c.relname AS TEXT),
             (SELECT CAST(a.attname AS TEXT) FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum LIMIT 1),
             (SELECT CAST(a.attname AS TEXT) FROM pg_index i JOIN pg_attribute a
                  ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
              WHERE i.indrelid = c.oid AND i.indisprimary)
         FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = CAST('public' AS regnamespace) ORDER BY 1",
        &[],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )
}

fn check(shapes: &[Shape]) {
    assert!(shapes.len() > 40, "{shapes:?}");
    let wrong: Vec<String> = shapes
        .iter()
        .filter(|(table, first, key)| {
            let is_exception = EXCEPTIONS.iter().any(|(known, _)| known == table);
            let is_keyed = [first, key].iter().all(|column| column.as_deref() == Some("tenant_id"));
            is_keyed == is_exception
        })
        .map(|(table, first, key)| format!("{table} begins with {first:?} and is keyed by {key:?}"))
        .collect();
    assert!(
        wrong.is_empty(),
        "rows belong to a tenant first, or the table is named among the exceptions with the reason: {wrong:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_is_keyed_by_its_tenant() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(StoreSettings::new(dir.path())).await;
    check(&store.read(of_sqlite).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_is_keyed_by_its_tenant_on_postgres() {
    let dir = tempfile::tempdir().unwrap();
    let database = PrivateCluster::shared().unwrap().create_database().unwrap();
    let store = open(StoreSettings::from_url(&database.url(), dir.path()).unwrap()).await;
    check(&store.read(of_postgres).await.unwrap());
}
