//! Messages as text, for the trace.

use messages::Message;

pub fn describe(message: &Message) -> String {
    match message {
        Message::OsdOp(op) => {
            let codes: Vec<&str> = op.ops.iter().map(|o| o.code.name().unwrap_or("?")).collect();
            let what = codes.join("+");
            format!("osd_op {} tid {} try {} e{} {what}", op.oid, op.tid, op.retry_attempt, op.epoch)
        }
        Message::OsdOpReply(reply) => {
            let (oid, tid, result, epoch) = (&reply.oid, reply.tid, reply.result, reply.epoch);
            let oid = String::from_utf8_lossy(oid);
            format!("osd_op_reply {oid} tid {tid} try {} = {result} e{epoch}", reply.retry_attempt)
        }
        Message::OsdMap(map) => {
            let epochs: Vec<String> =
                map.maps.keys().chain(map.incremental_maps.keys()).map(|e| e.to_string()).collect();
            format!("osd_map {}", epochs.join(","))
        }
        Message::MonCommand(command) => format!("mon_command {:?}", command.cmd),
        Message::MonCommandAck(ack) => format!("mon_command_ack {} {}", ack.result, ack.status),
        other => other.name().to_string(),
    }
}
