//! Content by digest: what comes back is what was put, or an error.

use longhaul_core::{Ambient, Digest, Scope};
use longhaul_store::{Store, StoreError, StoreSettings};
use tokio::io::AsyncReadExt;

use super::{Ground, on};
use crate::support::{Broken, noise, text};

on! {
    file, memory, postgres, bucket, postgres_and_bucket:
    a_blob_comes_back_and_only_to_its_tenant, a_blob_above_the_limit_is_refused, a_large_blob_comes_back,
    a_stream_of_any_length_comes_back, a_stream_that_breaks_leaves_nothing, a_file_is_made_of_any_blob,
    what_is_put_again_is_kept_once
}

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

/// Around the size of a piece and of several, of what gains by compression and of what does not.
async fn a_stream_of_any_length_comes_back(ground: Ground) {
    let store = ground.open().await;
    let scope = Scope::single_user();
    let other = Scope { tenant: "tenant_other".parse().unwrap(), ..scope.clone() };
    let piece = 256 * 1024;
    for bytes in [0, 1, piece - 1, piece, piece + 1, 5 * piece, 9 * piece + 7] {
        for content in [text(bytes), noise(bytes)] {
            let digest = Digest::of(&content);
            let put = store.blobs().put_stream(&scope, content.as_slice()).await.unwrap();
            assert_eq!(put, (digest, bytes as u64));
            assert!(store.blobs().get(&scope, &digest).await.unwrap() == content);
            let (mut found, mut reader) = (Vec::new(), store.blobs().open(&scope, &digest).await.unwrap());
            reader.read_to_end(&mut found).await.unwrap();
            assert!(found == content, "{bytes} bytes");
            assert_eq!(reader.next().await.unwrap(), None, "the end is told again");
            let foreign = store.blobs().open(&other, &digest).await;
            assert!(matches!(foreign, Err(StoreError::BlobMissing { .. })), "{foreign:?}");
        }
    }
    let report = store.verify(&[]).await.unwrap();
    assert!(report.findings.is_empty() && report.blobs == 13, "{report}");
}

async fn a_stream_that_breaks_leaves_nothing(ground: Ground) {
    let settings = StoreSettings { blob_bytes_max: 3_000_000, ..ground.settings() };
    let store = Store::open(settings, Ambient::system(), &[crate::support::NOTES]).await.unwrap();
    let (scope, content) = (Scope::single_user(), noise(3_000_001));
    let broken = store.blobs().put_stream(&scope, Broken(&content[..2_900_000])).await.unwrap_err();
    assert!(matches!(broken, StoreError::BlobInterrupted { .. }), "{broken:?}");
    let large = store.blobs().put_stream(&scope, content.as_slice()).await.unwrap_err();
    assert!(matches!(large, StoreError::BlobTooLarge { bytes: 3_000_001, bytes_max: 3_000_000 }), "{large:?}");
    let report = store.verify(&[]).await.unwrap();
    assert!(report.findings.is_empty() && report.blobs == 0, "{report}");
    // Neither half a file nor half an upload is left.
    let swept = store.sweep_blobs(std::time::Duration::ZERO).await.unwrap();
    assert_eq!(swept, longhaul_store::Swept::default());
    store.blobs().put_stream(&scope, &content[1..]).await.unwrap();
}

async fn a_file_is_made_of_any_blob(ground: Ground) {
    let (store, scope, dir) = (ground.open().await, Scope::single_user(), tempfile::tempdir().unwrap());
    let to = dir.path().join("report.txt");
    std::fs::write(&to, "an older one").unwrap();
    let content = text(1_500_000);
    let (digest, _) = store.blobs().put_stream(&scope, content.as_slice()).await.unwrap();
    store.blobs().save(&scope, &digest, &to).await.unwrap();
    assert!(std::fs::read(&to).unwrap() == content);
    let missing = store.blobs().save(&scope, &Digest::of("nothing"), &to).await;
    assert!(matches!(missing, Err(StoreError::BlobMissing { .. })), "{missing:?}");
    assert!(store.blobs().save(&scope, &digest, &dir.path().join("no/such/folder")).await.is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing half written is left");
}

async fn what_is_put_again_is_kept_once(ground: Ground) {
    let (store, scope) = (ground.open().await, Scope::single_user());
    for content in [text(2_000_000), noise(2_000_000)] {
        let digest = Digest::of(&content);
        for _ in 0..2 {
            assert_eq!(store.blobs().put_stream(&scope, content.as_slice()).await.unwrap().0, digest);
            assert_eq!(store.blobs().put(&scope, content.clone()).await.unwrap(), digest);
        }
        assert!(store.blobs().get(&scope, &digest).await.unwrap() == content);
    }
    assert_eq!(store.verify(&[]).await.unwrap().blobs, 2);
}
