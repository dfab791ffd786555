//! Live objects that nodes need and state must not hold: models, browsers, registries. Looked up by type.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt,
    sync::Arc,
};

use crate::NodeError;

/// A set of shared objects, at most one of each type; trait objects (`dyn Model`) are types too. Cheap to clone.
#[derive(Clone, Default)]
pub struct Resources {
    objects: HashMap<TypeId, (&'static str, Arc<dyn Any + Send + Sync>)>,
}

impl Resources {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The set with this object, which replaces another of its type.
    #[must_use]
    pub fn with<T: ?Sized + Send + Sync + 'static>(mut self, object: Arc<T>) -> Self {
        self.objects.insert(TypeId::of::<T>(), (type_name::<T>(), Arc::new(object)));
        self
    }

    /// The object of this type.
    ///
    /// # Errors
    /// [`NodeError::MissingResource`] when the run was not given one.
    pub fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, NodeError> {
        self.objects
            .get(&TypeId::of::<T>())
            .and_then(|(_, object)| object.downcast_ref::<Arc<T>>())
            .cloned()
            .ok_or_else(|| NodeError::MissingResource { type_name: type_name::<T>() })
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.objects.values().map(|(name, _)| name)).finish()
    }
}
