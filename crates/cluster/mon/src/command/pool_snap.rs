//! Commands for the snapshots of pools.

use super::pool::find;
use super::{Answer, Call, Command, Failure};
use crate::mon::Mon;

pub(super) static COMMANDS: &[Command] = &[
    Command {
        signature: "osd pool mksnap name=pool,type=CephPoolname name=snap,type=CephString",
        help: "Take a snapshot of a pool",
        module: "osd",
        perm: "rw",
        run: make,
    },
    Command {
        signature: "osd pool rmsnap name=pool,type=CephPoolname name=snap,type=CephString",
        help: "Remove a snapshot of a pool",
        module: "osd",
        perm: "rw",
        run: remove,
    },
];

fn make(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (pool, snap) = (call.args.required("pool")?, call.args.required("snap")?);
    let id = find(mon, &pool)?;
    Ok(Answer::status(match mon.make_pool_snap(call.now, id, &snap)? {
        true => format!("created pool {pool} snap {snap}"),
        false => format!("pool {pool} snap {snap} already exists"),
    }))
}

fn remove(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (pool, snap) = (call.args.required("pool")?, call.args.required("snap")?);
    let id = find(mon, &pool)?;
    Ok(Answer::status(match mon.remove_pool_snap(call.now, id, snap.as_bytes())? {
        true => format!("removed pool {pool} snap {snap}"),
        false => format!("pool {pool} snap {snap} does not exist"),
    }))
}
