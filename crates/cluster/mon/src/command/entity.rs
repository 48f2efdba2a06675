//! `auth …`: with method none there is one entity, which may do everything.

use types::Errno;

use super::{Answer, Call, Command, Failure, fail};
use crate::fmt::Json;
use crate::mon::Mon;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "auth ls",
        help: "Entities and what they may do",
        module: "auth",
        perm: "rx",
        run: ls,
    },
    Command {
        signature: "auth get name=entity,type=CephString",
        help: "An entity and what it may do",
        module: "auth",
        perm: "rx",
        run: get,
    },
];

const ADMIN: &str = "client.admin";
const DAEMONS: [&str; 4] = ["mds", "mgr", "mon", "osd"];

fn admin_json() -> Json {
    let caps = DAEMONS.iter().fold(Json::object(), |out, daemon| out.with(daemon, "allow *"));
    Json::object().with("entity", ADMIN).with("key", "").with("caps", caps)
}

fn ls(_: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let text = || {
        let caps: String = DAEMONS.iter().map(|daemon| format!("\tcaps: [{daemon}] allow *\n")).collect();
        format!("{ADMIN}\n{caps}")
    };
    Ok(call.show(|| Json::object().with("auth_dump", Json::Array(vec![admin_json()])), text))
}

fn get(_: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let entity = call.args.required("entity")?;
    if entity != ADMIN {
        return fail(Errno::ENOENT, format!("there is no entity '{entity}'"));
    }
    let text = || {
        let caps: String = DAEMONS.iter().map(|daemon| format!("\tcaps {daemon} = \"allow *\"\n")).collect();
        format!("[{ADMIN}]\n{caps}")
    };
    Ok(call.show(|| Json::Array(vec![admin_json()]), text))
}
