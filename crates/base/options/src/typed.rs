//! Options with the types of their values.

use std::marker::PhantomData;

use crate::parse::Value;
use crate::{Kind, OptionSpec, all};

/// An option of the table whose value is a `T`: `bool`, `u64`, `i64`, `f64` (seconds for times) or `str`.
pub struct Opt<T: ?Sized> {
    row: usize,
    value: PhantomData<fn() -> Box<T>>,
}

impl<T: ?Sized> Opt<T> {
    pub(crate) const fn new(row: usize) -> Self {
        Self { row, value: PhantomData }
    }

    pub(crate) fn row(self) -> usize {
        self.row
    }

    /// The option's entry in the table.
    pub fn spec(self) -> &'static OptionSpec {
        &all()[self.row]
    }

    pub fn name(self) -> &'static str {
        self.spec().name
    }
}

// Derived implementations would ask the same of T.
impl<T: ?Sized> Clone for Opt<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ?Sized> Copy for Opt<T> {}

/// A type that an option's value has.
pub trait OptionType {
    type Value<'a>;
    /// The kinds of options that it holds.
    const KINDS: &'static [Kind];
    /// Whether it holds no number below 0.
    const UNSIGNED: bool = false;

    /// The value, or `None` if it is of another kind; the table's constants never are.
    fn of(value: &Value) -> Option<Self::Value<'_>>;
}

impl OptionType for bool {
    type Value<'a> = bool;
    const KINDS: &'static [Kind] = &[Kind::Bool];

    fn of(value: &Value) -> Option<bool> {
        if let Value::Bool(on) = value { Some(*on) } else { None }
    }
}

impl OptionType for i64 {
    type Value<'a> = i64;
    const KINDS: &'static [Kind] = &[Kind::Int];

    fn of(value: &Value) -> Option<i64> {
        if let Value::Int(n) = value { Some(*n) } else { None }
    }
}

impl OptionType for u64 {
    type Value<'a> = u64;
    const KINDS: &'static [Kind] = &[Kind::Int, Kind::Size];
    const UNSIGNED: bool = true;

    fn of(value: &Value) -> Option<u64> {
        match value {
            Value::Int(n) => u64::try_from(*n).ok(),
            Value::Size(n) => Some(*n),
            Value::Bool(_) | Value::Float(_) | Value::Text(_) => None,
        }
    }
}

impl OptionType for f64 {
    type Value<'a> = f64;
    const KINDS: &'static [Kind] = &[Kind::Float, Kind::Secs];

    fn of(value: &Value) -> Option<f64> {
        if let Value::Float(n) = value { Some(*n) } else { None }
    }
}

impl OptionType for str {
    type Value<'a> = &'a str;
    const KINDS: &'static [Kind] = &[Kind::Text];

    fn of(value: &Value) -> Option<&str> {
        if let Value::Text(text) = value { Some(text) } else { None }
    }
}
