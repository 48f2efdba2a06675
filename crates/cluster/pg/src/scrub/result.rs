//! The end of a scrub: what was counted against the PG's statistics, and the result in its info.

use types::{EVersion, UTime};

use super::check::Findings;
use super::{LINES_MAX, Scrub, ScrubOrder};
use crate::out::Out;
use crate::{ClusterLogLevel, Pg};

impl Pg {
    /// Everything is gone through: the result becomes part of the PG's info.
    pub(super) fn finish_scrub(&mut self, out: &mut Out<'_>) {
        let Some(scrub) = self.scrub.take() else {
            return self.broken("the end of no scrub", out);
        };
        let Scrub { order, began, mut found, lines, inconsistent, work, .. } = *scrub;
        if lines > LINES_MAX {
            let text = format!("{} {} : {} more lines on objects", self.id, order.mode(), lines - LINES_MAX);
            self.say_scrub(ClusterLogLevel::Error, text, out);
        }
        let fixed = self.compare_stats(order, &mut found, out);
        let errors = found.shallow_errors + found.deep_errors;
        let lost = self.records.info.stats.stats.sum.num_deep_scrub_errors;
        let mut text = format!("{} {} ", self.id, order.mode());
        match errors {
            0 => text += "ok",
            errors => text += &format!("{errors} errors"),
        }
        if !order.deep && lost > 0 {
            text += &format!(" ( {lost} remaining deep scrub error details lost)");
        }
        if order.repair {
            text += &format!(", {fixed} fixed");
        }
        let level = if errors > 0 { ClusterLogLevel::Error } else { ClusterLogLevel::Debug };
        self.say_scrub(level, text, out);
        self.scrubbed.failed_repair = order.repair && errors > fixed;
        if order.repair && errors == fixed {
            (found.shallow_errors, found.deep_errors) = (0, 0);
        }
        self.scrubbed.inconsistent = Some(inconsistent);
        self.record_scrub(order, began, &found);
        self.submit_info(out);
        self.say_ended(true, began, work, out);
        self.trim_on(out);
    }

    fn record_scrub(&mut self, order: ScrubOrder, began: UTime, found: &Findings) {
        let (info, now) = (&mut self.records.info, self.now);
        let (history, version): (_, EVersion) = (&mut info.history, info.last_update);
        (history.last_scrub, history.last_scrub_stamp) = (version, now);
        if order.deep {
            (history.last_deep_scrub, history.last_deep_scrub_stamp) = (version, now);
        }
        if found.shallow_errors == 0 && found.deep_errors == 0 {
            history.last_clean_scrub_stamp = now;
        }
        let sum = &mut info.stats.stats.sum;
        sum.num_shallow_scrub_errors = found.shallow_errors;
        if order.deep {
            sum.num_deep_scrub_errors = found.deep_errors;
            sum.num_large_omap_objects = found.large_omaps;
            (sum.num_omap_bytes, sum.num_omap_keys) = (found.omap_bytes, found.omap_keys);
        }
        sum.num_scrub_errors = sum.num_shallow_scrub_errors + sum.num_deep_scrub_errors;
        let nanos = now.as_nanos().saturating_sub(began.as_nanos());
        let status = info.stats.scrub.get_or_insert_default();
        status.last_duration = nanos.div_ceil(1_000_000_000).min(i32::MAX as u64) as i32;
        status.objects_scrubbed = found.objects;
        info.stats.timing.get_or_insert_default().scrub_duration = nanos as f64 / 1e9;
        self.records.dirty = true;
    }

    /// Holds what was counted against the PG's statistics. How many differences were mended.
    fn compare_stats(&mut self, order: ScrubOrder, found: &mut Findings, out: &mut Out<'_>) -> i64 {
        if found.uncounted > 0 {
            // It is known already that objects can't be read; what they count for is not.
            return 0;
        }
        let stats = &mut self.records.info.stats;
        let (sum, counted) = (&mut stats.stats.sum, &found.counted);
        let all = [
            (counted.num_objects, &mut sum.num_objects, "objects"),
            (counted.num_object_clones, &mut sum.num_object_clones, "clones"),
            (counted.num_objects_dirty, &mut sum.num_objects_dirty, "dirty"),
            (counted.num_objects_omap, &mut sum.num_objects_omap, "omap"),
            (counted.num_whiteouts, &mut sum.num_whiteouts, "whiteouts"),
            (counted.num_bytes, &mut sum.num_bytes, "bytes"),
        ];
        if all.iter().all(|(counted, says, _)| counted == *says) {
            stats.stats_invalid = false;
            return 0;
        }
        let was_estimate = std::mem::take(&mut stats.stats_invalid);
        let parts: Vec<String> =
            all.iter().map(|(counted, says, what)| format!("{counted}/{says} {what}")).collect();
        if was_estimate || order.repair {
            all.into_iter().for_each(|(counted, says, _)| *says = counted);
        }
        if was_estimate {
            return 0;
        }
        found.shallow_errors += 1;
        let text = format!("{} {} : stat mismatch, got {}.", self.id, order.mode(), parts.join(", "));
        self.say_scrub(ClusterLogLevel::Error, text, out);
        i64::from(order.repair)
    }
}
