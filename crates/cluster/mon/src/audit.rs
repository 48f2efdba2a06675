//! Who had what changed: the cluster log's audit channel, in Ceph's form.

use auth::{SessionId, SessionInfo};
use types::{EntityAddrVec, EntityName, EntityType, UTime};

use crate::command::Args;
use crate::mon::Mon;
use crate::service::log::{AUDIT, CLUSTER, LogLevel, LogLine};

/// Commands whose values can be secrets, and the argument that has it.
const SECRET: [(&str, &str); 2] = [("config set", "value"), ("config-key set", "val")];

/// Who asks for something, for lines of the log.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    /// `client.admin`
    pub entity: String,
    /// `client.4123`
    name: String,
    addrs: String,
}

impl From<&SessionInfo> for Requester {
    fn from(info: &SessionInfo) -> Self {
        let (entity, name) = (info.entity.to_string(), info.name.to_string());
        Self { entity, name, addrs: info.peer_addrs.to_string() }
    }
}

impl Requester {
    /// A line of the cluster channel by the requester itself.
    pub fn line(&self, now: UTime, text: String) -> LogLine {
        LogLine {
            name: self.entity.clone(),
            rank: self.name.clone(),
            addrs: self.addrs.clone(),
            stamp: now,
            seq: 0,
            level: LogLevel::Info,
            channel: CLUSTER.into(),
            text,
        }
    }
}

/// A command's strings as the audit shows them; a value that can be a secret is left out.
pub(crate) fn shown_command<T: AsRef<[u8]>>(parts: &[T]) -> String {
    let text =
        || parts.iter().map(|part| String::from_utf8_lossy(part.as_ref())).collect::<Vec<_>>().join(",");
    // What does not parse has changed nothing, and is not shown.
    let Ok(args) = Args::parse(parts) else { return text() };
    let secret = SECRET.iter().find(|(prefix, _)| args.prefix().is_ok_and(|p| p == *prefix));
    match secret {
        Some((_, name)) => args.text_without(name),
        None => text(),
    }
}

impl Mon {
    pub(crate) fn requester(&self, session: SessionId) -> Option<Requester> {
        self.sessions.get(&session).map(|known| Requester::from(&known.info))
    }

    /// A line of the monitor's own.
    pub(crate) fn own_line(&mut self, now: UTime, level: LogLevel, channel: &str, text: String) -> LogLine {
        self.log_seq += 1;
        LogLine {
            name: format!("mon.{}", self.config.name),
            rank: EntityName::new(EntityType::Mon, 0).to_string(),
            addrs: EntityAddrVec(vec![self.config.addr]).to_string(),
            stamp: now,
            seq: self.log_seq,
            level,
            channel: channel.into(),
            text,
        }
    }

    /// The audit's line of something that a session had changed: `what` is as `cmd='[…]'`.
    pub(crate) fn audit_line(&mut self, now: UTime, session: SessionId, what: &str) -> Option<LogLine> {
        let Requester { entity, name, addrs } = self.requester(session)?;
        let text = format!("from='{name} {addrs}' entity='{entity}' {what}: finished");
        Some(self.own_line(now, LogLevel::Info, AUDIT, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_was_sent_but_for_values_that_can_be_secrets() {
        let pool = r#"{"prefix": "osd pool create", "pool": "p"}"#;
        assert_eq!(shown_command(&[pool]), pool);
        let set = r#"{"prefix":"config-key set","key":"k","val":"secret"}"#;
        assert_eq!(shown_command(&[set]), r#"{"key":"k","prefix":"config-key set"}"#);
    }
}
