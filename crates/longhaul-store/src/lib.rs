//! The state store: one transaction type, migrations, leases, events, blobs.
