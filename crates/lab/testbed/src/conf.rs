//! The text of a ceph.conf: the study's settings exactly as given, in their sections, and around them what the lab
//! itself needs. Pure.

use study::Setting;

use crate::error::{Error, Result};

/// A ceph.conf that is being put together.
#[derive(Clone, Default, Debug)]
pub struct Conf {
    /// In the order of their first line.
    sections: Vec<(String, Vec<Line>)>,
    notes: Vec<String>,
}

/// A line: the name as written, the value as it is meant, and whether a study may not replace it.
#[derive(Clone, Debug)]
struct Line {
    name: String,
    value: String,
    ours: bool,
}

/// Options that say what the cluster is: a study that set them would describe another one.
const IDENTITY: [&str; 5] = ["fsid", "mon_host", "mon_host_override", "keyring", "key"];

/// Authentication: `none` is all there is.
const AUTH: [&str; 3] = ["auth_cluster_required", "auth_service_required", "auth_client_required"];

/// Checks what can be told of a setting without knowing the cluster: whether it fits on a line, and whether a study
/// may set it at all.
///
/// # Errors
/// [`Error::Setting`] with its line in the study.
pub fn check(setting: &Setting, store: Option<&str>) -> Result<()> {
    let refuse = |why: &str| {
        Err(Error::Setting { line: setting.line, name: setting.name.clone(), why: why.to_owned() })
    };
    let name = options::normalize(&setting.name);
    let breaks = |text: &str| text.contains(['\n', '\r', '\0']);
    if breaks(&setting.name) || breaks(&setting.value) || breaks(&setting.section) {
        return refuse("has a line break, which a ceph.conf can't carry");
    }
    if name.is_empty()
        || setting.name.contains(['=', '[', ']', '#', ';'])
        || setting.section.contains(['[', ']'])
    {
        return refuse("has a name or section that a ceph.conf can't carry");
    }
    if IDENTITY.contains(&name.as_str()) {
        return refuse("says which cluster this is; the lab makes the cluster and sets it itself");
    }
    if AUTH.contains(&name.as_str()) && setting.value.trim() != "none" {
        return refuse("can only be 'none' in the lab");
    }
    if name == "osd_objectstore" && store.is_some_and(|s| s != setting.value.trim()) {
        return refuse("differs from the system's own store; name the store in the system");
    }
    Ok(())
}

impl Conf {
    /// Starts with the study's settings. Of an option that is set twice in a section the last one counts, at the
    /// place of the first.
    #[must_use]
    pub fn of_study(settings: &[Setting]) -> Self {
        let mut conf = Self::default();
        for setting in settings {
            let line = Line { name: setting.name.clone(), value: setting.value.clone(), ours: false };
            let lines = conf.section(&setting.section);
            match lines.iter_mut().find(|l| same(&l.name, &setting.name)) {
                Some(old) => *old = line,
                None => lines.push(line),
            }
        }
        conf
    }

    /// What the cluster can't do without: replaces the study's value of the same section, or wins over that for
    /// all daemons of the kind, and says so.
    pub fn must(&mut self, section: &str, name: &str, value: impl Into<String>) {
        let value = value.into();
        let lines = self.section(section);
        let line = Line { name: name.to_owned(), value: value.clone(), ours: true };
        let replaced = lines.iter().position(|l| same(&l.name, name));
        let old = replaced.map(|at| lines.remove(at).value);
        lines.push(line);
        if let Some(old) = old.filter(|old| *old != value) {
            self.notes
                .push(format!("[{section}] {name} = {old} of the study is not used: the lab needs {value}"));
        }
        // `global` has other readers, for which the study's value counts.
        let kind = section.split_once('.').map_or("", |(kind, _)| kind);
        if let Some(old) = self.sets(&[kind], name).filter(|old| *old != value) {
            let note = format!(
                "[{kind}] {name} = {old} of the study is not used: the lab gives each server its own"
            );
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// What the lab sets unless the study does, in this section or in `global`. Tells whether it was set.
    pub fn unless_set(&mut self, section: &str, name: &str, value: impl Into<String>) -> bool {
        if self.sets(&[section, "global"], name).is_some() {
            return false;
        }
        let line = Line { name: name.to_owned(), value: value.into(), ours: true };
        self.section(section).push(line);
        true
    }

    /// The value that an option has in the first of these sections that sets it.
    #[must_use]
    pub fn sets(&self, sections: &[&str], name: &str) -> Option<&str> {
        sections.iter().find_map(|wanted| {
            let (_, lines) = self.sections.iter().find(|(s, _)| s == wanted)?;
            lines.iter().find(|l| same(&l.name, name)).map(|l| l.value.as_str())
        })
    }

    /// Sentences on settings of the study that were replaced.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The file's text: `global` first, the lab's own lines of a section above the study's.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from("# Written by the lab for each trial.\n");
        let mut sections: Vec<&(String, Vec<Line>)> = self.sections.iter().collect();
        sections.sort_by_key(|(name, _)| (name != "global", name.contains('.')));
        for (name, lines) in sections.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            text.push_str(&format!("[{name}]\n"));
            for ours in [true, false] {
                for line in lines.iter().filter(|l| l.ours == ours) {
                    text.push_str(&format!("{} = {}\n", line.name, study::escaped(&line.value)));
                }
            }
        }
        text
    }

