use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde::{Serialize, Serializer};

/// A figure that an engine may not know: a number that is unknown is never 0.
///
/// It compares with plain figures; an unknown one is equal to none of them, and neither less nor
/// greater. Its display form is `?` if it is unknown; serialized, it is `null`.
///
/// ```
/// use jobq::admin::Read;
///
/// let (three, unknown) = (Read::Known(3), Read::<u64>::unknown("its queue has no leader"));
/// assert!(three == 3 && three < 4);
/// assert!(unknown != 0 && !(unknown < 4));
/// assert_eq!(unknown.to_string(), "?");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read<T> {
    /// The figure.
    Known(T),
    /// Why it is unknown.
    Unknown(Cow<'static, str>),
}

impl<T> Read<T> {
    /// A figure that is unknown for this reason.
    pub fn unknown(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Unknown(why.into())
    }

    /// The figure, if it is known.
    #[must_use]
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(figure) => Some(figure),
            Self::Unknown(_) => None,
        }
    }

    /// Why it is unknown.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Known(_) => None,
            Self::Unknown(why) => Some(why),
        }
    }

    /// The result of a function of the figure.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Read<U> {
        match self {
            Self::Known(figure) => Read::Known(change(figure)),
            Self::Unknown(why) => Read::Unknown(why),
        }
    }

    /// The result of a function of two figures; unknown if one of them is.
    pub fn zip<U, V>(self, other: Read<U>, join: impl FnOnce(T, U) -> V) -> Read<V> {
        match (self, other) {
            (Self::Known(one), Read::Known(two)) => Read::Known(join(one, two)),
            (Self::Unknown(why), _) | (_, Read::Unknown(why)) => Read::Unknown(why),
        }
    }
}

impl<T> From<T> for Read<T> {
    fn from(figure: T) -> Self {
        Self::Known(figure)
    }
}

impl<T: PartialEq> PartialEq<T> for Read<T> {
    fn eq(&self, other: &T) -> bool {
        self.known() == Some(other)
    }
}

impl<T: PartialOrd> PartialOrd<T> for Read<T> {
    fn partial_cmp(&self, other: &T) -> Option<Ordering> {
        self.known()?.partial_cmp(other)
    }
}

impl<T: fmt::Display> fmt::Display for Read<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(figure) => figure.fmt(f),
            Self::Unknown(_) => f.pad("?"),
        }
    }
}

impl<T: Serialize> Serialize for Read<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.known().serialize(serializer)
    }
}
