//! The known name that is nearest to one that nobody knows.

/// The name among `names` with the fewest slips (a letter too many, too few, another, or two swapped) from `name`
/// (normalized), if it is near enough to be a likely slip: two, or a quarter of the letters. Of names as near as each
/// other the first one in order.
pub(crate) fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let slips = |known: &str| strsim::osa_distance(name, known);
    // A name whose length alone differs by more needn't be compared.
    let most = 2.max(name.len() / 4);
    let near = names.into_iter().filter(|known| known.len().abs_diff(name.len()) <= most);
    near.map(|known| (slips(known), known)).min().filter(|(slips, _)| *slips <= most).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Release;

    #[test]
    fn a_slip_finds_the_option_that_was_meant() {
        let find = |name| nearest(name, Release::Tentacle.table().names());
        assert_eq!(find("objecter_infilght_op_bytes"), Some("objecter_inflight_op_bytes"));
        assert_eq!(find("osd_op_num_shard"), Some("osd_op_num_shards"));
        assert_eq!(find("ms_crc_date"), Some("ms_crc_data"));
        assert_eq!(find("bluestore_cache_sise_ssd"), Some("bluestore_cache_size_ssd"));
        assert_eq!(find("journal_throttle_low_threshold"), Some("journal_throttle_low_threshhold"));
        assert_eq!(find("xyzzy_plugh_foo"), None);
    }
}
