//! Serialization of payloads that refuses every value that JSON would change.
//!
//! `serde_json` writes a NaN, an infinity, `Some(None)` and `Some(())` all as `null`, and writes
//! nesting that it does not read. Decoding finds the last one alone: `null` is a valid `None`.

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// The nesting limit of arrays and objects when `serde_json` reads.
const DEPTH: u8 = 127;

/// Writes a value as JSON.
pub(super) fn to_vec<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Vec<u8>> {
    let mut json = Vec::with_capacity(128);
    let inner = &mut serde_json::Serializer::new(&mut json);
    value.serialize(Faithful { inner, depth: 0, in_some: false })?;
    Ok(json)
}

/// A serializer, or a part of one, with its position in the value.
struct Faithful<S> {
    inner: S,
    depth: u8,
    /// Whether the next value is the content of a `Some`.
    in_some: bool,
}

/// A value inside another one.
struct Inside<'v, T: ?Sized> {
    value: &'v T,
    depth: u8,
    in_some: bool,
}

impl<T: Serialize + ?Sized> Serialize for Inside<'_, T> {
    fn serialize<S: Serializer>(&self, inner: S) -> Result<S::Ok, S::Error> {
        let Self { value, depth, in_some } = *self;
        value.serialize(Faithful { inner, depth, in_some })
    }
}

impl<S> Faithful<S> {
    fn inside<'v, T: ?Sized>(&self, value: &'v T, in_some: bool) -> Inside<'v, T> {
        Inside { value, depth: self.depth, in_some }
    }
}

impl<S: Serializer> Faithful<S> {
    fn number(self, is_finite: bool) -> Result<S, S::Error> {
        if is_finite {
            return Ok(self.inner);
        }
        Err(S::Error::custom("JSON cannot represent a number that is not finite (NaN or infinity)"))
    }

    fn null(self) -> Result<S, S::Error> {
        if !self.in_some {
            return Ok(self.inner);
        }
        Err(S::Error::custom(
            "JSON cannot distinguish `Some` of an empty value from `None`: both are `null`",
        ))
    }

    /// The same serializer, deeper by this many arrays and objects.
    fn deeper(self, levels: u8) -> Result<Self, S::Error> {
        let depth = self.depth + levels;
        if depth <= DEPTH {
            return Ok(Self { depth, in_some: false, ..self });
        }
        Err(S::Error::custom(format_args!(
            "arrays and objects are nested more than {DEPTH} levels deep, which cannot be read back"
        )))
    }

    /// A serializer of the values of an array or an object.
    fn part<P>(self, open: impl FnOnce(S) -> Result<P, S::Error>) -> Result<Faithful<P>, S::Error> {
        let Self { inner, depth, in_some } = self;
        Ok(Faithful { inner: open(inner)?, depth, in_some })
    }
}

macro_rules! as_it_is {
    ($($method:ident($value:ty)),* $(,)?) => {
        $(fn $method(self, value: $value) -> Result<S::Ok, S::Error> {
            self.inner.$method(value)
        })*
    };
}

impl<S: Serializer> Serializer for Faithful<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Faithful<S::SerializeSeq>;
    type SerializeTuple = Faithful<S::SerializeTuple>;
    type SerializeTupleStruct = Faithful<S::SerializeTupleStruct>;
    type SerializeTupleVariant = Faithful<S::SerializeTupleVariant>;
    type SerializeMap = Faithful<S::SerializeMap>;
    type SerializeStruct = Faithful<S::SerializeStruct>;
    type SerializeStructVariant = Faithful<S::SerializeStructVariant>;

    as_it_is!(
        serialize_bool(bool),
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_i128(i128),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_u64(u64),
        serialize_u128(u128),
        serialize_char(char),
        serialize_str(&str),
        serialize_bytes(&[u8]),
    );

    fn serialize_f32(self, value: f32) -> Result<S::Ok, S::Error> {
        self.number(value.is_finite())?.serialize_f32(value)
    }

    fn serialize_f64(self, value: f64) -> Result<S::Ok, S::Error> {
        self.number(value.is_finite())?.serialize_f64(value)
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.null()?.serialize_none()
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.null()?.serialize_unit()
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<S::Ok, S::Error> {
        self.null()?.serialize_unit_struct(name)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let value = self.inside(value, true);
        self.inner.serialize_some(&value)
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_variant(name, index, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = self.inside(value, self.in_some);
        self.inner.serialize_newtype_struct(name, &value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let this = self.deeper(1)?;
        let value = this.inside(value, false);
        this.inner.serialize_newtype_variant(name, index, variant, &value)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        self.deeper(1)?.part(|inner| inner.serialize_seq(length))
    }

    fn serialize_tuple(self, length: usize) -> Result<Self::SerializeTuple, S::Error> {
        self.deeper(1)?.part(|inner| inner.serialize_tuple(length))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        self.deeper(1)?.part(|inner| inner.serialize_tuple_struct(name, length))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        // An object with the variant's name as key contains the array.
        let this = self.deeper(2)?;
        this.part(|inner| inner.serialize_tuple_variant(name, index, variant, length))
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        self.deeper(1)?.part(|inner| inner.serialize_map(length))
    }

    fn serialize_struct(
        self,
        name: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStruct, S::Error> {
        self.deeper(1)?.part(|inner| inner.serialize_struct(name, length))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        let this = self.deeper(2)?;
        this.part(|inner| inner.serialize_struct_variant(name, index, variant, length))
    }

    fn collect_str<T: std::fmt::Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.collect_str(value)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! part {
    ($part:ident, $method:ident($($key:ident: $type:ty)?)) => {
        impl<P: $part> $part for Faithful<P> {
            type Ok = P::Ok;
            type Error = P::Error;

            fn $method<T: Serialize + ?Sized>(
                &mut self,
                $($key: $type,)?
                value: &T,
            ) -> Result<(), P::Error> {
                let value = self.inside(value, false);
                self.inner.$method($($key,)? &value)
            }

            fn end(self) -> Result<P::Ok, P::Error> {
                self.inner.end()
            }
        }
    };
}

part!(SerializeSeq, serialize_element());
part!(SerializeTuple, serialize_element());
part!(SerializeTupleStruct, serialize_field());
part!(SerializeTupleVariant, serialize_field());
part!(SerializeStruct, serialize_field(key: &'static str));
part!(SerializeStructVariant, serialize_field(key: &'static str));

impl<P: SerializeMap> SerializeMap for Faithful<P> {
    type Ok = P::Ok;
    type Error = P::Error;

    // A key is a string; `serde_json` refuses any other.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), P::Error> {
        self.inner.serialize_key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), P::Error> {
        let value = self.inside(value, false);
        self.inner.serialize_value(&value)
    }

    fn end(self) -> Result<P::Ok, P::Error> {
        self.inner.end()
    }
}

#[cfg(test)]
#[path = "faithful_tests.rs"]
mod tests;
