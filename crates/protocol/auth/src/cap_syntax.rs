//! Which texts are capabilities: the grammars of MonCap, OSDCap, MgrCap and MDSAuthCaps (`mon/MonCap.cc` and the others). What
//! they allow is not looked at: a text that is taken here may grant nothing that we know.

/// The kinds of daemons that capabilities are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapService {
    Mon,
    Osd,
    Mgr,
    Mds,
}

impl CapService {
    /// `mon`, `osd`, `mgr` or `mds`.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "mon" => Self::Mon,
            "osd" => Self::Osd,
            "mgr" => Self::Mgr,
            "mds" => Self::Mds,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Mon => "mon",
            Self::Osd => "osd",
            Self::Mgr => "mgr",
            Self::Mds => "mds",
        }
    }
}

/// A text that is not a capability, in the words that Ceph has for most of these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} capability parse failed, stopped at {} of '{text}'", service.name(), self.place())]
pub struct CapSyntaxError {
    service: CapService,
    /// What follows the last grant that was understood.
    rest: String,
    text: String,
}

impl CapSyntaxError {
    fn place(&self) -> String {
        let says_end = matches!(self.service, CapService::Mon | CapService::Mgr);
        if self.rest.is_empty() && says_end { "end".into() } else { format!("'{}'", self.rest) }
    }
}

/// Checks a capability of a service: grants, separated by commas or semicolons.
///
/// # Errors
/// It is not written as Ceph's grammar of that service wants it.
pub fn check_caps(service: CapService, text: &str) -> Result<(), CapSyntaxError> {
    // Only the grammars of these two skip blanks around all of it.
    let skip = |text| match service {
        CapService::Osd | CapService::Mds => str::trim_start(text),
        CapService::Mon | CapService::Mgr => text,
    };
    let rest = match grants(service, Text(skip(text))).map(|left| skip(left.0)) {
        Some("") => return Ok(()),
        // Of Ceph's first releases.
        None if service == CapService::Mds && text == "allow" => return Ok(()),
        rest => rest.unwrap_or(text),
    };
    Err(CapSyntaxError { service, rest: rest.into(), text: text.into() })
}

/// What is left to be read. Each rule gives what is left after it, or `None` where it does not apply.
#[derive(Clone, Copy)]
struct Text<'a>(&'a str);

type Rule<'a> = Option<Text<'a>>;

impl<'a> Text<'a> {
    fn literal(self, literal: &str) -> Rule<'a> {
        self.0.strip_prefix(literal).map(Self)
    }

    /// As many of these characters as there are, at least one.
    fn run(self, of: impl Fn(char) -> bool) -> Rule<'a> {
        let left = self.0.trim_start_matches(of);
        (left.len() < self.0.len()).then_some(Self(left))
    }

    fn spaces(self) -> Rule<'a> {
        self.run(|c| matches!(c, ' ' | '\n' | '\t'))
    }

    fn blanks(self) -> Self {
        self.maybe(Self::spaces)
    }

    /// The rule where it applies.
    fn maybe(self, rule: impl Fn(Self) -> Rule<'a>) -> Self {
        rule(self).unwrap_or(self)
    }

    /// The first rule that applies.
    fn first(self, rules: &[&dyn Fn(Self) -> Rule<'a>]) -> Rule<'a> {
        rules.iter().find_map(|rule| rule(self))
    }

    /// Text in quotes of one kind.
    fn quoted(self, may_be_empty: bool) -> Rule<'a> {
        ['"', '\''].into_iter().find_map(|quote| {
            let (inside, left) = self.0.strip_prefix(quote)?.split_once(quote)?;
            (may_be_empty || !inside.is_empty()).then_some(Self(left))
        })
    }

    fn bare_word(self) -> Rule<'a> {
        self.run(|c| c.is_ascii_alphanumeric() || "_./-".contains(c))
    }

    fn word(self) -> Rule<'a> {
        self.first(&[&|t| t.quoted(false), &Self::bare_word])
    }

    /// Spaces and a keyword.
    fn keyword(self, keyword: &str) -> Rule<'a> {
        self.spaces()?.literal(keyword)
    }

    /// A keyword's value: after `=` or spaces.
    fn value(self) -> Rule<'a> {
        self.first(&[&|t| t.literal("="), &Self::spaces])
    }

    /// ` network 10.0.0.0/8` where it stands.
    fn maybe_network(self) -> Self {
        self.maybe(|t| t.keyword("network")?.spaces()?.run(|c| c.is_ascii_hexdigit() || "/.:][".contains(c)))
    }

    /// `r`, `w`, `x`, in this order, at least one.
    fn rwx(self) -> Rule<'a> {
        let left = ["r", "w", "x"].into_iter().fold(self, |t, letter| t.maybe(|t| t.literal(letter)));
        (left.0.len() < self.0.len()).then_some(left)
    }

    fn wildcard(self) -> Rule<'a> {
        self.first(&[&|t| t.literal("*"), &|t| t.literal("all")])
    }

    fn rwxa(self) -> Rule<'a> {
        self.first(&[&Self::wildcard, &Self::rwx])
    }

    /// `allow` and the name of what is allowed.
    fn allow(self, what: &str) -> Rule<'a> {
        self.literal("allow")?.keyword(what)?.value()?.word()
    }

    /// An argument of a command and what it must be. `spaced`: there may be blanks around the `=`.
    fn argument(self, spaced: bool) -> Rule<'a> {
        let by = |t: Self, how: &str| t.keyword(how)?.spaces()?.word();
        self.word()?.first(&[
            &|t: Self| t.literal("=")?.word(),
            &|t: Self| if spaced { t.blanks().literal("=")?.blanks().word() } else { None },
            &|t| by(t, "prefix"),
            &|t| by(t, "regex"),
        ])
    }

    fn arguments(self, spaced: bool) -> Rule<'a> {
        let mut left = self.argument(spaced)?;
        while let Some(next) = left.spaces().and_then(|t| t.argument(spaced)) {
            left = next;
        }
        Some(left)
    }

    fn maybe_with(self, spaced: bool) -> Self {
        self.maybe(|t| t.keyword("with")?.spaces()?.arguments(spaced))
    }

    /// `profile NAME`.
    fn profile(self) -> Rule<'a> {
        self.literal("profile")?.value()?.word()
    }
}

