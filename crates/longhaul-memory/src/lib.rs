//! Long-term memory: local embeddings and hybrid search over rows in the store.
