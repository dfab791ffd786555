//! The tables of the gateway. Each holds the tenant first (invariant 7); a released step is only ever followed by
//! another.

use longhaul_store::Migrations;

use crate::hooks;

/// The migrations of this crate; give them to [`longhaul_store::Store::open`].
pub const MIGRATIONS: Migrations =
    Migrations { component: "server", steps: &[KEYS, CHANGES, hooks::schema::TABLES, ERASING] };

/// Keys: their digest is all there is of their secret. The prefix is how a key that comes in is found, and how people
/// name it; it is unique over all tenants, as it is what tells the tenant.
const KEYS: &str = "
CREATE TABLE api_keys (
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    user_id TEXT NOT NULL,
    role TEXT NOT NULL,
    prefix TEXT NOT NULL,
    digest BLOB NOT NULL,
    label TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    PRIMARY KEY (tenant_id, key_id)
) STRICT;
CREATE UNIQUE INDEX api_keys_by_prefix ON api_keys (prefix);
";

/// What was changed through the gateway, and what was answered to requests that may be repeated.
const CHANGES: &str = "
CREATE TABLE audit (
    tenant_id TEXT NOT NULL,
    audit_id TEXT NOT NULL,
    v INTEGER NOT NULL,
    at INTEGER NOT NULL,
    user_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    role TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (tenant_id, audit_id)
) STRICT;
CREATE INDEX audit_by_target ON audit (tenant_id, target, audit_id);
CREATE TABLE idempotency (
    tenant_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    request_key TEXT NOT NULL,
    v INTEGER NOT NULL,
    request_digest BLOB NOT NULL,
    status INTEGER NOT NULL,
    answer TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, user_id, request_key)
) STRICT;
CREATE INDEX idempotency_by_age ON idempotency (created_at);
";

/// How rows go when a user, a task or a session is erased; see the store's `erasing`. Who changed what stays in the audit
/// log, which holds no content.
const ERASING: &str = "
INSERT INTO erase_queries (component, subject, statement) VALUES
    ('server', 'user', 'DELETE FROM idempotency WHERE tenant_id = ?1 AND user_id = ?2'),
    ('server', 'task', 'DELETE FROM idempotency WHERE tenant_id = ?1 AND answer LIKE ''%'' || ?2 || ''%'''),
    ('server', 'session', 'DELETE FROM idempotency WHERE tenant_id = ?1 AND answer LIKE ''%'' || ?2 || ''%'''),
    ('server', 'user', 'DELETE FROM webhook_deliveries WHERE tenant_id = ?1 AND user_id = ?2'),
    ('server', 'task', 'DELETE FROM webhook_deliveries WHERE tenant_id = ?1 AND task_id = ?2'),
    ('server', 'session', 'DELETE FROM webhook_deliveries WHERE tenant_id = ?1 AND session_id = ?2'),
    ('server', 'user', 'DELETE FROM webhook_subscriptions WHERE tenant_id = ?1 AND user_id = ?2'),
    ('server', 'user', 'DELETE FROM webhook_endpoints WHERE tenant_id = ?1 AND user_id = ?2');
";
