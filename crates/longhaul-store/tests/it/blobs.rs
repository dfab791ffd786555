//! Content-addressed files: what comes back is what was put, or an error.

use std::os::unix::fs::PermissionsExt;

use longhaul_core::{Ambient, Digest, Scope};
use longhaul_store::{Store, StoreError, StoreSettings};

use crate::support::open;

#[tokio::test]
async fn a_blob_comes_back_verified_and_only_to_its_tenant() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let scope = Scope::single_user();
    let other = Scope { tenant: "tenant_other".parse().unwrap(), ..scope.clone() };
    let digest = store.blobs().put(&scope, "会議の記録").await.unwrap();
    assert_eq!(digest, Digest::of("会議の記録"));
    assert_eq!(store.blobs().put(&scope, "会議の記録").await.unwrap(), digest);
    assert_eq!(store.blobs().get(&scope, &digest).await.unwrap(), "会議の記録".as_bytes());
    assert!(matches!(store.blobs().get(&other, &digest).await, Err(StoreError::BlobMissing { .. })));

    let path = store.blobs().path(&scope, &digest);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&path, "something else").unwrap();
    assert!(matches!(store.blobs().get(&scope, &digest).await, Err(StoreError::BlobDamaged { .. })));
    // Putting it again mends it, for the length differs.
    store.blobs().put(&scope, "会議の記録").await.unwrap();
    assert_eq!(store.blobs().get(&scope, &digest).await.unwrap(), "会議の記録".as_bytes());
}

#[tokio::test]
async fn a_blob_above_the_limit_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let settings = StoreSettings { blob_bytes_max: 4, ..StoreSettings::new(dir.path()) };
    let store = Store::open(settings, Ambient::system(), &[]).await.unwrap();
    let error = store.blobs().put(&Scope::single_user(), "12345").await.unwrap_err();
    assert_eq!(error.to_string(), "a blob of 5 bytes was refused, at most 4 are allowed");
    assert_eq!(std::fs::read_dir(dir.path().join("blobs")).unwrap().count(), 0);
}
