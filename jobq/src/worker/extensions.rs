use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use crate::guard::{Guarded, lock};

/// Values that the [layers](crate::WorkerPool::around) of an attempt pass to one another and to
/// [arguments](crate::FromAttempt): at most one of each type. They are dropped with the attempt.
///
/// ```
/// use jobq::{Attempt, FromAttempt};
///
/// #[derive(Clone)]
/// struct Tenant(String);
///
/// impl FromAttempt for Tenant {
///     type Error = &'static str;
///
///     fn from_attempt(attempt: &Attempt) -> Result<Self, Self::Error> {
///         attempt.extensions().get().ok_or("no layer says which tenant the job is for")
///     }
/// }
/// ```
#[derive(Default)]
pub struct Extensions(Mutex<BTreeMap<TypeId, Value>>);

type Value = Guarded<Box<dyn Any + Send>>;

impl Extensions {
    /// Inserts a value, and returns the previous one of its type.
    pub fn insert<T: Send + 'static>(&self, value: T) -> Option<T> {
        let before = lock(&self.0).insert(TypeId::of::<T>(), Guarded::new(Box::new(value)));
        before.and_then(downcast)
    }

    /// A clone of the value of this type, if there is one.
    #[must_use]
    pub fn get<T: Clone + Send + 'static>(&self) -> Option<T> {
        lock(&self.0).get(&TypeId::of::<T>())?.get().downcast_ref().cloned()
    }

    /// Removes and returns the value of this type, if there is one.
    pub fn take<T: Send + 'static>(&self) -> Option<T> {
        let value = lock(&self.0).remove(&TypeId::of::<T>());
        value.and_then(downcast)
    }
}

fn downcast<T: 'static>(value: Value) -> Option<T> {
    value.into_inner().downcast().ok().map(|value| *value)
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} extensions", lock(&self.0).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_value_of_each_type() {
        let extensions = Extensions::default();
        assert_eq!(extensions.get::<u8>(), None);
        assert_eq!(extensions.insert(1_u8), None);
        assert_eq!(extensions.insert("text"), None);
        assert_eq!(extensions.insert(2_u8), Some(1));
        assert_eq!((extensions.get::<u8>(), extensions.get()), (Some(2), Some("text")));
        assert_eq!((extensions.take::<u8>(), extensions.take::<u8>()), (Some(2), None));
    }
}