/// As many grants as are understood.
fn grants<'a>(service: CapService, text: Text<'a>) -> Rule<'a> {
    let grant = |text| match service {
        CapService::Mon => mon_grant(text),
        CapService::Mgr => mgr_grant(text),
        CapService::Osd => osd_grant(text),
        CapService::Mds => mds_grant(text),
    };
    let separated =
        |t: Text<'a>| t.blanks().first(&[&|t| t.literal(";"), &|t| t.literal(",")]).map(Text::blanks);
    let mut left = grant(text)?;
    while let Some(next) = separated(left).and_then(grant) {
        left = next;
    }
    Some(left)
}

fn mon_grant<'a>(text: Text<'a>) -> Rule<'a> {
    let file_system =
        |t: Text<'a>| t.keyword("fsname")?.value()?.run(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    let left = text.blanks().first(&[
        &|t| Some(t.literal("allow")?.spaces()?.rwxa()?.maybe_network().maybe(file_system)),
        &|t| Some(t.maybe(|t| t.literal("allow")?.spaces()).profile()?.maybe_network()),
        &|t| Some(t.allow("service")?.spaces()?.rwxa()?.maybe_network()),
        &|t| Some(t.allow("command")?.maybe_with(false).maybe_network()),
    ])?;
    Some(left.blanks())
}

fn mgr_grant<'a>(text: Text<'a>) -> Rule<'a> {
    let arguments = |t: Text<'a>| t.spaces()?.arguments(true);
    let left = text.blanks().first(&[
        &|t| Some(t.literal("allow")?.spaces()?.rwxa()?.maybe_network()),
        &|t| Some(t.maybe(|t| t.literal("allow")?.spaces()).profile()?.maybe(arguments).maybe_network()),
        &|t| Some(t.allow("service")?.spaces()?.rwxa()?.maybe_network()),
        &|t| Some(t.allow("module")?.maybe_with(true).spaces()?.rwxa()?.maybe_network()),
        &|t| Some(t.allow("command")?.maybe_with(true).maybe_network()),
    ])?;
    Some(left.blanks())
}

fn osd_grant<'a>(text: Text<'a>) -> Rule<'a> {
    let left = text.blanks().first(&[
        &|t| osd_match(osd_access(t.literal("allow")?)?),
        &|t| osd_access(osd_match(t.literal("allow")?)?),
        &|t| Some(t.profile()?.maybe(osd_pool).maybe(osd_namespace)),
    ])?;
    Some(left.maybe_network().blanks())
}

/// `rwx`, methods of classes, or all.
fn osd_access<'a>(text: Text<'a>) -> Rule<'a> {
    let rwx = |t: Text<'a>| t.spaces()?.rwx();
    let classes = |t: Text<'a>| {
        let left = t.maybe(|t| t.keyword("class-read")).maybe(|t| t.keyword("class-write"));
        (left.0.len() < t.0.len()).then_some(left)
    };
    text.first(&[&|t| t.spaces()?.wildcard(), &|t| Some(rwx(t)?.maybe(classes)), &classes, &|t| {
        Some(t.keyword("class")?.spaces()?.word()?.maybe(|t| t.spaces()?.word()))
    }])
}

/// Which objects: by an application's tag, or by pool, namespace and prefix; none of these means all.
fn osd_match<'a>(text: Text<'a>) -> Rule<'a> {
    let any_or_word = |t: Text<'a>| t.first(&[&Text::wildcard, &Text::word]);
    let tag = |t: Text<'a>| {
        let key = any_or_word(t.keyword("tag")?.spaces()?.word()?.spaces()?)?;
        any_or_word(key.blanks().literal("=")?.blanks())
    };
    let prefix = |t: Text<'a>| t.keyword("object_prefix")?.spaces()?.word();
    text.first(&[&tag, &|t| tag(osd_namespace(t)?), &|t| {
        Some(t.maybe(osd_pool).maybe(osd_namespace).maybe(prefix))
    }])
}

