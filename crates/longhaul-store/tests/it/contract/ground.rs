//! The ground that a test of the contract stands on: a place that can be opened, and opened again.

use longhaul_core::Ambient;
use longhaul_store::{Faults, Migrations, Store, StoreError, StoreSettings};
use longhaul_testbed::{Database, PrivateCluster, S3Server};
use tempfile::TempDir;

use crate::{
    s3_server::{place, start},
    support::NOTES,
};

pub(crate) struct Ground {
    dir: TempDir,
    kind: Kind,
}

enum Kind {
    File,
    Memory,
    Postgres(Database<'static>),
    Bucket(S3Server),
    PostgresAndBucket(Database<'static>, S3Server),
}

impl Ground {
    pub(crate) fn file() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), kind: Kind::File }
    }

    pub(crate) fn memory() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), kind: Kind::Memory }
    }

    pub(crate) fn postgres() -> Self {
        let database = PrivateCluster::shared().unwrap().create_database().unwrap();
        Self { dir: tempfile::tempdir().unwrap(), kind: Kind::Postgres(database) }
    }

    /// Rows in a file, blobs in a bucket.
    pub(crate) fn bucket() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), kind: Kind::Bucket(start()) }
    }

    pub(crate) fn postgres_and_bucket() -> Self {
        let database = PrivateCluster::shared().unwrap().create_database().unwrap();
        Self { dir: tempfile::tempdir().unwrap(), kind: Kind::PostgresAndBucket(database, start()) }
    }

    pub(crate) fn settings(&self) -> StoreSettings {
        self.settings_on("here")
    }

    /// As another machine would open it: only PostgreSQL can tell.
    pub(crate) fn settings_on(&self, host: &str) -> StoreSettings {
        match &self.kind {
            Kind::File => StoreSettings::new(self.dir.path().join("home")),
            Kind::Memory => StoreSettings::in_memory(),
            Kind::Postgres(database) => StoreSettings::from_url(&database.url(), self.dir.path().join(host)).unwrap(),
            Kind::Bucket(server) => {
                let bucket = Some(Box::new(place(server.address())));
                StoreSettings { bucket, ..StoreSettings::new(self.dir.path().join("home")) }
            }
            Kind::PostgresAndBucket(database, server) => {
                let settings = StoreSettings::from_url(&database.url(), self.dir.path().join(host)).unwrap();
                StoreSettings { bucket: Some(Box::new(place(server.address()))), ..settings }
            }
        }
    }

    pub(crate) async fn open(&self) -> Store {
        self.try_open(&[NOTES]).await.unwrap()
    }

    pub(crate) async fn open_on(&self, host: &str) -> Store {
        Store::open(self.settings_on(host), Ambient::system(), &[NOTES]).await.unwrap()
    }

    pub(crate) async fn try_open(&self, migrations: &[Migrations]) -> Result<Store, StoreError> {
        Store::open(self.settings(), Ambient::system(), migrations).await
    }

    pub(crate) async fn open_with_faults(&self) -> (Store, Faults) {
        let faults = Faults::new();
        let store = Store::open_with_faults(self.settings(), Ambient::system(), &[NOTES], faults.clone()).await;
        (store.unwrap(), faults)
    }

    /// The database of a ground made by [`Self::postgres`].
    pub(crate) fn database(&self) -> &Database<'static> {
        match &self.kind {
            Kind::Postgres(database) | Kind::PostgresAndBucket(database, _) => database,
            Kind::File | Kind::Memory | Kind::Bucket(_) => panic!("this ground is no PostgreSQL"),
        }
    }
}
