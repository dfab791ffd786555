//! Records with content, and the typed links between them.
