//! Tools an agent may use: the registry, policy, files, the sandboxed shell and the browser.
