//! Where stores live, in a study file: `directory`, or a map with one of `image`, `devices`, `loop`, `modelled`.

use std::fmt;
use std::path::PathBuf;

use devmodel::ModelError;
use text::format_bytes_exact;

use crate::fields::{Fields, map, text, unknown, word};
use crate::model::{DeviceModel, FileSystem, FsKind, Place, Setting};
use crate::node::{Entry, Node, Value};
use crate::problem::{ProblemKind, Problems};
use crate::settings;

const KINDS: [&str; 4] = ["image", "devices", "loop", "modelled"];
const FILE_SYSTEMS: [(&str, FsKind); 4] =
    [("btrfs", FsKind::Btrfs), ("ext2", FsKind::Ext2), ("ext4", FsKind::Ext4), ("xfs", FsKind::Xfs)];
/// What comes before `-write-back` in a model's name.
const MODELS: [&str; 3] = ["disk-7200", "ssd", "raid0-of-N"];

/// Bytes that a modelled device has at most: far above any disk that a model is of.
pub const MODELLED_MAX: u64 = 64 << 40;

/// As results and comparisons have it, sizes exactly: `loop 4 GiB xfs (-f; noatime)`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fs = match self {
            Self::Directory => return f.write_str("directory"),
            Self::Image { size } => return write!(f, "image {}", format_bytes_exact(*size)),
            Self::Devices { paths, fs } => {
                f.write_str("devices")?;
                paths.iter().try_for_each(|path| write!(f, " {}", path.display()))?;
                fs
            }
            Self::Loop { size, fs } => {
                write!(f, "loop {}", format_bytes_exact(*size))?;
                fs
            }
            Self::Modelled { model, size, fs } => {
                write!(f, "modelled {}", model.name)?;
                model.parameters.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))?;
                write!(f, " {}", format_bytes_exact(*size))?;
                fs
            }
        };
        match fs {
            None => Ok(()),
            Some(FileSystem { kind, mkfs, mount }) if mkfs.is_empty() && mount.is_empty() => {
                write!(f, " {}", kind.name())
            }
            Some(FileSystem { kind, mkfs, mount }) => write!(f, " {} ({mkfs}; {mount})", kind.name()),
        }
    }
}

/// A place, and what its file system brings along.
#[derive(Clone)]
pub(crate) struct ResolvedPlace {
    pub(crate) place: Place,
    /// What distinguishes it from the others of a list.
    pub(crate) name: String,
    /// Options that this file system needs.
    pub(crate) settings: Vec<Setting>,
}

impl ResolvedPlace {
    /// The place of a system that names none.
    pub(crate) fn directory() -> Self {
        Self { place: Place::Directory, name: String::new(), settings: Vec::new() }
    }
}

/// A file system with its name in a list and its options.
#[derive(Clone)]
struct Fs {
    fs: Option<FileSystem>,
    name: String,
    settings: Vec<Setting>,
}

/// Reads a place: one for each of its file systems. Empty if it is wrong.
pub(crate) fn read(node: &Node, what: &str, p: &mut Problems) -> Vec<ResolvedPlace> {
    if let Value::Text { text, .. } = &node.value {
        if text == "directory" {
            return vec![ResolvedPlace::directory()];
        }
        let known: Vec<&str> = ["directory"].into_iter().chain(KINDS).collect();
        unknown("place", text, &known, node.at, p);
        return Vec::new();
    }
    let Some(fields) = Fields::of(node, what, &KINDS, p) else { return Vec::new() };
    let Some(entry) = fields.one_of(&KINDS, p) else { return Vec::new() };
    let before = p.count();
    let made = kind(entry, p).unwrap_or_default();
    if p.count() > before { Vec::new() } else { made }
}

/// A place of the kind that the key names.
fn kind(entry: &Entry, p: &mut Problems) -> Option<Vec<ResolvedPlace>> {
    let node = &entry.node;
    match entry.key.as_str() {
        "image" => {
            let fields = Fields::of(node, "image", &["size"], p)?;
            fields.need(&["size"], p);
            Some(vec![ResolvedPlace {
                place: Place::Image { size: fields.size("size", p)? },
                ..ResolvedPlace::directory()
            }])
        }
        "devices" => {
            let fields = Fields::of(node, "devices", &["paths", "fs"], p)?;
            fields.need(&["paths"], p);
            let paths: Vec<PathBuf> =
                fields.texts("paths", p).unwrap_or_default().into_iter().map(PathBuf::from).collect();
            Some(each(&fields, p, |fs| Place::Devices { paths: paths.clone(), fs }))
        }
        "loop" => {
            let fields = Fields::of(node, "loop", &["size", "fs"], p)?;
            fields.need(&["size"], p);
            let size = fields.size("size", p).unwrap_or(1);
            Some(each(&fields, p, |fs| Place::Loop { size, fs }))
        }
        _ => {
            let fields = Fields::of(node, "modelled", &["model", "parameters", "size", "fs"], p)?;
            fields.need(&["model", "size"], p);
            let size = fields.size_up_to("size", MODELLED_MAX, p).unwrap_or(1 << 40);
            let name = model_name(&fields, p);
            let parameters = parameters(&fields, &name, size, p);
            let model = DeviceModel { name, parameters };
            Some(each(&fields, p, |fs| Place::Modelled { model: model.clone(), size, fs }))
        }
    }
}

