//! What is left of a plan: a run that was stopped anywhere goes on at the next trial.

use std::collections::BTreeMap;

use results::{Record, Status};
use study::Trial;

/// The trials that are still to be run, in order. One that failed is done (it is shown as failed) unless it is asked for
/// again; one that was interrupted is run again. The last record of an id counts.
pub fn remaining(trials: &[Trial], records: &[Record], failed_again: bool) -> Vec<Trial> {
    let ended: BTreeMap<&str, Status> = records.iter().map(|r| (r.id.as_str(), r.outcome.status)).collect();
    let is_left = |trial: &&Trial| match ended.get(trial.id.as_str()) {
        None | Some(Status::Interrupted) => true,
        Some(Status::Failed) => failed_again,
        Some(Status::Ok) => false,
    };
    trials.iter().filter(is_left).cloned().collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use results::{Outcome, Parameters};
    use study::Cell;

    use super::*;

    fn trial(order: u32) -> Trial {
        let cell = Cell { system: 0, workload: 0, variant: 0 };
        Trial {
            order,
            id: format!("t{order}"),
            block: 0,
            cell,
            repeat: order,
            confirms: false,
            profiled: false,
        }
    }

    pub(crate) fn record(order: u32, status: Status) -> Record {
        Record {
            format: results::FORMAT,
            id: format!("t{order}"),
            order,
            block: 0,
            confirms: false,
            profiled: false,
            started: String::new(),
            took_s: 1.0,
            parameters: Parameters::default(),
            build: Default::default(),
            outcome: Outcome { status, error: String::new(), logs: String::new() },
            measurements: Vec::new(),
        }
    }

    #[test]
    fn what_ended_is_not_run_again_and_what_was_interrupted_is() {
        let trials: Vec<Trial> = (0..4).map(trial).collect();
        let records = [record(0, Status::Ok), record(1, Status::Failed), record(2, Status::Interrupted)];
        let left = |records: &[Record], failed_again| -> Vec<u32> {
            remaining(&trials, records, failed_again).iter().map(|t| t.order).collect()
        };
        assert_eq!((left(&records, false), left(&records, true)), (vec![2, 3], vec![1, 2, 3]));
        // Run again and ended well: the last record counts.
        let again = [record(2, Status::Interrupted), record(2, Status::Ok)];
        assert_eq!(left(&again, false), [0, 1, 3]);
        let again = [record(1, Status::Failed), record(1, Status::Ok)];
        assert_eq!(left(&again, true), [0, 2, 3]);
    }
}
