//! The initializer, the coding sessions and the verifier that alone makes a feature pass.
