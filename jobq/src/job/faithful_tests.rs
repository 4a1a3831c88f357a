use std::collections::{BTreeMap, HashMap};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;

/// The value as a worker reads it.
fn through<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_slice(&to_vec(value).unwrap()).unwrap()
}

fn refused(value: &impl Serialize) -> String {
    to_vec(value).unwrap_err().to_string()
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Nothing,
    One(f32),
    Two(u8, Option<f64>),
    Named { side: i128 },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Unit;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Wrapped<T>(T);

#[test]
fn accepted_values_are_written_as_by_serde_json_and_read_unchanged() {
    let value = json!({"a": [1, -2.5, "x", null, true], "b": {"c": u64::MAX, "d": i64::MIN}});
    assert_eq!(to_vec(&value).unwrap(), serde_json::to_vec(&value).unwrap());
    assert_eq!(through(&value), value);
    let shapes = [Shape::Nothing, Shape::One(0.1), Shape::Two(1, None), Shape::Named { side: -1 }];
    assert_eq!(to_vec(&shapes).unwrap(), serde_json::to_vec(&shapes).unwrap());
    assert_eq!(through(&Vec::from(shapes)).len(), 4);
    let map = HashMap::from([(7_u32, Wrapped(Some('x')))]);
    assert_eq!(through(&map), map);
    assert_eq!(through(&(Unit, Wrapped(()), "text".to_owned())).2, "text");
}

#[test]
fn numbers_are_bit_for_bit_the_same() {
    let fixed = [90.333_333_333_333_33, -0.0, 5e-324, f64::MAX, f64::MIN_POSITIVE, 1e23, 0.1];
    let mut random = fastrand::Rng::with_seed(1);
    let random = std::iter::repeat_with(|| f64::from_bits(random.u64(..)));
    for number in fixed.into_iter().chain(random.filter(|f| f.is_finite()).take(20_000)) {
        assert_eq!(through(&number).to_bits(), number.to_bits(), "{number:e}");
        #[allow(clippy::cast_possible_truncation)] // also a `f32` with all its digits
        let short = number as f32;
        if short.is_finite() {
            assert_eq!(through(&short).to_bits(), short.to_bits(), "{short:e}");
        }
    }
    for number in [i128::MIN, i128::MAX] {
        assert_eq!(through(&number), number);
    }
    assert_eq!(through(&u128::MAX), u128::MAX);
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(refused(&number).contains("not finite"));
        assert!(refused(&vec![Some(number)]).contains("not finite"));
        assert!(refused(&Shape::Two(1, Some(number))).contains("not finite"));
    }
    assert!(refused(&BTreeMap::from([("a", Shape::One(f32::NAN))])).contains("not finite"));
}

#[test]
fn some_of_a_null_value_is_refused() {
    for value in [Some(None::<u8>), Some(Some(1)), None] {
        assert_eq!(to_vec(&value).is_err(), value == Some(None), "{value:?}");
    }
    assert!(refused(&[Some(())]).contains("`null`"));
    assert!(refused(&(Some(Unit),)).contains("`null`"));
    assert!(refused(&Some(Wrapped(None::<u8>))).contains("`null`"));
    assert_eq!(through(&Some(vec![None::<u8>])), Some(vec![None]));
}

#[test]
fn nesting_deeper_than_can_be_read_is_refused() {
    #[derive(Serialize, Deserialize)]
    enum Deep {
        End,
        New(Box<Deep>),
        Tuple(Box<Deep>, ()),
        Struct { next: Box<Deep> },
        List(Vec<Deep>),
    }
    let links: [fn(Deep) -> Deep; 4] = [
        |deep| Deep::New(Box::new(deep)),
        |deep| Deep::Tuple(Box::new(deep), ()),
        |deep| Deep::Struct { next: Box::new(deep) },
        |deep| Deep::List(vec![deep]),
    ];
    for link in links {
        let mut deep = Deep::End;
        for _ in 0..140 {
            deep = link(deep);
            let written = to_vec(&deep);
            let read = serde_json::from_slice::<Deep>(&serde_json::to_vec(&deep).unwrap());
            assert_eq!(written.is_ok(), read.is_ok());
        }
    }
}
