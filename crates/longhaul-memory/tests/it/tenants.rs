//! Tenants, users and namespaces at random: nobody ever sees or changes what is not theirs.
//!
//! `LONGHAUL_FUZZ_QUERIES` sets how many queries and changes are tried; 100,000 is what a release is tried with.

use std::{collections::BTreeMap, sync::Arc};

use longhaul_core::{MemoryId, Rng, Scope, SeededRng, TenantId, UserId};
use longhaul_memory::{Edit, Grantee, MemoryError, Namespace, NewMemory, Query};

use crate::place::{Letters, Place, letters, note};

const TENANTS: usize = 4;
const USERS: usize = 3;
const NAMESPACES: [&str; 3] = ["main", "team", "crew:1"];

/// What should be so.
#[derive(Default)]
struct Model {
    owner: BTreeMap<(usize, usize), usize>,
    /// By tenant, namespace and user: may write.
    grants: BTreeMap<(usize, usize, usize), bool>,
    /// Tenant and namespace of each memory, with its text.
    memories: BTreeMap<MemoryId, (usize, usize, String)>,
}

impl Model {
    fn may(&self, tenant: usize, namespace: usize, user: usize, writes: bool) -> bool {
        let Some(owner) = self.owner.get(&(tenant, namespace)) else { return true };
        *owner == user || self.grants.get(&(tenant, namespace, user)).is_some_and(|may_write| *may_write || !writes)
    }
}

fn scope(tenant: usize, user: usize) -> Scope {
    // The same user's name in every tenant, on purpose.
    Scope { tenant: TenantId::from_body(&format!("t{tenant}")), user: UserId::from_body(&format!("u{user}")) }
}

fn name(namespace: usize) -> Namespace {
    NAMESPACES[namespace].parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_ever_sees_or_changes_what_is_not_theirs() {
    let place = Place::new(Some(Arc::new(Letters))).await;
    let rounds = std::env::var("LONGHAUL_FUZZ_QUERIES").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
    let seed = std::env::var("LONGHAUL_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let random = SeededRng::new(seed);
    let below = |bound: usize| (random.next_u64() % bound as u64) as usize;
    let mut model = Model::default();
    for round in 0..rounds {
        let (tenant, user, namespace) = (below(TENANTS), below(USERS), below(NAMESPACES.len()));
        let who = scope(tenant, user);
        match below(10) {
            0 | 1 => {
                let text = format!("secret of t{tenant} n{namespace} number{round}");
                let memory = NewMemory { namespace: name(namespace), vector: Some(letters(&text)), ..note(&text) };
                match place.memory.add(&who, memory).await {
                    Ok(id) => {
                        assert!(model.may(tenant, namespace, user, true), "round {round}");
                        model.owner.entry((tenant, namespace)).or_insert(user);
                        model.memories.insert(id, (tenant, namespace, text));
                    }
                    Err(MemoryError::NoAccess { .. }) => assert!(!model.may(tenant, namespace, user, true)),
                    Err(error) => panic!("round {round}: {error}"),
                }
            }
            2 => {
                let other = below(USERS);
                let grantee = Grantee::User(scope(tenant, other).user);
                let is_owner = model.owner.get(&(tenant, namespace)) == Some(&user);
                let may_write = below(2) == 0;
                if below(2) == 0 {
                    let granted = place.memory.grant(&who, &name(namespace), &grantee, may_write).await;
                    assert_eq!(granted.is_ok(), is_owner, "round {round}");
                    if is_owner {
                        model.grants.insert((tenant, namespace, other), may_write);
                    }
                } else {
                    let revoked = place.memory.revoke(&who, &name(namespace), &grantee).await;
                    assert_eq!(revoked.is_ok(), is_owner, "round {round}");
                    if is_owner {
                        model.grants.remove(&(tenant, namespace, other));
                    }
                }
            }
            3 | 4 => one_by_id(&place, &mut model, round, (tenant, user), &below).await,
            _ => {
                let names: Vec<usize> = (0..NAMESPACES.len()).filter(|_| below(2) == 0).collect();
                let query = Query {
                    namespaces: names.iter().map(|namespace| name(*namespace)).collect(),
                    ..Query::new("secret number", 50)
                };
                let names = if names.is_empty() { vec![0] } else { names };
                let may = names.iter().all(|namespace| model.may(tenant, *namespace, user, false));
                match place.memory.search(&who, &query).await {
                    Ok(recall) => {
                        assert!(may, "round {round}");
                        let theirs = |of: &(usize, usize, String)| of.0 == tenant && names.contains(&of.1);
                        assert_eq!(recall.considered, model.memories.values().filter(|of| theirs(of)).count());
                        for hit in recall.hits {
                            let of = &model.memories[&hit.item.id];
                            assert!(theirs(of) && of.2 == hit.item.content, "round {round}: {hit:?}");
                        }
                    }
                    Err(MemoryError::NoAccess { .. }) => assert!(!may, "round {round}"),
                    Err(error) => panic!("round {round}: {error}"),
                }
            }
        }
    }
    assert!(place.memory.drift().await.unwrap().is_empty());
}

/// Reads, changes or forgets anybody's memory by its id.
async fn one_by_id(
    place: &Place,
    model: &mut Model,
    round: usize,
    (tenant, user): (usize, usize),
    below: &impl Fn(usize) -> usize,
) {
    if model.memories.is_empty() {
        return;
    }
    let who = scope(tenant, user);
    let (id, (of_tenant, namespace, _)) = model.memories.iter().nth(below(model.memories.len())).unwrap();
    let (id, namespace, is_theirs) = (id.clone(), *namespace, *of_tenant == tenant);
    match below(3) {
        0 => {
            let may = is_theirs && model.may(tenant, namespace, user, false);
            assert_eq!(place.memory.get(&who, &id).await.unwrap().is_some(), may, "round {round}");
        }
        1 => {
            let may = is_theirs && model.may(tenant, namespace, user, true);
            let edit = Edit { pinned: Some(true), ..Edit::default() };
            assert_eq!(place.memory.change(&who, &id, edit).await.unwrap(), may, "round {round}");
        }
        _ => {
            let may = is_theirs && model.may(tenant, namespace, user, true);
            let (handle, forgotten) = (place.memory.clone(), id.clone());
            let gone = place.store.write(move |tx| handle.forget(tx, &who, &forgotten)).await.unwrap();
            assert_eq!(gone, may, "round {round}");
            if gone {
                model.memories.remove(&id);
            }
        }
    }
}
