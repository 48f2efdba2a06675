//! How a client authenticates: what ceph.conf asks for, and the key that goes with its name.

use std::io;
use std::path::{Path, PathBuf};

use auth::CryptoKey;
use options::ConfFile;
use types::EntityId;

use crate::ClientError;

/// Where Ceph's programs look for a key (the default of the option `keyring`).
const KEYRINGS: &str =
    "/etc/ceph/$cluster.$name.keyring,/etc/ceph/$cluster.keyring,/etc/ceph/keyring,/etc/ceph/keyring.bin";

/// How a client authenticates.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    /// Not at all; a cluster with cephx refuses that. The text says why there is no key.
    #[default]
    None,
    /// By a key; `or_none`: a cluster that has no cephx will do.
    Cephx { key: CryptoKey, or_none: bool },
}

impl Credentials {
    /// As Ceph's programs find them: by the options auth_client_required, key, keyfile and keyring of `conf`, the file
    /// `keyring` (or CEPH_KEYRING's) before those of the options. Without a key a client has no authentication, unless
    /// a file was named or cephx is required.
    ///
    /// # Errors
    /// What a file that was named has is no key, or one that is required is not there.
    pub fn find(conf: Option<&Path>, keyring: Option<&Path>, entity: &EntityId) -> Result<Self, ClientError> {
        let settings = Settings::read(conf, entity)?;
        let methods = settings.get("auth_client_required").unwrap_or("cephx, none");
        let allows = |name| methods.split([',', ';', ' ']).any(|method| method == name);
        if !allows("cephx") && keyring.is_none() {
            return Ok(Self::None);
        }
        let from_env = || std::env::var_os("CEPH_KEYRING").map(PathBuf::from);
        let found = match keyring.map(Path::to_path_buf).or_else(from_env) {
            Some(named) => key_in(&named, entity)?,
            None => settings.key(entity)?,
        };
        match found {
            Some(key) => Ok(Self::Cephx { key, or_none: allows("none") }),
            None if allows("none") => Ok(Self::None),
            None => Err(ClientError::NoKey {
                entity: entity.clone(),
                tried: settings.keyrings(entity).join(", "),
            }),
        }
    }
}

/// The settings of a ceph.conf that apply to a client.
struct Settings {
    conf: ConfFile,
    sections: Vec<String>,
    /// Of the file's name.
    cluster: String,
}

impl Settings {
    fn read(path: Option<&Path>, entity: &EntityId) -> Result<Self, ClientError> {
        let conf = match path {
            None => ConfFile::default(),
            Some(path) => {
                let text =
                    std::fs::read_to_string(path).map_err(|e| ClientError::ReadConf(path.into(), e))?;
                ConfFile::parse(&text).map_err(|e| ClientError::ParseConf(path.into(), e))?
            }
        };
        let stem = path.and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
        let sections = vec!["global".into(), kind_of(entity), entity.to_string()];
        Ok(Self { conf, sections, cluster: stem.unwrap_or_else(|| "ceph".into()) })
    }

    fn get(&self, name: &str) -> Option<&str> {
        let sections = self.sections.iter().rev();
        let mut found = sections.filter_map(|wanted| {
            self.conf.all().filter(|(section, key, _)| section == wanted && *key == name).last()
        });
        found.next().map(|(_, _, value)| value)
    }

    fn key(&self, entity: &EntityId) -> Result<Option<CryptoKey>, ClientError> {
        if let Some(text) = self.get("key") {
            return parse(text, Path::new("the option key")).map(Some);
        }
        if let Some(path) = self.get("keyfile") {
            let path = PathBuf::from(self.expand(path, entity));
            let text =
                std::fs::read_to_string(&path).map_err(|e| ClientError::ReadKeyring(path.clone(), e))?;
            return parse(&text, &path).map(Some);
        }
        // As Ceph does: the first file that is there counts.
        let first = self.keyrings(entity).into_iter().map(PathBuf::from).find(|path| path.exists());
        match first.map(|path| key_in(&path, entity)) {
            // Another user's file, which this client was not told to use.
            Some(Err(ClientError::ReadKeyring(_, e))) if e.kind() == io::ErrorKind::PermissionDenied => {
                Ok(None)
            }
            Some(Err(ClientError::NotInKeyring { .. })) | None => Ok(None),
            Some(found) => found,
        }
    }

    fn keyrings(&self, entity: &EntityId) -> Vec<String> {
        let all = self.get("keyring").unwrap_or(KEYRINGS);
        let paths = all.split([',', ';', ' ']).filter(|path| !path.is_empty());
        paths.map(|path| self.expand(path, entity)).collect()
    }

