//! A Ceph release's programs: installed on this machine, or in a root directory that holds a newer release.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::processes::TOKEN;

/// The shell text that enters a root.
const IN_ROOT: &str = include_str!("in-root.sh");

/// Where programs of a release are.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    /// Absent: this machine itself.
    root: Option<PathBuf>,
}

/// Programs by the Debian package that has them.
const PACKAGES: [(&str, &str); 28] = [
    ("blkid", "util-linux"),
    ("ceph", "ceph-common"),
    ("ceph-authtool", "ceph-common"),
    ("ceph-fuse", "ceph-fuse"),
    ("ceph-mds", "ceph-mds"),
    ("ceph-mgr", "ceph-mgr"),
    ("ceph-mon", "ceph-mon"),
    ("ceph-osd", "ceph-osd"),
    ("fio", "fio"),
    ("losetup", "mount"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("exportfs", "nfs-kernel-server"),
    ("mkfs.ext2", "e2fsprogs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("monmaptool", "ceph-base"),
    ("mount", "mount"),
    ("mount.ceph", "ceph-common"),
    ("mount.nfs", "nfs-common"),
    ("perf", "linux-perf"),
    ("blktrace", "blktrace"),
    ("rados", "ceph-common"),
    ("rbd", "ceph-common"),
    ("ssh", "openssh-client"),
    ("taskset", "util-linux"),
    ("umount", "mount"),
    ("unshare", "util-linux"),
    ("wipefs", "util-linux"),
];

/// Debian's package with a program, where the lab knows it.
#[must_use]
pub fn package_of(program: &str) -> Option<&'static str> {
    PACKAGES.iter().find(|(name, _)| *name == program).map(|(_, package)| *package)
}

/// Directories that programs are looked for in: those of PATH, and those of the administrator's, which a user's PATH
/// often lacks.
fn directories() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all: Vec<PathBuf> = std::env::split_paths(&path).collect();
    all.extend(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from));
    all
}

/// A program of this machine.
///
/// # Errors
/// [`Error::Missing`] with the Debian package that has it.
pub fn program(name: &str) -> Result<PathBuf> {
    directories().into_iter().map(|d| d.join(name)).find(|p| p.is_file()).ok_or_else(|| Error::Missing {
        program: name.to_owned(),
        place: "on this machine".to_owned(),
        remedy: match package_of(name) {
            Some(package) => format!("apt-get install {package}"),
            None => "install it".to_owned(),
        },
    })
}

impl Release {
    /// This machine's own programs.
    pub(crate) fn installed() -> Self {
        Self { root: None }
    }

    /// Finds a release: 16.2 is this machine's, newer ones are roots in one of `peers`.
    pub(crate) fn find(release: &str, peers: &[PathBuf]) -> Result<Self> {
        if release == "16.2" {
            return Ok(Self::installed());
        }
        let complete =
            |root: &PathBuf| root.join(".loligo-peer-complete").metadata().is_ok_and(|m| m.len() > 0);
        match peers.iter().map(|p| p.join(release)).find(complete) {
            Some(root) => Ok(Self { root: Some(root) }),
            None => Err(Error::NoPeer {
                release: release.to_owned(),
                looked: peers.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// Whether its programs run in a root.
    pub(crate) fn is_root(&self) -> bool {
        self.root.is_some()
    }

    /// Checks that a program of it is there.
    pub(crate) fn has(&self, name: &str) -> Result<()> {
        let Some(root) = &self.root else { return program(name).map(drop) };
        let there =
            ["usr/bin", "usr/sbin", "usr/local/bin"].iter().any(|d| root.join(d).join(name).is_file());
        if there {
            return Ok(());
        }
        Err(Error::Missing {
            program: name.to_owned(),
            place: format!("in the root {}", root.display()),
            remedy: format!(
                "chroot {} apt-get install --no-install-recommends {}",
                root.display(),
                package_of(name).unwrap_or(name)
            ),
        })
    }

    /// The prefix of a program so that it runs as one of this release's, for the cluster of `conf`, with
    /// `work_dir` visible at its own path, carrying the token.
    pub(crate) fn prefix(&self, conf: &Path, work_dir: &Path, token: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["env".into(), "-u".into(), "CEPH_ARGS".into()];
        let set = |name: &str, value: &Path| {
            let mut word = OsString::from(format!("{name}="));
            word.push(value);
            word
        };
        words.push(set("CEPH_CONF", conf));
        words.push(format!("{TOKEN}={token}").into());
        if let Some(root) = &self.root {
            words.extend(
                ["unshare", "--mount", "--propagation", "slave", "sh", "-euc", IN_ROOT, "in-root"]
                    .map(Into::into),
            );
            words.extend([root.into(), work_dir.into()]);
        }
        words
    }
}

/// A command from a prefix, a program and its arguments.
pub(crate) fn command(prefix: &[OsString], program: &str, arguments: &[&str]) -> Command {
    let mut words = prefix.iter().cloned().chain([program.into()]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let text = Error::Missing {
            program: "mkfs.btrfs".into(),
            place: "on this machine".into(),
            remedy: format!("apt-get install {}", package_of("mkfs.btrfs").unwrap()),
        };
        assert_eq!(text.to_string(), "mkfs.btrfs was not found on this machine: apt-get install btrfs-progs");
        assert!(matches!(program("no-such-program-here"), Err(Error::Missing { .. })));
    }

    #[test]
    fn a_root_that_is_not_finished_is_none() {
        let peers = tempfile::tempdir().unwrap();
        std::fs::create_dir(peers.path().join("20.2")).unwrap();
        let found = Release::find("20.2", &[peers.path().to_owned()]);
        assert!(found.unwrap_err().to_string().contains("peer-root.sh 20.2"));
        std::fs::write(peers.path().join("20.2/.loligo-peer-complete"), "20.2.0\n").unwrap();
        let found = Release::find("20.2", &[peers.path().to_owned()]).unwrap();
        assert!(matches!(found.has("ceph-mds"), Err(Error::Missing { .. })));
    }

    #[test]
    fn the_prefix_ends_where_the_program_begins() {
        let release = Release { root: Some("/roots/18.2".into()) };
        let prefix = release.prefix(Path::new("/w/ceph.conf"), Path::new("/w"), "t");
        let command = command(&prefix, "rados", &["lspools"]);
        let words: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        assert_eq!(command.get_program(), "env");
        assert!(
            words.ends_with(&["/roots/18.2".into(), "/w".into(), "rados".into(), "lspools".into()]),
            "{words:?}"
        );
    }
}