    fn section(&mut self, name: &str) -> &mut Vec<Line> {
        let at = self.sections.iter().position(|(s, _)| s == name).unwrap_or_else(|| {
            self.sections.push((name.to_owned(), Vec::new()));
            self.sections.len() - 1
        });
        &mut self.sections[at].1
    }
}

fn same(a: &str, b: &str) -> bool {
    options::normalize(a) == options::normalize(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(section: &str, name: &str, value: &str) -> Setting {
        Setting { section: section.into(), name: name.into(), value: value.into(), line: 7 }
    }

    #[test]
    fn values_reach_the_file_as_written() {
        let settings = [
            setting("osd", "debug_osd", "0/0"),
            setting("global", "journal aio", "on"),
            setting("osd.0", "osd_op_threads", "010"),
            setting("client", "rbd_cache_size", "1G"),
        ];
        let text = Conf::of_study(&settings).text();
        assert_eq!(
            text.split_once('\n').unwrap().1,
            "[global]\njournal aio = on\n[osd]\ndebug_osd = 0/0\n[client]\nrbd_cache_size = 1G\n\
             [osd.0]\nosd_op_threads = 010\n"
        );
    }

    #[test]
    fn what_cephs_reader_would_take_for_itself_is_escaped() {
        let mut conf = Conf::of_study(&[setting("osd", "a", "x ; y"), setting("osd", "b", "C:\\dir\\")]);
        conf.must("osd", "log_file", "/a#b/log");
        let lines = "[osd]\nlog_file = /a\\#b/log\na = x \\; y\nb = C:\\\\dir\\\\\n";
        assert_eq!(conf.text().split_once('\n').unwrap().1, lines);
    }

    #[test]
    fn the_last_of_two_values_counts_however_the_name_is_spelled() {
        let settings = [setting("osd", "osd_op_threads", "2"), setting("osd", "osd op threads", "8")];
        let text = Conf::of_study(&settings).text();
        assert!(text.contains("osd op threads = 8\n") && !text.contains("= 2"), "{text}");
    }

    #[test]
    fn a_study_replaces_what_the_lab_would_set_and_keeps_it_in_its_section() {
        let mut conf = Conf::of_study(&[setting("global", "mon max pg per osd", "300")]);
        assert!(!conf.unless_set("mon", "mon_max_pg_per_osd", "100000"));
        assert!(conf.unless_set("global", "osd_crush_chooseleaf_type", "0"));
        assert_eq!(conf.text().matches("max").count(), 1);
    }

    #[test]
    fn what_the_cluster_needs_wins_and_is_said() {
        let mut conf = Conf::of_study(&[setting("osd.0", "log file", "/var/log/x")]);
        conf.must("osd.0", "log_file", "/lab/log/osd.0.log");
        assert_eq!(conf.sets(&["osd.0"], "log_file"), Some("/lab/log/osd.0.log"));
        assert_eq!(conf.notes().len(), 1);
        assert!(conf.notes()[0].contains("/var/log/x"));
        let mut conf =
            Conf::of_study(&[setting("osd", "log_file", "/x"), setting("osd", "ms_bind_port_max", "9")]);
        for id in ["osd.0", "osd.1"] {
            conf.must(id, "log_file", format!("/lab/{id}.log"));
            conf.must(id, "ms_bind_port_max", "9");
        }
        assert_eq!(
            conf.notes().len(),
            1,
            "once for all, and nothing of what is the same: {:?}",
            conf.notes()
        );
    }

    #[test]
    fn a_setting_that_would_change_the_cluster_or_the_file_is_refused() {
        let refused =
            |name: &str, value: &str| check(&setting("global", name, value), Some("filestore")).is_err();
        assert!(refused("mon host", "10.0.0.1"));
        assert!(refused("auth_client_required", "cephx"));
        assert!(!refused("auth_client_required", "none"));
        assert!(refused("osd_objectstore", "bluestore"));
        assert!(!refused("osd_objectstore", "filestore"));
        assert!(refused("debug_osd", "0\n[osd]\nfsid = x"));
        assert!(refused("a=b", "1"));
        assert!(!refused("log_file", "/var/log/ceph/$name.log"));
    }
}
