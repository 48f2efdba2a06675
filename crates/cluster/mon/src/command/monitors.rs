//! Commands about several monitors, managers and releases, of which there is one each: what can be answered truly is;
//! what exists only because there are several is refused with the reason.

use types::{Errno, Release};

use super::mon::PERSISTENT;
use super::{Answer, Call, Command, Failure, Run, fail, mon_r};
use crate::fmt::Json;
use crate::mon::Mon;

pub(super) const HELP: &str = "Not here: there is one monitor, which is the manager, too";

const ONE_MONITOR: Run = |_, call| {
    let command = call.args.prefix()?;
    let text =
        format!("'{command}' is for several monitors; this cluster has one, in the process of its OSDs");
    fail(Errno::EOPNOTSUPP, text)
};
const ONE_MANAGER: Run = |_, call| {
    let command = call.args.prefix()?;
    let text = format!(
        "'{command}' is for Ceph's own managers; here the monitor is the manager, the only one and without modules"
    );
    fail(Errno::EOPNOTSUPP, text)
};

macro_rules! refused {
    ($run:ident: $($prefix:literal,)*) => {
        &[$(Command {
            signature: concat!($prefix, " name=args,type=CephString,n=N,req=false"),
            help: HELP,
            module: "mon",
            perm: "r",
            run: $run,
        }),*]
    };
}

/// Refused: several monitors.
pub(super) const SEVERAL_MONITORS: &[Command] = refused![ONE_MONITOR:
    "mon add",
    "mon enable-msgr2",
    "mon feature set",
    "mon remove",
    "mon rm",
    "mon scrub",
    "mon set",
    "mon set-addrs",
    "mon set-rank",
    "mon set-weight",
    "quorum enter",
    "quorum exit",
    "sync_force",
    "connection scores dump",
    "connection scores reset",
];

/// Refused: managers of their own, and their modules.
pub(super) const MANAGERS: &[Command] = refused![ONE_MANAGER:
    "mgr fail",
    "mgr module disable",
    "mgr module enable",
    "mgr module force disable",
    "mgr set down",
    "mgr self-test",
];

pub(super) const COMMANDS: &[Command] = &[
    mon_r("mon feature ls name=with_value,type=CephBool,req=false", "Features of the monitor map", features),
    mon_r(
        "mon ok-to-stop name=ids,type=CephString,n=N",
        "Whether monitors can stop (the only one can't)",
        |mon, call| {
            let ids = call.args.list("ids")?;
            if !ids.iter().any(|id| is_me(mon, id)) {
                return Ok(Answer::status("quorum should be preserved after stopping none of the monitors"));
            }
            let text =
                format!("not enough monitors would be available () after stopping mons [{}]", ids.join(","));
            fail(Errno::EBUSY, text)
        },
    ),
    mon_r(
        "mon ok-to-rm name=id,type=CephString",
        "Whether a monitor can be removed (the only one can't)",
        |mon, call| {
            let id = call.args.required("id")?;
            if is_me(mon, &id) {
                return fail(Errno::EBUSY, format!("removing mon.{id} would break quorum"));
            }
            Ok(Answer::status(format!("mon.{id} does not exist")))
        },
    ),
    mon_r("mon ok-to-add-offline", "Whether a monitor can be added (none can)", |_, _| {
        fail(Errno::EBUSY, "adding a monitor may break quorum (until that monitor starts)")
    }),
    Command {
        signature: "osd require-osd-release name=release,type=CephChoices,strings=octopus|pacific|quincy|reef|squid|tentacle name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "The oldest release that OSDs must be (only the present one)",
        module: "osd",
        perm: "rw",
        run: |mon, call| {
            let (wanted, now) = (call.args.required("release")?, mon.osdmap.require_osd_release.name());
            if wanted == now {
                return Ok(Answer::default());
            }
            if !(Release::OCTOPUS.0..=Release::TENTACLE.0).any(|release| Release(release).name() == wanted) {
                return fail(Errno::EINVAL, format!("'{wanted}' is not a release"));
            }
            fail(
                Errno::EPERM,
                format!(
                    "not all up OSDs have CEPH_FEATURE_SERVER_{}: they are of {now}",
                    wanted.to_uppercase()
                ),
            )
        },
    },
    Command {
        signature: "osd stop name=ids,type=CephString,n=N",
        help: "Not here: loligo stop DIR --osd N",
        module: "osd",
        perm: "r",
        run: |_, _| {
            fail(
                Errno::EOPNOTSUPP,
                "OSDs are stopped where they run: `loligo stop DIR --osd N`, and started by `loligo start`",
            )
        },
    },
];

fn is_me(mon: &Mon, id: &str) -> bool {
    id.strip_prefix("mon.").unwrap_or(id) == mon.config.name
}

fn features(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let all = || Json::array(PERSISTENT);
    let json = || {
        let known = Json::object().with("supported", all()).with("persistent", all());
        let map = Json::object()
            .with("persistent", all())
            .with("optional", Json::Array(vec![]))
            .with("required", all());
        Json::object().with("all", known).with("monmap", map)
    };
    let text = || {
        let all = PERSISTENT.join(",");
        format!(
            "all features\n\tsupported: [{all}]\n\tpersistent: [{all}]\non current monmap (epoch {})\n\tpersistent: [{all}]\n\trequired: [{all}]\n",
            mon.monmap.epoch.0
        )
    };
    Ok(call.show(json, text))
}
