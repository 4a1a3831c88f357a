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
/// use jobq::admin::Figure;
///
/// let (three, unknown) = (Figure::Known(3), Figure::<u64>::unknown("its queue has no leader"));
/// assert!(three == 3 && three < 4);
/// assert!(unknown != 0 && !(unknown < 4));
/// assert_eq!(unknown.to_string(), "?");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Figure<T> {
    /// The figure.
    Known(T),
    /// Why it is unknown.
    Unknown(Cow<'static, str>),
}

impl<T> Figure<T> {
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
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Figure<U> {
        match self {
            Self::Known(figure) => Figure::Known(change(figure)),
            Self::Unknown(why) => Figure::Unknown(why),
        }
    }

    /// The result of a function of two figures; unknown if one of them is.
    pub fn zip<U, V>(self, other: Figure<U>, join: impl FnOnce(T, U) -> V) -> Figure<V> {
        match (self, other) {
            (Self::Known(one), Figure::Known(two)) => Figure::Known(join(one, two)),
            (Self::Unknown(why), _) | (_, Figure::Unknown(why)) => Figure::Unknown(why),
        }
    }
}

impl<T> From<T> for Figure<T> {
    fn from(figure: T) -> Self {
        Self::Known(figure)
    }
}

impl<T: PartialEq> PartialEq<T> for Figure<T> {
    fn eq(&self, other: &T) -> bool {
        self.known() == Some(other)
    }
}

impl<T: PartialOrd> PartialOrd<T> for Figure<T> {
    fn partial_cmp(&self, other: &T) -> Option<Ordering> {
        self.known()?.partial_cmp(other)
    }
}

impl<T: fmt::Display> fmt::Display for Figure<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(figure) => figure.fmt(f),
            Self::Unknown(_) => f.pad("?"),
        }
    }
}

impl<T: Serialize> Serialize for Figure<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.known().serialize(serializer)
    }
}
