//! Whether what was kept can be trusted: one byte that changes is noticed by whoever reads, and a link to nothing is
//! refused.

use std::{fs, path::Path};

use longhaul_core::{Rng, SeededRng};
use longhaul_store::{StoreError, values};
use longhaul_workspace::{Ingest, Kind, NewLink, Relation, WorkspaceError};

use crate::{
    ground::{Ground, on_both, scope},
    story::Program,
};

on_both!(a_flipped_byte_is_noticed_and_a_dangling_link_refused);

/// Content that does not get smaller.
fn noise(bytes: usize) -> Vec<u8> {
    let rng = SeededRng::new(7);
    let mut noise: Vec<u8> = (0..bytes / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    noise.truncate(bytes);
    noise
}

/// The largest file of the blobs below this folder.
fn blob(folder: &Path) -> Option<std::path::PathBuf> {
    let mut found: Vec<(u64, std::path::PathBuf)> = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((entry.metadata().ok()?.len(), path));
            }
        }
    }
    found.into_iter().max().map(|(_, path)| path)
}

fn flip(bytes: &mut [u8]) {
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
}

async fn a_flipped_byte_is_noticed_and_a_dangling_link_refused(ground: Ground) {
    let program = Program::of(&ground, &scope()).await;
    let small = Ingest::new(Kind::Evidence, "evidence", "a small one", "tool:shell", noise(2_000));
    let large = Ingest::new(Kind::Evidence, "evidence", "a large one", "tool:shell", noise(200_000));
    let (small, large) = (program.task.ingest(small).await.unwrap(), program.task.ingest(large).await.unwrap());
    assert_eq!(program.task.read(&large).await.unwrap().1, noise(200_000));

    let store = ground.store().await;
    let (digest, mut bytes) = (small.digest, noise(2_000));
    flip(&mut bytes);
    let changed = store.write(move |tx| {
        tx.execute("UPDATE contents SET data = ?1, encoding = 'raw' WHERE digest = ?2", &values![&bytes[..], &digest])
    });
    assert_eq!(changed.await.map_err(|error: StoreError| error).unwrap(), 1);
    let [dir, url] = ground.address();
    if url.is_empty() {
        let path = blob(&Path::new(&dir).join("blobs")).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        flip(&mut bytes);
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    } else {
        for sql in [
            "UPDATE blobs SET content = set_byte(content, 1000, get_byte(content, 1000) # 1) WHERE length(content) > 1000",
            "UPDATE blob_chunks SET data = set_byte(data, 1000, get_byte(data, 1000) # 1) WHERE length(data) > 1000",
        ] {
            let written = store.write(move |tx| tx.execute(sql, &[]).map(drop));
            written.await.map_err(|error: StoreError| error).unwrap();
        }
    }
    for record in [&small, &large] {
        let read = program.task.read(record).await;
        assert!(matches!(&read, Err(WorkspaceError::DigestMismatch { .. })), "{read:?}");
        let operator = ground.operator().await;
        let out = Path::new(&dir).join("out.bin");
        assert!(operator.show(record.id.as_str(), Some(&out)).await.is_err());
        assert!(!out.exists(), "what cannot be trusted was saved");
    }
    for (source, target) in [(small.id.as_str(), "rec_nothing"), ("exec_nothing", small.id.as_str())] {
        let refused = program.task.link(NewLink::new(source, Relation::Supports, target)).await;
        assert!(matches!(&refused, Err(WorkspaceError::NoSuchEnd { .. })), "{refused:?}");
    }
}
