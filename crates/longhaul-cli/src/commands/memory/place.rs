//! Which store's memory a command means, as whom, and whether the embedding model is needed for it.

use clap::Args;
use longhaul::{Memories, MemoriesPlace, TenantId, UserId, memory::Namespace};

use crate::args::Global;

/// Whose memory, and where it is kept.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Whose memory")]
pub(in crate::commands) struct PlaceFlags {
    /// The store: its folder, or postgres://USER:PASSWORD@HOST/DATABASE [default: the home's]
    #[arg(long, global = true, value_name = "DIR|URL", env = "LONGHAUL_STORE", hide_env_values = true)]
    store: Option<String>,
    /// Of which tenant; tenants never see each other's memories
    #[arg(long, global = true, value_name = "ID", default_value = "tenant_default")]
    tenant: TenantId,
    /// As which user: owns the namespaces it first writes to
    #[arg(long, global = true, value_name = "ID", default_value = "user_default")]
    user: UserId,
}

/// What a command needs of the embedding model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Model {
    /// Nothing; it is not loaded.
    Unused,
    /// Texts are embedded if it is installed.
    Wanted,
}

impl PlaceFlags {
    /// Opens the memory; a command that writes makes a store that is not there.
    pub(in crate::commands) async fn open(
        &self,
        global: &Global,
        model: Model,
        make: bool,
    ) -> anyhow::Result<Memories> {
        let settings = global.settings(None, &[])?;
        let place = MemoriesPlace {
            store: self.store.clone().filter(|store| !store.is_empty()),
            make,
            tenant: self.tenant.clone(),
            user: self.user.clone(),
        };
        Ok(Memories::open(&settings, place, model == Model::Wanted).await?)
    }
}

/// The namespace that a memory is written to.
#[derive(Debug, Clone, Args)]
pub(super) struct Into {
    /// The part of the tenant's memory to write to; it begins with the first memory in it
    #[arg(long, short, value_name = "NAME", default_value = "main")]
    pub(super) namespace: Namespace,
}
