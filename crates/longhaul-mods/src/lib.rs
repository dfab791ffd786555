//! What comes with a network: messaging, forum, wiki, social graph, caches, feed, shared memory, and agents.
