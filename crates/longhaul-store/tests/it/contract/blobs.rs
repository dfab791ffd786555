//! Content by digest: what comes back is what was put, or an error.

use longhaul_core::{Ambient, Digest, Scope};
use longhaul_store::{Store, StoreError, StoreSettings};

use super::{Ground, on};

on! { file, memory, postgres: a_blob_comes_back_and_only_to_its_tenant, a_blob_above_the_limit_is_refused, a_large_blob_comes_back }

async fn a_blob_comes_back_and_only_to_its_tenant(ground: Ground) {
    let store = ground.open().await;
    let scope = Scope::single_user();
    let other = Scope { tenant: "tenant_other".parse().unwrap(), ..scope.clone() };
    let digest = store.blobs().put(&scope, "会議の記録").await.unwrap();
    assert_eq!(digest, Digest::of("会議の記録"));
    assert_eq!(store.blobs().put(&scope, "会議の記録").await.unwrap(), digest);
    assert_eq!(store.blobs().get(&scope, &digest).await.unwrap(), "会議の記録".as_bytes());
    assert!(matches!(store.blobs().get(&other, &digest).await, Err(StoreError::BlobMissing { .. })));
    let empty = store.blobs().put(&other, "").await.unwrap();
    assert_eq!(store.blobs().get(&other, &empty).await.unwrap(), b"");
    let blobs = store.blobs().clone();
    drop(store);
    // On PostgreSQL the rows are out of reach without their store; elsewhere nothing stands in the way.
    let later = blobs.get(&scope, &digest).await;
    assert!(matches!(&later, Ok(_) | Err(StoreError::Closed { .. })), "{later:?}");
}

async fn a_blob_above_the_limit_is_refused(ground: Ground) {
    let settings = StoreSettings { blob_bytes_max: 4, ..ground.settings() };
    let store = Store::open(settings, Ambient::system(), &[]).await.unwrap();
    let error = store.blobs().put(&Scope::single_user(), "12345").await.unwrap_err();
    assert_eq!(error.to_string(), "a blob of 5 bytes was refused, at most 4 are allowed");
    let digest = Digest::of("12345");
    assert!(matches!(store.blobs().get(&Scope::single_user(), &digest).await, Err(StoreError::BlobMissing { .. })));
}

async fn a_large_blob_comes_back(ground: Ground) {
    let store = ground.open().await;
    let content: Vec<u8> = (0..8 << 20_u32).map(|n: u32| (n % 251) as u8).collect();
    let digest = store.blobs().put(&Scope::single_user(), content.clone()).await.unwrap();
    assert!(store.blobs().get(&Scope::single_user(), &digest).await.unwrap() == content);
}
