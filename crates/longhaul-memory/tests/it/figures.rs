//! The figure this crate answers for, with room for a machine that is busy with other tests.

use longhaul_memory::measure::{self, RecallSettings};

#[tokio::test]
async fn recall_over_two_thousand_memories_stays_within_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    let settings = RecallSettings { memories: 2_000, searches: 40, ..RecallSettings::default() };
    let measured = measure::recall(folder.path(), settings).await.unwrap();
    assert!(measured.p50_us < 10_000, "{measured:?}");
}
