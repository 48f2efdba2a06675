//! The files that clients need: ceph.conf and the keyring; and how a shell's commands name them.

use std::path::Path;

use crate::HostError;
use crate::dir::{ClusterDir, Description};

impl ClusterDir {
    /// Writes ceph.conf and the keyring.
    pub fn write_client_files(&self, description: &Description) -> Result<(), HostError> {
        self.replace("ceph.conf", &conf(self.path(), description))?;
        // No secret: with authentication 'none' the name alone counts.
        let keyring = "[client.admin]\n\tcaps mds = \"allow *\"\n\tcaps mgr = \"allow *\"\n\
                       \tcaps mon = \"allow *\"\n\tcaps osd = \"allow *\"\n";
        self.replace("keyring", keyring)
    }
}

fn conf(dir: &Path, description: &Description) -> String {
    // Without authentication clients look into no keyring: a path that the file can't say is left out.
    let keyring = match dir.to_str().filter(|dir| dir.chars().all(is_plain)) {
        Some(dir) => format!("keyring = {dir}/keyring\n"),
        None => String::new(),
    };
    format!(
        "# Written by loligo at every start; what you add is lost.\n\
         [global]\n\
         fsid = {fsid}\n\
         mon_host = [v2:{mon}/0]\n\
         auth_cluster_required = none\n\
         auth_service_required = none\n\
         auth_client_required = none\n\
         {keyring}",
        fsid = description.fsid,
        mon = description.mon_addr,
    )
}

/// Whether a character means itself in ceph.conf, in the list of paths that `keyring` is, and in a shell. Ceph's reader aborts at
/// bytes that are not ASCII, `;` and `#` begin comments, blanks and `,;=` part lists, and `$` begins a variable's name.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "/._-+:@%".contains(c)
}

/// A shell's command that points Ceph's programs at a directory's cluster. They take what CEPH_CONF has for a list of paths with
/// variables: where that would misread the path, it is named from within the directory.
pub fn pointing_command(dir: &Path) -> String {
    let shown = dir.to_string_lossy();
    if shown.contains([',', ';', '$']) {
        return format!("cd {}; export CEPH_CONF=ceph.conf", shell_word(dir));
    }
    format!("export CEPH_CONF={}", shell_word(&dir.join("ceph.conf")))
}

/// A path as a shell's command has it.
pub fn shell_word(path: &Path) -> String {
    let shown = path.to_string_lossy();
    match shown.chars().all(is_plain) {
        true => shown.into_owned(),
        false => format!("'{}'", shown.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use types::Fsid;

    use super::*;
    use crate::StoreKind;

    #[test]
    fn a_path_that_ceph_conf_cannot_say_is_left_out_of_it() {
        let addr = "127.0.0.1:3300".parse().unwrap();
        let description = Description::new(Fsid::from_random([1; 16]), StoreKind::Mem, 3, 1 << 30, addr);
        let keyring = |dir: &str| {
            let conf = conf(Path::new(dir), &description);
            assert!(
                conf.is_ascii() && conf.ends_with('\n') && conf.contains("\nauth_client_required = none\n")
            );
            let lines: Vec<String> = conf.lines().skip(7).map(str::to_owned).collect();
            lines
        };
        assert_eq!(keyring("/a/b-1.2_c"), ["keyring = /a/b-1.2_c/keyring"]);
        for odd in
            ["/é", "/a b", "/a\tb", "/a\nb", "/a;b", "/a#b", "/a,b", "/a=b", "/$name", "/a\\b", "/a\"b"]
        {
            assert!(keyring(odd).is_empty(), "{odd}");
        }
    }

    #[test]
    fn a_shell_is_told_where_a_cluster_is_whatever_its_path() {
        for (dir, told) in [
            ("/a/b", "export CEPH_CONF=/a/b/ceph.conf"),
            ("/a b/é#", "export CEPH_CONF='/a b/é#/ceph.conf'"),
            ("/it's", r"export CEPH_CONF='/it'\''s/ceph.conf'"),
            ("/a;b", "cd '/a;b'; export CEPH_CONF=ceph.conf"),
            ("/a,$name", "cd '/a,$name'; export CEPH_CONF=ceph.conf"),
        ] {
            assert_eq!(pointing_command(Path::new(dir)), told);
        }
    }
}
