//! Ranking by words: BM25 of each memory, and of each memory together with its neighbours in its thread.
//!
//! Pure: postings, dates and threads come in as plain data; where they are stored is `keyword`'s and `columns`' business.
//! The second index that a window over a conversation seems to need does not exist: how often a word occurs in a window
//! is the sum of how often it occurs in its memories, so the plain postings give both.
//! Invariant: a memory that the filter did not let through gets no score and lends its words to no other.

mod dates;
mod score;
#[cfg(test)]
mod tests;
mod threads;

pub(crate) use dates::{DatePart, dates};
pub(crate) use score::{Corpus, Posting, Scores, Term, score};
pub(crate) use threads::{Reach, Threads, Walker};
