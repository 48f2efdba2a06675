//! Unix sockets by paths of any length.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

/// Bytes of the longest path that a Unix socket's address holds, without the zero byte at its end.
const ADDRESS_MAX: usize = 107;

/// A path to bind or connect a Unix socket by, as long as this lives. One too long for an address is named by its open directory.
pub struct SocketPath {
    path: PathBuf,
    _dir: Option<OwnedFd>,
}

impl SocketPath {
    /// # Errors
    /// The path is too long, and its directory can't be opened.
    pub fn of(path: &Path) -> io::Result<Self> {
        let short = path.as_os_str().len() <= ADDRESS_MAX;
        let (Some(parent), Some(name), false) = (path.parent(), path.file_name(), short) else {
            return Ok(Self { path: path.to_owned(), _dir: None });
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let dir = open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
        Ok(Self { path, _dir: Some(dir) })
    }

    pub fn as_path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_socket_is_served_and_found_by_a_path_of_any_length() {
        let tmp = std::env::temp_dir().join(format!("socket-path-{}", std::process::id()));
        for dir in [tmp.clone(), tmp.join("d".repeat(200)).join("e".repeat(200))] {
            std::fs::create_dir_all(&dir).unwrap();
            let path = dir.join("a.sock");
            let listener = UnixListener::bind(SocketPath::of(&path).unwrap().as_path()).unwrap();
            let mut client = UnixStream::connect(SocketPath::of(&path).unwrap().as_path()).unwrap();
            client.write_all(b"x").unwrap();
            let mut got = [0];
            listener.accept().unwrap().0.read_exact(&mut got).unwrap();
            assert_eq!((&got, path.exists()), (b"x", true));
        }
        std::fs::remove_dir_all(tmp).unwrap();
        let missing = Path::new("/no such directory").join("n".repeat(200));
        assert_eq!(SocketPath::of(&missing).map(drop).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
