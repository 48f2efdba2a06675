//! Subscriptions at the monitor: those wanted, and those sent (Ceph's MonSub).

use std::collections::BTreeMap;

/// CEPH_SUBSCRIBE_ONETIME: the subscription ends with its first answer.
pub const ONETIME: u8 = 1;

/// A subscription: from which epoch on, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Item {
    start: u64,
    flags: u8,
    /// Whether the present session's monitor has got it.
    told: bool,
}

/// The subscriptions of a session, kept over reconnects.
#[derive(Clone, Default, Debug)]
pub struct Subscriptions {
    items: BTreeMap<String, Item>,
}

impl Subscriptions {
    /// Subscribes to `what` from epoch `start` on (0: the newest). Answers whether the monitor must be sent the change.
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

    /// Subscribes to `what` from epoch `start` on, even if the monitor has sent that epoch before.
    pub fn want_again(&mut self, what: &str, start: u64, flags: u8) {
        self.items.insert(what.into(), Item { start, flags, told: false });
    }

    /// `what` came, up to epoch `have`: the subscription goes on with the next epoch, or ends if it was for one time.
    pub fn got(&mut self, what: &str, have: u64) {
        // The monitor sent it unasked, or the subscription has ended meanwhile.
        let Some(item) = self.items.get_mut(what) else { return };
        if item.flags & ONETIME != 0 {
            if have >= item.start {
                self.items.remove(what);
            }
        } else {
            // The monitor advances its copy by itself: nothing is sent.
            item.start = item.start.max(have + 1);
        }
    }

    /// A new session: its monitor has none of the subscriptions yet.
    pub fn reload(&mut self) {
        self.items.values_mut().for_each(|item| item.told = false);
    }

    /// The subscriptions to send to the monitor now (start and flags by name); they count as sent from here on.
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
