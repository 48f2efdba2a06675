//! The known name that a misspelt one is nearest to.

/// The name among `known` that needs the fewest edits (a letter inserted, removed, replaced, or two swapped; case does
/// not count) to become `name`, if these are few enough for a likely slip: at most 2 or two fifths of the letters, and
/// fewer than half of the known name's letters. Of names as near as each other the first one given.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let letters = name.chars().count();
    let edits_max = 2.max(letters * 2 / 5);
    // A name whose length alone differs by more need not be compared.
    let comparable = known.into_iter().filter(|known| known.chars().count().abs_diff(letters) <= edits_max);
    let ranked = comparable.map(|known| (strsim::osa_distance(&name, &known.to_lowercase()), known));
    let (edits, best) = ranked.min_by_key(|(edits, _)| *edits)?;
    (edits <= edits_max && edits * 2 < best.chars().count().max(3)).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_the_name_that_was_meant() {
        let known = ["osd_max_object_size", "osd_op_num_shards", "debug_osd", "title", "write", "ssd"];
        for (name, want) in [
            ("osd_max_objekt_size", "osd_max_object_size"),
            ("osd_op_num_shard", "osd_op_num_shards"),
            ("osd_op_nmu_shards", "osd_op_num_shards"),
            ("debug_osdd", "debug_osd"),
            ("Titel", "title"),
            ("wirte", "write"),
            ("sdd", "ssd"),
        ] {
            assert_eq!(nearest(name, known), Some(want), "{name}");
        }
    }

    #[test]
    fn a_name_that_has_little_in_common_is_not_suggested() {
        for name in ["", "x", "zzzzzz", "entirely_of_my_own", "rid", "wall"] {
            assert_eq!(nearest(name, ["osd_max_object_size", "ssd", "write", "title"]), None, "{name}");
        }
        assert_eq!(nearest("anything", []), None);
    }

    #[test]
    fn of_names_as_near_as_each_other_the_first_one_is_suggested() {
        assert_eq!(nearest("paths", ["path1", "path2"]), Some("path1"));
        assert_eq!(nearest("paths", ["path2", "path1"]), Some("path2"));
    }
}
