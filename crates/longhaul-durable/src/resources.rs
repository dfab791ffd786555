//! Live objects that nodes need and state must not hold: models, browsers, registries. Looked up by type, or by a
//! typed key where there are several of one type.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt,
    marker::PhantomData,
    sync::Arc,
};

use crate::NodeError;

/// The typed name of a live object; make it a constant: `const DRAFTER: Key<dyn Model> = Key::new("drafter");`.
pub struct Key<T: ?Sized> {
    name: &'static str,
    holds: PhantomData<fn() -> Box<T>>,
}

impl<T: ?Sized + 'static> Key<T> {
    /// A key of this name; keys of other types may have the same.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, holds: PhantomData }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The key as plain data, for lists of what is required.
    #[must_use]
    pub fn id(&self) -> KeyId {
        KeyId { of: TypeId::of::<T>(), type_name: type_name::<T>(), name: self.name }
    }
}

impl<T: ?Sized> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Key<T> {}

impl<T: ?Sized + 'static> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.id(), f)
    }
}

/// A key without its type parameter. It prints as `drafter (dyn Model)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId {
    of: TypeId,
    type_name: &'static str,
    name: &'static str,
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() { f.write_str(self.type_name) } else { write!(f, "{} ({})", self.name, self.type_name) }
    }
}

/// A set of shared objects, at most one for each key; trait objects (`dyn Model`) are types too. Cheap to clone.
#[derive(Clone, Default)]
pub struct Resources {
    objects: Arc<HashMap<KeyId, Arc<dyn Any + Send + Sync>>>,
}

impl Resources {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The set with this object, which replaces another of its type.
    #[must_use]
    pub fn with<T: ?Sized + Send + Sync + 'static>(self, object: Arc<T>) -> Self {
        self.with_key(&Key::new(""), object)
    }

    /// The set with this object under this key, which replaces another under it.
    #[must_use]
    pub fn with_key<T: ?Sized + Send + Sync + 'static>(mut self, key: &Key<T>, object: Arc<T>) -> Self {
        Arc::make_mut(&mut self.objects).insert(key.id(), Arc::new(object));
        self
    }

    /// The object of this type.
    ///
    /// # Errors
    /// [`NodeError::MissingResource`] when the run was not given one.
    pub fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<T>, NodeError> {
        self.get_key(&Key::new(""))
    }

    /// The object under this key.
    ///
    /// # Errors
    /// [`NodeError::MissingResource`] when the run was not given one.
    pub fn get_key<T: ?Sized + Send + Sync + 'static>(&self, key: &Key<T>) -> Result<Arc<T>, NodeError> {
        let id = key.id();
        let found = self.objects.get(&id).and_then(|object| object.downcast_ref::<Arc<T>>());
        found.cloned().ok_or_else(|| NodeError::MissingResource { resource: id.to_string() })
    }

    /// Whether there is an object under this key.
    #[must_use]
    pub fn has(&self, key: &KeyId) -> bool {
        self.objects.contains_key(key)
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.objects.keys().map(ToString::to_string)).finish()
    }
}
