//! Capabilities: what a session may do with the daemon it reached.

use std::fmt;

/// A kind of access; combine with `|`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access(u8);

impl Access {
    /// See state and read data.
    pub const READ: Self = Self(1);
    /// Change state or data.
    pub const WRITE: Self = Self(2);
    /// Run commands. What grants it grants calls of classes too.
    pub const EXECUTE: Self = Self(4);
    /// What only `*` grants: administration.
    pub const ADMIN: Self = Self(8);
    /// Call methods of object classes that read.
    pub const CLASS_READ: Self = Self(16);
    /// Call methods of object classes that write.
    pub const CLASS_WRITE: Self = Self(32);
    const ALL: Self = Self(63);
    pub const NOTHING: Self = Self(0);

    /// Whether everything in `other` is in `self`.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Access {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A text that is not a capability we know; the session gets nothing rather than a guess.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("capability not understood: '{0}'")]
pub struct ParseCapsError(String);

/// What a session is granted on one daemon. Grants add up; restrictions to pools and objects are not known yet, so a
/// text that has one is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caps {
    granted: Access,
}

impl Caps {
    /// `allow *`: what every session of method none has.
    pub fn all() -> Self {
        Self { granted: Access::ALL }
    }

    /// Nothing at all.
    pub fn none() -> Self {
        Self { granted: Access::NOTHING }
    }

    /// Reads Ceph's text: grants joined by commas or semicolons, each `allow *`, `allow` with letters of `rwx`,
    /// `class-read`, `class-write`, or `profile osd` (which an OSD has with its peers: everything).
    pub fn parse(text: &str) -> Result<Self, ParseCapsError> {
        let error = || ParseCapsError(text.to_owned());
        let mut granted = Access::NOTHING;
        for grant in text.split([',', ';']).map(str::trim).filter(|g| !g.is_empty()) {
            granted = granted | parse_grant(grant).ok_or_else(error)?;
        }
        Ok(Self { granted })
    }

    /// Whether `what` is granted.
    pub fn permits(&self, what: Access) -> bool {
        self.granted.contains(what)
    }
}

fn parse_grant(grant: &str) -> Option<Access> {
    let mut words = grant.split_whitespace();
    let (verb, first) = (words.next()?, words.next()?);
    let rest: Vec<&str> = words.collect();
    match (verb, first) {
        ("allow", "*") | ("profile", "osd") if rest.is_empty() => Some(Access::ALL),
        ("allow", _) => {
            let granted = |sum, word| Some(sum | access_of(word)?);
            rest.into_iter().try_fold(access_of(first)?, granted)
        }
        _ => None,
    }
}

fn access_of(word: &str) -> Option<Access> {
    match word {
        "class-read" => Some(Access::CLASS_READ),
        "class-write" => Some(Access::CLASS_WRITE),
        letters => letters.chars().try_fold(Access::NOTHING, |sum, letter| match letter {
            'r' => Some(sum | Access::READ),
            'w' => Some(sum | Access::WRITE),
            'x' => Some(sum | Access::EXECUTE | Access::CLASS_READ | Access::CLASS_WRITE),
            _ => None,
        }),
    }
}

impl fmt::Display for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.granted == Access::ALL {
            return f.write_str("allow *");
        }
        let letters: String = [(Access::READ, 'r'), (Access::WRITE, 'w'), (Access::EXECUTE, 'x')]
            .into_iter()
            .filter_map(|(access, letter)| self.permits(access).then_some(letter))
            .collect();
        let words = [(Access::CLASS_READ, "class-read"), (Access::CLASS_WRITE, "class-write")];
        let words =
            words.into_iter().filter(|(access, _)| self.permits(*access) && !self.permits(Access::EXECUTE));
        let words: Vec<&str> = words.map(|(_, word)| word).collect();
        let granted: Vec<&str> =
            [letters.as_str()].into_iter().chain(words).filter(|s| !s.is_empty()).collect();
        if granted.is_empty() { Ok(()) } else { write!(f, "allow {}", granted.join(" ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_grant_what_they_say_and_no_more() {
        let caps = Caps::parse("allow r").unwrap();
        assert!(caps.permits(Access::READ));
        assert!(!caps.permits(Access::READ | Access::WRITE));
        let caps = Caps::parse("allow rw, allow x").unwrap();
        assert!(caps.permits(Access::READ | Access::WRITE | Access::EXECUTE));
        assert!(!caps.permits(Access::ADMIN));
        assert_eq!(caps.to_string(), "allow rwx");
    }

    #[test]
    fn a_star_and_an_osds_profile_grant_everything() {
        for text in ["allow *", "profile osd", "allow r; allow *"] {
            assert_eq!(Caps::parse(text), Ok(Caps::all()), "{text}");
        }
        assert!(!Caps::parse("").unwrap().permits(Access::READ));
    }

    #[test]
    fn what_is_not_understood_is_refused_not_guessed() {
        for text in
            ["allow", "deny r", "allow rq", "allow r pool=x", "allow * r", "profile rbd", "profile osd r"]
        {
            assert!(Caps::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn classes_are_called_by_who_may_execute_or_has_the_classes_rights() {
        let class = Access::CLASS_READ | Access::CLASS_WRITE;
        assert!(Caps::parse("allow x").unwrap().permits(class));
        assert!(Caps::all().permits(class) && !Caps::parse("allow rw").unwrap().permits(Access::CLASS_READ));
        let caps = Caps::parse("allow r class-read").unwrap();
        assert!(caps.permits(Access::READ | Access::CLASS_READ) && !caps.permits(Access::CLASS_WRITE));
        assert_eq!(caps.to_string(), "allow r class-read");
        assert_eq!(Caps::parse("allow class-write").unwrap().to_string(), "allow class-write");
    }
}
