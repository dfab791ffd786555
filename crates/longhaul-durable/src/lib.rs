//! Durable execution: state graphs, recorded steps, checkpoints, the effect ledger.
