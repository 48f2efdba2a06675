//! What is wanted of the monitor, and what it was told (Ceph's MonSub).

use std::collections::BTreeMap;

/// CEPH_SUBSCRIBE_ONETIME: the subscription ends with its first answer.
pub const ONETIME: u8 = 1;

/// A subscription: from which epoch on, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Item {
    start: u64,
    flags: u8,
    /// Whether the monitor of the present session knows.
    told: bool,
}

/// The subscriptions of a session, kept over reconnects.
#[derive(Clone, Default, Debug)]
pub struct Subscriptions {
    items: BTreeMap<String, Item>,
}

impl Subscriptions {
    /// Wants `what` from epoch `start` on (0: whatever is newest). Answers whether the monitor has to be told.
    pub fn want(&mut self, what: &str, start: u64, flags: u8) -> bool {
        match self.items.get(what) {
            Some(item) if item.start == start && item.flags == flags => !item.told,
            _ => {
                self.items.insert(what.into(), Item { start, flags, told: false });
                true
            }
        }
    }

    /// As [`Subscriptions::want`], but never goes back to an older epoch than already wanted.
    pub fn want_from(&mut self, what: &str, start: u64, flags: u8) -> bool {
        match self.items.get(what) {
            Some(item) if item.start >= start => !item.told,
            _ => self.want(what, start, flags),
        }
    }

    /// Wants `what` from epoch `start` on although the monitor may think that it has sent that.
    pub fn want_again(&mut self, what: &str, start: u64, flags: u8) {
        self.items.insert(what.into(), Item { start, flags, told: false });
    }

    /// `what` came, up to epoch `have`: the next one is wanted, or none after a one-time subscription.
    pub fn got(&mut self, what: &str, have: u64) {
        // Sent unasked, or the rest of a subscription that has ended.
        let Some(item) = self.items.get_mut(what) else { return };
        if item.flags & ONETIME != 0 {
            if have >= item.start {
                self.items.remove(what);
            }
        } else {
            // The monitor counts along by itself, so it need not be told.
            item.start = item.start.max(have + 1);
        }
    }

    /// A new session: its monitor knows nothing yet.
    pub fn reload(&mut self) {
        self.items.values_mut().for_each(|item| item.told = false);
    }

    /// What the monitor has to be told now (start and flags by name); it counts as told from here on.
    pub fn take_news(&mut self) -> BTreeMap<String, (u64, u8)> {
        let news = self.items.iter_mut().filter(|(_, item)| !item.told);
        news.map(|(what, item)| {
            item.told = true;
            (what.clone(), (item.start, item.flags))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monitor_is_told_once_and_again_in_a_new_session() {
        let mut subs = Subscriptions::default();
        assert!(subs.want("osdmap", 5, 0));
        assert_eq!(subs.take_news(), [("osdmap".to_string(), (5, 0))].into());
        assert!(!subs.want("osdmap", 5, 0));
        assert!(subs.take_news().is_empty());
        subs.got("osdmap", 9);
        assert!(subs.take_news().is_empty(), "the monitor counts along");
        subs.reload();
        assert_eq!(subs.take_news(), [("osdmap".to_string(), (10, 0))].into());
    }

    #[test]
    fn a_one_time_subscription_ends_with_an_answer_that_is_new_enough() {
        let mut subs = Subscriptions::default();
        subs.want("osdmap", 7, ONETIME);
        subs.take_news();
        subs.got("osdmap", 6);
        subs.reload();
        assert_eq!(subs.take_news().len(), 1, "6 is not what was asked for");
        subs.got("osdmap", 7);
        subs.reload();
        assert!(subs.take_news().is_empty());
    }

    #[test]
    fn a_subscription_does_not_go_back_unless_told_to() {
        let mut subs = Subscriptions::default();
        subs.want("osdmap", 7, 0);
        subs.take_news();
        assert!(!subs.want_from("osdmap", 3, 0));
        assert!(subs.want("osdmap", 3, 0));
        assert_eq!(subs.take_news()["osdmap"], (3, 0));
        subs.want_again("osdmap", 3, 0);
        assert_eq!(subs.take_news()["osdmap"], (3, 0));
    }
}
