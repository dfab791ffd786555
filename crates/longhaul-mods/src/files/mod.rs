//! Files that agents share.
