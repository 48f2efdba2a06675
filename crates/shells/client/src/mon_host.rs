//! Where the monitors are: `mon_host`, and the ceph.conf that has it.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use options::ConfFile;
use types::{EntityAddr, EntityAddrVec};

use crate::ClientError;

/// A monitor's port of messenger 2, and that of messenger 1, where it listens on both.
const PORT_V2: u16 = 3300;
const PORT_V1: u16 = 6789;

/// The ceph.conf that Ceph's programs would read: `named` (of the command line), or CEPH_CONF's, or the first that exists
/// of /etc/ceph, ~/.ceph and the working directory.
///
/// # Errors
/// No file is named and none is there.
pub fn find_conf(named: Option<&Path>) -> Result<PathBuf, ClientError> {
    let from_env = std::env::var_os("CEPH_CONF").map(PathBuf::from);
    if let Some(conf) = named.map(Path::to_path_buf).or(from_env) {
        return Ok(conf);
    }
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".ceph/ceph.conf"));
    let usual: Vec<PathBuf> =
        [Some("/etc/ceph/ceph.conf".into()), home, Some("ceph.conf".into())].into_iter().flatten().collect();
    let listed = || usual.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    usual.iter().find(|path| path.exists()).cloned().ok_or_else(|| ClientError::NoConf(listed()))
}

/// The monitors that a ceph.conf names.
///
/// # Errors
/// The file cannot be read, or names none.
pub fn monitors_of_conf(path: &Path) -> Result<Vec<EntityAddrVec>, ClientError> {
    let text = std::fs::read_to_string(path).map_err(|e| ClientError::ReadConf(path.into(), e))?;
    let conf = ConfFile::parse(&text).map_err(|e| ClientError::ParseConf(path.into(), e))?;
    let sections = ["global", "client"];
    let hosts = conf.for_sections(&sections).filter(|(name, _)| *name == "mon_host").last();
    match hosts {
        Some((_, hosts)) => parse_mon_host(hosts),
        None => Err(ClientError::NoMonHost(path.into())),
    }
}

/// Reads a list of monitors as Ceph's `mon_host` has it: addresses or names, with or without a port, or
/// `[v2:ADDR:PORT/0,v1:...]`, separated by commas, semicolons or blanks. Only addresses of messenger 2 count.
///
/// # Errors
/// Nothing in it is a monitor's address, or a name cannot be resolved.
pub fn parse_mon_host(text: &str) -> Result<Vec<EntityAddrVec>, ClientError> {
    let mut monitors = Vec::new();
    for item in items(text) {
        let bad = |why: &str| ClientError::BadMonHost { text: item.into(), why: why.into() };
        let inner = item.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let found = match inner.filter(|inner| inner.contains("v1:") || inner.contains("v2:")) {
            Some(inner) => inner.split(',').find(|part| !part.trim().starts_with("v1:")),
            None => Some(item),
        };
        let found = found.ok_or_else(|| bad("it has no messenger 2 address"))?;
        for addr in resolve(found.trim()).map_err(|why| bad(&why))? {
            monitors.push(EntityAddr::v2(addr, 0).into());
        }
    }
    match monitors.is_empty() {
        true => Err(ClientError::BadMonHost { text: text.into(), why: "it is empty".into() }),
        false => Ok(monitors),
    }
}

/// The monitors of a list: what separates them does not count within brackets.
fn items(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let parts = text.split(move |c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        depth == 0 && (matches!(c, ',' | ';') || c.is_whitespace())
    });
    parts.filter(|part| !part.is_empty()).collect()
}

fn resolve(text: &str) -> Result<Vec<SocketAddr>, String> {
    if text.starts_with("v1:") {
        return Err("it has no messenger 2 address".into());
    }
    let text = text.strip_prefix("v2:").unwrap_or(text);
    let text = text.split_once('/').map_or(text, |(addr, _nonce)| addr);
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, PORT_V2)]);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| format!("'{port}' is not a port"))?),
        None => (text, PORT_V2),
    };
    // A monitor that is named by messenger 1's usual port has messenger 2 on its own.
    let port = if port == PORT_V1 { PORT_V2 } else { port };
    if let Ok(ip) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let found: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|error| format!("host '{host}': {error}"))?.collect();
    if found.is_empty() { Err(format!("host '{host}' has no address")) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        let all = parse_mon_host(text).unwrap();
        all.iter().map(|addrs| addrs.v2().unwrap().socket.unwrap().to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_form_of_mon_host_is_read() {
        for (text, want) in [
            ("10.0.0.1", "10.0.0.1:3300"),
            ("10.0.0.1:3301", "10.0.0.1:3301"),
            ("10.0.0.1:6789", "10.0.0.1:3300"),
            ("[v2:127.0.0.1:40001/0]", "127.0.0.1:40001"),
            ("[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]", "10.0.0.1:3300"),
            ("[v1:10.0.0.1:6789/0,v2:10.0.0.1:3301/0]", "10.0.0.1:3301"),
            ("[v2:10.0.0.1:3300,v1:10.0.0.1:6789],[v2:10.0.0.2:3300]", "10.0.0.1:3300 10.0.0.2:3300"),
            ("v2:10.0.0.1:5/0 ; 10.0.0.2,10.0.0.3", "10.0.0.1:5 10.0.0.2:3300 10.0.0.3:3300"),
            ("::1", "[::1]:3300"),
            ("[::1]", "[::1]:3300"),
            ("[::1]:3301", "[::1]:3301"),
            ("[v2:[::1]:3302/0]", "[::1]:3302"),
        ] {
            assert_eq!(parsed(text), want, "{text}");
        }
    }

    #[test]
    fn what_names_no_monitor_says_why() {
        for (text, why) in [
            ("", "it is empty"),
            ("v1:10.0.0.1:6789/0", "no messenger 2 address"),
            ("[v1:10.0.0.1:6789/0]", "no messenger 2 address"),
            ("10.0.0.1:70000", "'70000' is not a port"),
        ] {
            let error = parse_mon_host(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
