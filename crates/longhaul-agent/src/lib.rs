//! The one model and tool loop, each turn a recorded step.