    /// Replaces the variables that Ceph's options may have.
    fn expand(&self, text: &str, entity: &EntityId) -> String {
        let (name, kind) = (entity.to_string(), kind_of(entity));
        [("cluster", &self.cluster), ("name", &name), ("type", &kind), ("id", &entity.id)].into_iter().fold(
            text.to_owned(),
            |text, (variable, value)| {
                text.replace(&format!("${{{variable}}}"), value).replace(&format!("${variable}"), value)
            },
        )
    }
}

/// What is before the dot.
fn kind_of(entity: &EntityId) -> String {
    let name = entity.to_string();
    name.split_once('.').map_or(name.clone(), |(kind, _)| kind.to_owned())
}

/// The key that a keyring has for an entity.
fn key_in(path: &Path, entity: &EntityId) -> Result<Option<CryptoKey>, ClientError> {
    let text = std::fs::read_to_string(path).map_err(|e| ClientError::ReadKeyring(path.into(), e))?;
    let keyring = ConfFile::parse(&text).map_err(|e| ClientError::ParseConf(path.into(), e))?;
    let name = entity.to_string();
    let key = keyring.all().find(|(section, setting, _)| *section == name && *setting == "key");
    match key {
        Some((_, _, text)) => parse(text, path).map(Some),
        None => Err(ClientError::NotInKeyring { path: path.into(), entity: entity.clone() }),
    }
}

fn parse(text: &str, path: &Path) -> Result<CryptoKey, ClientError> {
    CryptoKey::parse(text).map_err(|error| ClientError::BadKey { path: path.into(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AQCgzgNr6fJgKRAA8Y4LVxO9p3MmcKab/6VFbQ==";

    fn admin() -> EntityId {
        "client.admin".parse().unwrap()
    }

    /// What is found in a directory with these files: `DIR` in a text stands for it.
    fn found(files: &[(&str, &str)], named: Option<&str>) -> Result<Credentials, String> {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().display().to_string();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text.replace("DIR", &place)).unwrap();
        }
        let named = named.map(|name| dir.path().join(name));
        let result = Credentials::find(Some(&dir.path().join("x.conf")), named.as_deref(), &admin());
        result.map_err(|error| error.to_string().replace(&place, "DIR"))
    }

    #[test]
    fn a_key_is_found_where_cephs_programs_find_it() {
        let keyring =
            format!("[client.other]\nkey = bad\n[client.admin]\n\tkey = {KEY}\n\tcaps mon = \"allow *\"\n");
        let names = "[global]\nkeyring = DIR/none,DIR/$cluster.$name.keyring\n";
        for (files, named) in [
            (vec![("x.conf", names), ("x.client.admin.keyring", &keyring)], None),
            (vec![("x.conf", ""), ("k", &keyring)], Some("k")),
            (vec![("x.conf", &format!("[client]\nkey = {KEY}")), ("k", "")], None),
            (vec![("x.conf", "[client.admin]\nkeyfile = DIR/$id.key"), ("admin.key", KEY)], None),
        ] {
            let found = found(&files, named);
            assert!(matches!(found, Ok(Credentials::Cephx { or_none: true, .. })), "{files:?}: {found:?}");
        }
    }

    #[test]
    fn what_ceph_conf_requires_is_done_or_refused() {
        let keyring = format!("[client.admin]\nkey = {KEY}\n");
        let with = |conf: &str| found(&[("x.conf", conf), ("k", &keyring)], None);
        let none = with("[global]\nkeyring = DIR/k\nauth_client_required = none");
        assert!(matches!(none, Ok(Credentials::None)));
        let only = with("[global]\nkeyring = DIR/k\nauth client required = cephx");
        assert!(matches!(only, Ok(Credentials::Cephx { or_none: false, .. })));
        let error = with("[global]\nkeyring = DIR/gone\nauth_client_required = cephx").unwrap_err();
        assert!(error.contains("no key for client.admin") && error.contains("DIR/gone"), "{error}");
        assert!(matches!(with("[global]\nkeyring = DIR/gone"), Ok(Credentials::None)));
    }

    #[test]
    fn a_keyring_that_was_named_must_have_the_key() {
        let conf = ("x.conf", "");
        for (files, why) in [
            (vec![conf], "DIR/k"),
            (vec![conf, ("k", "[client.other]\nkey = x\n")], "no key for client.admin"),
            (vec![conf, ("k", "[client.admin]\nkey = x\n")], "not base64"),
            (vec![conf, ("k", "junk")], "neither a section nor"),
        ] {
            let error = found(&files, Some("k")).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
