//! Object classes: methods that clients call by name (CALL).
//!
//! A class is a static table of [`Method`]s, an ordinary synchronous function each. It works on its object through a
//! [`ClassContext`](crate::ClassContext), whose reads may come back as [`StepError::Pending`]: a method hands that on
//! with `?`, and the whole request is run again when the read is there. So a method keeps nothing between runs, and the
//! same object and request give the same result.

use std::collections::BTreeSet;
use std::fmt;

use buffer::Rope;
use messages::{Op, OpArgs};
use types::Errno;

use crate::run::{Runner, StepError, StepResult};
use crate::{ClassContext, ClassFilter};

/// A method's code. Its result is the operation's: an `Ok` of 0 or more, which a client sees of a read, and of a write
/// that changes something only with RETURNVEC.
pub type MethodRun = fn(&mut ClassContext<'_, '_>, &Rope) -> Result<i32, StepError>;

/// A method of a class.
pub struct Method {
    pub name: &'static str,
    /// CLS_METHOD_RD: it may read the object.
    pub reads: bool,
    /// CLS_METHOD_WR: it may change the object.
    pub writes: bool,
    pub run: MethodRun,
}

impl Method {
    pub const fn read(name: &'static str, run: MethodRun) -> Self {
        Self { name, reads: true, writes: false, run }
    }

    /// One that changes the object without reading it.
    pub const fn write(name: &'static str, run: MethodRun) -> Self {
        Self { name, reads: false, writes: true, run }
    }

    pub const fn read_write(name: &'static str, run: MethodRun) -> Self {
        Self { name, reads: true, writes: true, run }
    }
}

/// A class. Names are unique among the classes of a [`ClassTable`], and method names in their class.
pub struct ObjectClass {
    pub name: &'static str,
    pub methods: &'static [Method],
}

impl PartialEq for ObjectClass {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for ObjectClass {}

impl fmt::Debug for ObjectClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class {}", self.name)
    }
}

/// Names separated by spaces, as `osd_class_load_list` has them; `*` is every name.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct NameList(BTreeSet<String>);

impl NameList {
    fn parse(text: &str) -> Self {
        Self(text.split_whitespace().map(str::to_owned).collect())
    }

    fn has(&self, name: &[u8]) -> bool {
        let named = std::str::from_utf8(name).is_ok_and(|name| self.0.contains(name));
        named || self.0.contains("*")
    }
}

/// The classes that there are, and who may call them (Ceph's ClassHandler).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ClassTable {
    classes: &'static [&'static ObjectClass],
    pub(crate) filters: &'static [ClassFilter],
    load_list: NameList,
    default_list: NameList,
}

/// A method that a request calls.
#[derive(Clone, Copy)]
pub(crate) struct Called {
    pub method: &'static Method,
    /// Whether every client with the right to execute may call it; otherwise only one that is granted everything.
    pub listed: bool,
}

impl ClassTable {
    /// `load_list` and `default_list` are the values of osd_class_load_list and osd_class_default_list.
    pub fn new(classes: &'static [&'static ObjectClass], load_list: &str, default_list: &str) -> Self {
        let (load_list, default_list) = (NameList::parse(load_list), NameList::parse(default_list));
        Self { classes, filters: &[], load_list, default_list }
    }

    pub(crate) fn may_load(&self, class: &[u8]) -> bool {
        self.load_list.has(class)
    }

    /// What a CALL calls.
    ///
    /// # Errors
    /// EPERM where the class is not in the load list, EOPNOTSUPP where there is no such class or method, EINVAL where
    /// the operation's data is shorter than its names.
    pub(crate) fn find(&self, op: &Op) -> Result<Called, Errno> {
        let OpArgs::Class { class_len, method_len, .. } = op.args else { return Err(Errno::EINVAL) };
        let (class_len, names_len) =
            (usize::from(class_len), usize::from(class_len) + usize::from(method_len));
        if names_len > op.indata.len() {
            return Err(Errno::EINVAL);
        }
        let names = op.indata.slice(0..names_len).to_piece();
        let (class, method) = names.split_at(class_len);
        if !self.may_load(class) {
            return Err(Errno::EPERM);
        }
        let found = self.classes.iter().find(|c| c.name.as_bytes() == class).ok_or(Errno::EOPNOTSUPP)?;
        let found = found.methods.iter().find(|m| m.name.as_bytes() == method).ok_or(Errno::EOPNOTSUPP)?;
        Ok(Called { method: found, listed: self.default_list.has(class) })
    }

    /// Whether the operation calls a method that may change its object.
    pub fn writes(&self, op: &Op) -> bool {
        self.find(op).is_ok_and(|called| called.method.writes)
    }
}

