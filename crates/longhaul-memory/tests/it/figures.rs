//! The figure this crate answers for, on a machine that may be busy with other tests; the bench takes it at full size.

use longhaul_memory::measure::{self, RecallSettings};

#[tokio::test]
async fn recall_over_two_thousand_memories_stays_within_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    let settings = RecallSettings { memories: 2_000, searches: 40, ..RecallSettings::default() };
    let measured = measure::recall(folder.path(), settings).await.unwrap();
    assert!(measured.fastest_us < 5_000, "{measured:?}");
}
