//! Asks the process that serves a directory, at its DIR/loligo.sock (`host::control` has the protocol).

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use runtime::SocketPath;
use serde_json::{Value, json};

/// Why there is no answer.
#[derive(Debug)]
pub enum AskError {
    /// The socket is not there, or gave nothing that can be read.
    Io(io::Error),
    /// It answered, and not in this protocol: another build serves the directory.
    OtherBuild,
    /// It refused, and says why.
    Refused(String),
}

/// Sends a request (its member `request` and its arguments) and answers what came.
pub fn ask(dir: &Path, mut request: Value, timeout: Duration) -> Result<Value, AskError> {
    request["loligo"] = host::CONTROL_VERSION.into();
    let text = talk(dir, &request, timeout).map_err(AskError::Io)?;
    let answer: Value = serde_json::from_str(&text).map_err(|_| AskError::OtherBuild)?;
    match (answer["ok"].as_bool(), answer["error"].as_str()) {
        (Some(true), _) => Ok(answer),
        (Some(false), Some(error)) => Err(AskError::Refused(error.to_owned())),
        _ => Err(AskError::OtherBuild),
    }
}

fn talk(dir: &Path, request: &Value, timeout: Duration) -> io::Result<String> {
    let mut stream = UnixStream::connect(SocketPath::of(&dir.join("loligo.sock"))?.as_path())?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// The running process's status; null if it gives none.
pub fn status(dir: &Path) -> Value {
    let answer = ask(dir, json!({ "request": "status" }), Duration::from_secs(5));
    answer.map_or(Value::Null, |mut answer| answer["status"].take())
}

/// Has the process do something to one of its OSDs: what it says of that, or why it does not.
pub fn osd(dir: &Path, request: Value, timeout: Duration) -> Result<String, String> {
    let (what, shown) = (request["osd"].clone(), dir.display());
    match ask(dir, request, timeout) {
        Ok(answer) => Ok(answer["text"].as_str().unwrap_or_default().to_owned()),
        Err(AskError::Refused(reason)) => Err(reason),
        Err(AskError::OtherBuild) => Err(format!(
            "{shown} is served by another build of loligo, which does not know this request; stop it and start it again"
        )),
        Err(AskError::Io(error))
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
        {
            Err(format!(
                "osd.{what}: no answer within {} s; `loligo status {shown}` says how it is",
                timeout.as_secs()
            ))
        }
        Err(AskError::Io(error)) => Err(format!("{}: {error}", dir.join("loligo.sock").display())),
    }
}