/// A method's input: what follows the names in the operation's data.
fn input(op: &Op) -> Result<Rope, Errno> {
    let OpArgs::Class { class_len, method_len, indata_len, .. } = op.args else { return Err(Errno::EINVAL) };
    let start = usize::from(class_len) + usize::from(method_len);
    let end = start.saturating_add(indata_len as usize);
    if end <= op.indata.len() { Ok(op.indata.slice(start..end)) } else { Err(Errno::EINVAL) }
}

impl Runner<'_> {
    pub fn call(&mut self, op: &Op) -> StepResult {
        let Called { method, .. } = self.ctx.classes.find(op)?;
        let input = input(op)?;
        self.user_modify |= method.writes;
        // What the operations before it lack is no concern of the method.
        let before = self.interrupted.take();
        let mut ctx = ClassContext::new(self, method);
        let result = (method.run)(&mut ctx, &input);
        let (output, misused) = ctx.finish();
        // Whatever the method made of it: a run that lacked something gives no result.
        if let Some(interruption) = self.interrupted {
            return Err(interruption);
        }
        self.interrupted = before;
        if misused {
            return Err(Errno::EIO.into());
        }
        self.data = output;
        result.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use messages::OpCode;

    use super::*;

    static CLASS: ObjectClass = ObjectClass {
        name: "c",
        methods: &[Method::read("r", |_, _| Ok(0)), Method::write("w", |_, _| Ok(0))],
    };

    static CLASSES: &[&ObjectClass] = &[&CLASS];

    fn call(class: &str, method: &str, data: &str) -> Op {
        let (class_len, method_len) = (class.len() as u8, method.len() as u8);
        let args = OpArgs::Class { class_len, method_len, argc: 0, indata_len: 0 };
        Op::new(OpCode::CALL, args).with_indata(data.as_bytes().to_vec())
    }

    #[test]
    fn what_is_called_is_looked_up_as_the_lists_allow() {
        let table = ClassTable::new(CLASSES, "c  gone", "other");
        let find = |class: &str, method: &str| {
            table.find(&call(class, method, &format!("{class}{method}"))).map(|called| called.listed)
        };
        assert_eq!(find("c", "r"), Ok(false), "it is not in the default list");
        assert_eq!(find("c", "x"), Err(Errno::EOPNOTSUPP), "no such method");
        assert_eq!(find("gone", "r"), Err(Errno::EOPNOTSUPP), "no such class");
        assert_eq!(find("d", "r"), Err(Errno::EPERM), "not in the load list");
        assert_eq!(table.find(&call("c", "r", "c")).err(), Some(Errno::EINVAL), "the data ends in the names");
        let all = ClassTable::new(CLASSES, "*", "*");
        assert!(all.find(&call("c", "w", "cw")).is_ok_and(|called| called.listed));
        assert_eq!(all.find(&call("d", "r", "dr")).err(), Some(Errno::EOPNOTSUPP));
        assert!(all.writes(&call("c", "w", "cw")) && !all.writes(&call("c", "r", "cr")));
        assert_eq!(ClassTable::default().find(&call("c", "r", "cr")).err(), Some(Errno::EPERM));
    }
}
