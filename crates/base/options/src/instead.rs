//! Options of Ceph's that say where one OSD's store lies. One process has all OSDs here, and a value would be for each of them:
//! so they are refused with what does the same, and not taken without effect.

const INSTEAD: [(&str, &str); 3] = [
    (
        "bluestore_block_db_path",
        "metadata lie with the data here and have no device of their own; `loligo up --log-device PATH` puts the log on one",
    ),
    (
        "bluestore_block_path",
        "`loligo up --device PATH` names it here, one for each OSD, when a cluster is made",
    ),
    (
        "bluestore_block_wal_path",
        "`loligo up --log-device PATH` names it here, one for each OSD, when a cluster is made",
    ),
];

/// What to use in place of an option (normalized name) that is refused whatever its value.
pub fn instead(name: &str) -> Option<&'static str> {
    INSTEAD.iter().find(|(refused, _)| *refused == name).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OptionStatus, Values, canonical, status};

    #[test]
    fn a_path_of_one_osd_is_refused_with_the_flag_and_its_default_is_not() {
        for (name, instead) in INSTEAD {
            assert_eq!(status(name), OptionStatus::NothingToTune, "{name} is Ceph's");
            let refused = Values::new().set(name, "/dev/sdb1").unwrap_err().to_string();
            assert_eq!(refused, format!("{name}: {instead}"));
            assert_eq!(canonical(name, " "), Ok(String::new()));
        }
    }
}
