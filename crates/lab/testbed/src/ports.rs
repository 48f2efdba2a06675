//! Ports of a cluster: a run of free ones on its address, below those that the kernel hands out by itself.

use std::net::{Ipv4Addr, TcpListener};

use crate::error::{Error, Result};

/// Where runs of ports are looked for.
const RANGE: std::ops::Range<u16> = 10_000..32_000;

/// The ports of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    /// The monitor's (messenger 2); messenger 1's is the next one.
    pub mon: u16,
    /// The first that other servers may take.
    pub first: u16,
    pub last: u16,
}

/// How many ports N OSDs and the other servers take: an OSD has four messengers of two ports each. Half as many
/// again are spare, for those that someone takes meanwhile.
fn needed(osds: u32) -> u16 {
    let all = 2 + (osds.saturating_mul(8)).saturating_add(8) / 2 * 3;
    u16::try_from(all).unwrap_or(u16::MAX)
}

/// The first run of `length` free ports at or behind a place that the seed chooses, going round once.
fn choose(length: u16, seed: u64, is_free: impl Fn(u16) -> bool) -> Option<u16> {
    let span = RANGE.end - RANGE.start;
    let starts = span.checked_sub(length)?;
    let offset = u16::try_from(seed % u64::from(starts.max(1))).ok()?;
    let mut step = 0;
    while step < starts {
        let start = RANGE.start + (offset + step) % starts.max(1);
        match (start..start + length).rev().find(|p| !is_free(*p)) {
            None => return Some(start),
            // No run that holds this port will do.
            Some(taken) => step += taken - start + 1,
        }
    }
    None
}

/// Chooses ports for a cluster at an address of this machine.
///
/// # Errors
/// When there is no run of free ports that is long enough.
pub fn free(listen: Ipv4Addr, osds: u32, seed: u64) -> Result<Ports> {
    let is_free = |port| TcpListener::bind((listen, port)).is_ok();
    let length = needed(osds);
    let mon = choose(length, seed, is_free).ok_or_else(|| Error::Impossible {
        what: format!(
            "no {length} free ports in a row on {listen} between {} and {}",
            RANGE.start, RANGE.end
        ),
    })?;
    Ok(Ports { mon, first: mon + 2, last: mon + length - 1 })
}

/// Checks that an address is one of this machine's.
///
/// # Errors
/// [`Error::Impossible`] with the system's word.
pub fn is_ours(listen: Ipv4Addr) -> Result<()> {
    match TcpListener::bind((listen, 0)) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::Impossible {
            what: format!(
                "servers can't listen at {listen}: {error}; give the study's 'listen' an address of this machine"
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_holds_no_taken_port() {
        let taken = [10_050_u16, 10_120, 31_990];
        for seed in [0, 45, 60, 21_960, 999_999] {
            let start = choose(64, seed, |p| !taken.contains(&p)).unwrap();
            assert!(taken.iter().all(|t| !(start..start + 64).contains(t)), "{seed}: {start}");
            assert!(RANGE.contains(&start) && start + 64 <= RANGE.end);
        }
    }

    #[test]
    fn none_is_found_where_every_run_is_broken() {
        assert_eq!(choose(64, 3, |p| p % 60 != 0), None);
        assert_eq!(choose(40_000, 3, |_| true), None);
    }

    #[test]
    fn different_seeds_give_different_runs() {
        assert_ne!(choose(64, 1000, |_| true), choose(64, 5000, |_| true));
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        assert!(is_ours(Ipv4Addr::LOCALHOST).is_ok());
        // Reserved for documentation: used by no host.
        let error = is_ours(Ipv4Addr::new(192, 0, 2, 1)).unwrap_err().to_string();
        assert!(error.contains("192.0.2.1") && error.contains("'listen'"), "{error}");
    }

    #[test]
    fn a_port_in_use_is_not_chosen() {
        let here = Ipv4Addr::LOCALHOST;
        let ports = free(here, 3, 12).unwrap();
        let _held = TcpListener::bind((here, ports.first)).unwrap();
        assert_ne!(free(here, 3, 12).unwrap(), ports);
    }
}
