//! The suite that every store is held against: each step and each read, order, atomicity, errors, sentinels, listing
//! order, logs, splits, a random comparison with a plain model, and (for stores that keep anything) all of it again
//! after reopening.
//!
//! A store's tests implement [`Factory`] and expand [`conformance_tests!`](crate::conformance_tests).

mod cases;
mod generate;
mod harness;
mod model;
mod random;

pub use cases::{CASES, run};
pub use generate::{Generator, Rng};
pub use harness::{Factory, Harness};
pub use model::Model;
pub use random::{compare_all, random_history};

/// Overlays bytes on bytes, with zeros in between.
fn model_write(data: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let end = offset as usize + bytes.len();
    data.resize(data.len().max(end), 0);
    data[offset as usize..end].copy_from_slice(bytes);
}

/// One test a case of the suite. Takes an expression that makes a [`Factory`].
#[macro_export]
macro_rules! conformance_tests {
    ($factory:expr) => {
        $crate::conformance_tests! { @cases $factory;
            objects_come_and_go, writes_overlay_one_another, zero_makes_zeros_and_lengthens,
            truncate_cuts_and_lengthens, reads_are_cut_at_the_end, extents_cover_what_was_written,
            attributes_are_set_and_removed, omap_is_set_removed_and_ranged, omap_pages_go_on_where_they_ended,
            a_clone_is_independent, clone_range_copies_and_zero_fills, rename_moves_within_and_between_collections,
            hints_are_kept, collections_are_made_listed_and_removed, a_list_has_cephs_order_and_goes_on,
            sentinels_are_no_objects, split_moves_by_hash_and_merge_brings_back,
            the_log_is_appended_trimmed_and_rewound, a_refused_transaction_leaves_nothing,
            errors_say_whose_fault, reads_see_what_was_queued_before, transactions_complete_in_order,
            a_transaction_spans_collections, large_data_comes_back, statfs_counts, random_histories_equal_the_model,
            everything_is_there_after_reopening,
        }
    };
    (@cases $factory:expr; $($case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                $crate::conformance::run(stringify!($case), &mut $factory);
            }
        )*

        #[test]
        fn every_case_of_the_suite_is_run() {
            let named = [$(stringify!($case)),*];
            let all: Vec<&str> = $crate::conformance::CASES.iter().map(|c| c.0).collect();
            assert_eq!(&named[..], &all[..]);
        }
    };
}