/// A place for each file system of the key `fs`, or one without.
fn each(
    fields: &Fields<'_>,
    p: &mut Problems,
    place: impl Fn(Option<FileSystem>) -> Place,
) -> Vec<ResolvedPlace> {
    let none = || Fs { fs: None, name: "raw".into(), settings: Vec::new() };
    let systems = match fields.one_or_more("fs", p) {
        None => vec![none()],
        Some(nodes) => nodes.into_iter().filter_map(|n| file_system(n, p)).collect(),
    };
    systems
        .into_iter()
        .map(|f| ResolvedPlace { place: place(f.fs), name: f.name, settings: f.settings })
        .collect()
}

/// A file system: its name alone, or a map.
fn file_system(node: &Node, p: &mut Problems) -> Option<Fs> {
    if let Value::Text { .. } = node.value {
        let kind = word(node, "file system", &FILE_SYSTEMS, p)?;
        let fs = FileSystem { kind, mkfs: String::new(), mount: String::new() };
        return Some(Fs { fs: Some(fs), name: kind.name().to_owned(), settings: Vec::new() });
    }
    let fields = Fields::of(node, "fs", &["kind", "name", "mkfs", "mount", "settings"], p)?;
    fields.need(&["kind"], p);
    let own = |key: &str, p: &mut Problems| fields.line(key, p).unwrap_or_default().to_owned();
    let (mkfs, mount) = (own("mkfs", p), own("mount", p));
    let name = fields.name("file system", p).unwrap_or_default().to_owned();
    let settings = fields.get("settings").map(|n| settings::read(n, "settings", p)).unwrap_or_default();
    let kind = word(fields.get("kind")?, "file system", &FILE_SYSTEMS, p)?;
    let name = if name.is_empty() { kind.name().to_owned() } else { name };
    Some(Fs { fs: Some(FileSystem { kind, mkfs, mount }), name, settings })
}

/// A model's name. What stands for `N` in the list is told, since users copy it.
fn model_name(fields: &Fields<'_>, p: &mut Problems) -> String {
    let Some(node) = fields.get("model") else { return String::new() };
    let Some(name) = text(node, "model", p) else { return String::new() };
    match devmodel::check(name, &[]) {
        Ok(()) => {}
        Err(_) if name.starts_with("raid0-of-N") => {
            let want = "a number of disks from 2 to 64 in the place of N".to_owned();
            p.add(node.at, ProblemKind::Value { place: "model".into(), text: name.to_owned(), want });
        }
        Err(_) => unknown("device model", name, &MODELS, node.at, p),
    }
    name.to_owned()
}

/// A model's parameters, as written; each is checked alone, then the model with all of them in its size.
fn parameters(fields: &Fields<'_>, model: &str, size: u64, p: &mut Problems) -> Vec<(String, String)> {
    let before = p.count();
    let entries = fields.get("parameters").and_then(|n| map(n, "parameters", p)).unwrap_or_default();
    let value = |e: &Entry, p: &mut Problems| text(&e.node, &e.key, p).map(str::to_owned);
    let all: Vec<(String, String)> =
        entries.iter().filter_map(|e| Some((e.key.clone(), value(e, p)?))).collect();
    if devmodel::check(model, &[]).is_err() {
        // The name is what is wrong.
        return all;
    }
    for entry in entries {
        let Some(pair) = all.iter().find(|(name, _)| *name == entry.key) else { continue };
        match devmodel::check(model, std::slice::from_ref(pair)) {
            Err(ModelError::UnknownParameter { .. }) => {
                let known = devmodel::parameters(model).unwrap_or_default();
                let known: Vec<&str> = known.iter().map(|k| k.name).collect();
                unknown("device parameter", &entry.key, &known, entry.at, p);
            }
            Err(error) => p.add(entry.node.at, ProblemKind::Model(error)),
            Ok(()) => {}
        }
    }
    if p.count() == before {
        if let Err(error) = devmodel::Model::named(model, &all, size) {
            let at = fields.get("size").or(fields.get("model")).map(|n| n.at).unwrap_or_default();
            p.add(at, ProblemKind::Model(error));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_as_it_was_asked_for() {
        let fs = FileSystem {
            kind: FsKind::Xfs,
            mkfs: "-f -i size=2048".to_owned(),
            mount: "inode64,noatime".to_owned(),
        };
        let plain = FileSystem { kind: FsKind::Ext4, mkfs: String::new(), mount: String::new() };
        let model = DeviceModel {
            name: "disk-7200".to_owned(),
            parameters: vec![("rpm".to_owned(), "5400".to_owned())],
        };
        for (place, want) in [
            (Place::Directory, "directory"),
            (Place::Image { size: 3 << 29 }, "image 1536 MiB"),
            (
                Place::Loop { size: 4 << 30, fs: Some(fs) },
                "loop 4 GiB xfs (-f -i size=2048; inode64,noatime)",
            ),
            (
                Place::Devices { paths: vec!["/dev/a".into(), "/dev/b".into()], fs: Some(plain) },
                "devices /dev/a /dev/b ext4",
            ),
            (Place::Modelled { model, size: 1 << 40, fs: None }, "modelled disk-7200 rpm=5400 1 TiB"),
        ] {
            assert_eq!(place.to_string(), want);
        }
    }
}
