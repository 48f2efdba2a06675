//! Commands about what a cluster of ours does not have: file systems, crash reports, devices, a balancer.
//! What is truly empty is answered empty, in the shapes of Ceph's programs; what can't be done says so.

use types::Errno;

use super::{Answer, Call, Command, Failure, Format, Run, fail, mon_r};
use crate::fmt::Json;
use crate::mon::Mon;

/// A command that has nothing behind it yet.
const fn refused(signature: &'static str, run: Run) -> Command {
    Command { signature, help: "Not supported yet", module: "mon", perm: "r", run }
}

const NO_BALANCER: Run =
    |_, _| fail(Errno::EOPNOTSUPP, "the balancer is not supported yet; PGs stay where CRUSH places them");
pub(super) const NO_NEW_OSDS: Run = |_, _| {
    fail(
        Errno::EOPNOTSUPP,
        "OSDs come with the cluster: their number is given to `loligo up` when it is made",
    )
};

pub(super) const COMMANDS: &[Command] = &[
    mon_r("fs ls", "File systems (there are none)", |_, call| {
        Ok(call.show(|| Json::Array(vec![]), || "No filesystems enabled\n".into()))
    }),
    mon_r(
        "fs dump name=epoch,type=CephInt,range=0,req=false",
        "The map of file systems (there are none)",
        fs_dump,
    ),
    mon_r("fs get name=fs_name,type=CephString", "A file system (there are none)", |_, call| {
        fail(Errno::ENOENT, format!("filesystem '{}' not found", call.args.required("fs_name")?))
    }),
    mon_r("fs status name=fs,type=CephString,req=false", "File systems (there are none)", fs_status),
    mon_r("mds stat", "Metadata servers (there are none)", |_, call| {
        let json = || fsmap_json_parts().with("mdsmap_first_committed", 1).with("mdsmap_last_committed", 1);
        Ok(explained(call, call.show(json, || "\n".into()), "there are no metadata servers"))
    }),
    mon_r(
        "mds metadata name=who,type=CephString,req=false",
        "Metadata servers (there are none)",
        |_, call| Ok(call.show_json(Json::Array(vec![]))),
    ),
    mon_r("mds versions", "Versions of the metadata servers (there are none)", |_, call| {
        Ok(call.show_json(Json::object()))
    }),
    mon_r("crash ls", "Crash reports (none are collected)", |_, call| {
        Ok(explained(call, call.show(|| Json::Array(vec![]), String::new), "no crash reports are collected"))
    }),
    mon_r("crash stat", "How many crash reports there are (none are collected)", |_, call| {
        Ok(call.show(|| Json::object().with("crashes", 0), || "0 crashes recorded\n".into()))
    }),
    mon_r("device ls", "Devices whose health is watched (none are)", |_, call| {
        let heading = "DEVICE  HOST:DEV  DAEMONS  WEAR  LIFE EXPECTANCY\n";
        Ok(call.show(|| Json::Array(vec![]), || heading.into()))
    }),
    mon_r("progress", "Long tasks of the manager (there are none)", |_, call| {
        Ok(call.show(nothing_in_progress, || "Nothing in progress\n".into()))
    }),
    mon_r("progress json", "Long tasks of the manager (there are none)", |_, call| {
        Ok(call.show_json(nothing_in_progress()))
    }),
    refused("osd reweight-by-utilization name=oload,type=CephInt,req=false", NO_BALANCER),
    refused("osd create name=uuid,type=CephUUID,req=false name=id,type=CephOsdName,req=false", NO_NEW_OSDS),
];

/// Output that is empty in plain form, with a sentence on the standard error for people who wait for some.
fn explained(call: &Call<'_>, answer: Answer, sentence: &str) -> Answer {
    match call.format {
        Format::Plain => Answer { status: sentence.into(), ..answer },
        Format::Json | Format::JsonPretty => answer,
    }
}

fn nothing_in_progress() -> Json {
    let none = || Json::Array(vec![]);
    Json::object().with("completed", none()).with("events", none())
}

/// What a file system may ask of its clients and servers, by Ceph's numbers.
const COMPAT: [(u32, &str); 9] = [
    (1, "base v0.20"),
    (2, "client writeable ranges"),
    (3, "default file layouts on dirs"),
    (4, "dir inode in separate object"),
    (5, "mds uses versioned encoding"),
    (6, "dirfrag is stored in omap"),
    (8, "no anchor table"),
    (9, "file layout v2"),
    (10, "snaprealm v2"),
];

fn fsmap_json_parts() -> Json {
    Json::object().with("fsmap", fsmap_json())
}

pub(super) fn fsmap_json() -> Json {
    let incompat = COMPAT
        .iter()
        .fold(Json::object(), |out, (number, name)| out.with(&format!("feature_{number}"), *name));
    let compat = Json::object()
        .with("compat", Json::object())
        .with("ro_compat", Json::object())
        .with("incompat", incompat);
    let flags = Json::object().with("enable_multiple", true).with("ever_enabled_multiple", true);
    Json::object()
        .with("epoch", 1)
        .with("default_fscid", -1)
        .with("compat", compat)
        .with("feature_flags", flags)
        .with("standbys", Json::Array(vec![]))
        .with("filesystems", Json::Array(vec![]))
}

fn fs_dump(_: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    if let Some(epoch) = call.args.int("epoch")?.filter(|epoch| *epoch > 1) {
        return fail(Errno::ENOENT, format!("there is no map of file systems of epoch {epoch}"));
    }
    let text = || {
        let incompat: Vec<String> = COMPAT.iter().map(|(number, name)| format!("{number}={name}")).collect();
        format!(
            "e1\nenable_multiple, ever_enabled_multiple: 1,1\ndefault compat: compat={{}},rocompat={{}},\
             incompat={{{}}}\nlegacy client fscid: -1\n \nNo filesystems configured\n",
            incompat.join(",")
        )
    };
    let mut answer = call.show(fsmap_json, text);
    answer.status = "dumped fsmap epoch 1".into();
    Ok(answer)
}

fn fs_status(_: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    match call.args.text("fs")?.filter(|name| !name.is_empty()) {
        Some(name) => fail(Errno::EINVAL, format!("there is no file system '{name}'")),
        None => Ok(explained(call, call.show(Json::object, String::new), "there are no file systems")),
    }
}