fn osd_pool<'a>(text: Text<'a>) -> Rule<'a> {
    text.keyword("pool")?.value()?.word()
}

fn osd_namespace<'a>(text: Text<'a>) -> Rule<'a> {
    let name = text.keyword("namespace")?.value()?;
    Some(name.first(&[&|t| t.quoted(true), &Text::bare_word])?.maybe(|t| t.literal("*")))
}

/// What an MDS may be allowed, the longest first.
const MDS_ACCESS: [&str; 11] = ["*", "all", "rwfps", "rwps", "rwfp", "rwfs", "rwp", "rws", "rwf", "rw", "r"];

fn mds_grant<'a>(text: Text<'a>) -> Rule<'a> {
    let number = |t: Text<'a>| t.run(|c| c.is_ascii_digit());
    let spaced = text.literal("allow")?.spaces()?;
    let left = MDS_ACCESS.into_iter().find_map(|access| spaced.literal(access))?;
    let left = left
        .maybe(|t| t.keyword("fsname=")?.run(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)))
        .maybe(|t| t.keyword("path=")?.first(&[&|t| t.quoted(true), &Text::bare_word]))
        .maybe(|t| t.keyword("root_squash"))
        .maybe(|t| number(t.keyword("uid=")?));
    let groups = |t: Text<'a>| {
        let mut left = number(t.keyword("gids=")?)?;
        while let Some(next) = left.literal(",").and_then(number) {
            left = next;
        }
        Some(left)
    };
    Some(left.maybe(groups).maybe_network())
}

#[cfg(test)]
mod tests {
    use super::{CapService, check_caps};

    #[test]
    fn what_ceph_s_documents_name_is_taken() {
        use CapService::{Mds, Mgr, Mon, Osd};
        for (service, text) in [
            (Mon, "allow *"),
            (Mon, "allow r"),
            (Mon, " allow rwx network 10.0.0.0/8 , allow profile osd; profile bootstrap-osd"),
            (Mon, "profile rbd"),
            (Mon, "allow command \"config-key get\" with key prefix rbd/mirror/peer"),
            (Mon, "allow command config-key"),
            (Mon, "allow service auth x, allow r fsname=a"),
            (Mgr, "profile rbd pool=images namespace=\"one\""),
            (Mgr, "allow module prometheus with a=b rw, allow all"),
            (Osd, "allow *"),
            (Osd, "allow rwx pool=a namespace=b object_prefix c"),
            (Osd, "allow pool a rw"),
            (Osd, "allow class-read object_prefix rbd_children, allow rwx pool=rbd"),
            (Osd, "allow rw class-read class-write"),
            (Osd, "allow class rbd metadata_get pool=x"),
            (Osd, "allow rw tag cephfs data=a, allow r tag rgw *=*"),
            (Osd, "allow rwx namespace=\"\""),
            (Osd, "allow rw namespace one*"),
            (Osd, "profile rbd pool=a, profile rbd-read-only pool=b namespace=c"),
            (Osd, "allow rwx "),
            (Mds, "allow"),
            (Mds, " allow r , allow rw "),
            (Mon, "allow command x with a=b c prefix d"),
            (Mgr, "allow command x with a = b"),
            (Mds, "allow rwps, allow r fsname=a path=\"/home\" root_squash uid=1 gids=1,2"),
        ] {
            check_caps(service, text).unwrap_or_else(|error| panic!("{service:?}: {error}"));
        }
    }

    #[test]
    fn what_is_not_understood_is_named_with_what_follows_it() {
        use CapService::{Mds, Mgr, Mon, Osd};
        for (service, text, rest) in [
            (Mon, "", ""),
            (Mon, "foo", "foo"),
            (Mon, "allow", "allow"),
            (Mon, "allow wr", "r"),
            (Mon, "allow r, nonsense", ", nonsense"),
            (Mon, "allow r network", "network"),
            (Mgr, "allow command", "allow command"),
            (Mgr, "allow module x with rw", "ith rw"),
            (Mon, "allow command x with a = b", "with a = b"),
            (Osd, " ", " "),
            (Osd, "allow", "allow"),
            (Osd, "allow rbd", "bd"),
            (Osd, "allow pool=x", "allow pool=x"),
            (Osd, "allow rw pool=", "pool="),
            (Osd, "profile", "profile"),
            (Osd, "allow r,,allow w", ",,allow w"),
            (Mds, "allow w", "allow w"),
            (Mds, "allow rwx", "x"),
        ] {
            let error = check_caps(service, text).expect_err(text);
            assert_eq!(error.rest, rest, "{service:?} {text}");
        }
    }
}
