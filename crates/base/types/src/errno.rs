//! Error numbers as the wire has them (Linux's).

use std::fmt;

/// A positive Linux error number. Replies carry it negated ([`Errno::code`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $n:literal),* $(,)?) => {
        impl Errno {
            $(
                #[doc = concat!(stringify!($name), " (", stringify!($n), ").")]
                pub const $name: Self = Self($n);
            )*

            /// The symbolic name, where it is one of those used here.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($n => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}
errnos! {
    EPERM = 1, ENOENT = 2, EIO = 5, ENXIO = 6, E2BIG = 7, ENOEXEC = 8, EBADF = 9, EAGAIN = 11, ENOMEM = 12, EACCES = 13,
    EBUSY = 16, EEXIST = 17, EXDEV = 18, ENODEV = 19, ENOTDIR = 20, EISDIR = 21, EINVAL = 22, EFBIG = 27, ENOSPC = 28,
    EROFS = 30, ERANGE = 34, EDOM = 33, ENAMETOOLONG = 36, ENOSYS = 38, ENOTEMPTY = 39, ENODATA = 61, EOVERFLOW = 75, EPROTO = 71,
    EBADMSG = 74, EILSEQ = 84, EMSGSIZE = 90, EOPNOTSUPP = 95, ETIMEDOUT = 110, ENOTCONN = 107, ECANCELED = 125, EINPROGRESS = 115, EDQUOT = 122, ESTALE = 116,
    ESHUTDOWN = 108, EOLDSNAPC = 85, EUSERS = 87, ENOMSG = 42, ENOLINK = 67,
}

impl Errno {
    /// The result as a reply carries it: negative.
    pub fn code(self) -> i32 {
        -self.0
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}
impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
