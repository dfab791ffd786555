//! What was written is found by the next query, in this process and in others, however it was changed.

use std::sync::Arc;

use longhaul_core::{MemoryId, Rng, SeededRng};
use longhaul_memory::{Edit, Memory, NewMemory, Query};

use crate::place::{Letters, Place, letters, note};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_is_found_by_the_next_query_of_any_process() {
    let place = Place::new(Some(Arc::new(Letters))).await;
    let others = [place.another(Some(Arc::new(Letters))).await, place.memory.clone()];
    let random = SeededRng::new(11);
    let mut there: Vec<(MemoryId, String)> = Vec::new();
    for n in 0..300 {
        let writer = &others[(random.next_u64() % 2) as usize];
        let text = format!("marker{n:04}x and some more words of it");
        match random.next_u64() % 4 {
            0 if !there.is_empty() => {
                let (id, _) = there.swap_remove((random.next_u64() as usize) % there.len());
                forget(&place, writer, &id).await;
                for memory in &others {
                    assert!(memory.get(&place.scope, &id).await.unwrap().is_none());
                    let all = memory.list(&place.scope, &Query { k: 200, ..Query::default() }, None).await.unwrap();
                    assert_eq!(all.items.len(), there.len().min(200));
                }
            }
            1 if !there.is_empty() => {
                let place_of = (random.next_u64() as usize) % there.len();
                let edit = Edit { content: Some(text.clone()), ..Edit::default() };
                assert!(writer.change(&place.scope, &there[place_of].0, edit).await.unwrap());
                let old = std::mem::replace(&mut there[place_of].1, text.clone());
                for memory in &others {
                    assert_eq!(found(&place, memory, &old).await, None);
                    assert_eq!(found(&place, memory, &text).await.as_ref(), Some(&there[place_of].0));
                }
            }
            _ => {
                let new = NewMemory { vector: Some(letters(&text)), ..note(&text) };
                let id = writer.add(&place.scope, new).await.unwrap();
                for memory in &others {
                    assert_eq!(found(&place, memory, &text).await.as_ref(), Some(&id));
                }
                there.push((id, text));
            }
        }
    }
    assert!(place.memory.drift().await.unwrap().is_empty());
}

/// The memory found by the text's first word.
async fn found(place: &Place, memory: &Memory, text: &str) -> Option<MemoryId> {
    let word = text.split(' ').next().unwrap_or_default();
    let recall = memory.search(&place.scope, &Query::new(word, 3)).await.unwrap();
    recall.hits.into_iter().find(|hit| hit.explain.words.share > 0.0).map(|hit| hit.item.id)
}

async fn forget(place: &Place, memory: &Memory, id: &MemoryId) {
    let (handle, scope, id) = (memory.clone(), place.scope.clone(), id.clone());
    assert!(place.store.write(move |tx| handle.forget(tx, &scope, &id)).await.unwrap());
}
