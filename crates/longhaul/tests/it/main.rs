//! The examples, as a person runs them: real processes, killed on the way, and what they leave in the store.

#[cfg(test)]
mod document_review;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod research;
