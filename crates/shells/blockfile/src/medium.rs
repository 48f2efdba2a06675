//! What a store's tuning comes to on what it lies on.

use store::{ByMedium, Tuning};

/// What a store lies on, as far as its tuning depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Medium {
    /// An image file gives back what has been free for some time, and discards nothing.
    pub is_file: bool,
    /// With a model it does not matter what the kernel says of the disk below: whether the modelled one does not seek.
    pub modelled_ssd: Option<bool>,
    /// The log takes contents of new blocks up to this, whatever the options say.
    pub new_deferred_min: u64,
}

impl Medium {
    /// What the options ask for, as it is on this medium.
    pub fn tuning(&self, asked: Tuning) -> Tuning {
        let ByMedium { hdd, ssd } = asked.new_deferred_bytes;
        let modelled = self.modelled_ssd.map(|is_ssd| if is_ssd { ssd } else { hdd });
        let of = |bytes| modelled.unwrap_or(bytes).max(self.new_deferred_min);
        Tuning {
            discard: asked.discard && !self.is_file,
            new_deferred_bytes: ByMedium { hdd: of(hdd), ssd: of(ssd) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_options_ask_for_depends_on_the_medium() {
        let bytes = |hdd, ssd| ByMedium { hdd, ssd };
        let asked = Tuning { discard: true, new_deferred_bytes: bytes(3000, 1000) };
        let device = Medium { is_file: false, modelled_ssd: None, new_deferred_min: 0 };
        assert_eq!(device.tuning(asked), asked);
        assert!(!device.tuning(Tuning { discard: false, ..asked }).discard);
        let file = Medium { is_file: true, new_deferred_min: 2000, ..device };
        assert_eq!(file.tuning(asked), Tuning { discard: false, new_deferred_bytes: bytes(3000, 2000) });
        let of_model =
            |is_ssd| Medium { modelled_ssd: Some(is_ssd), ..device }.tuning(asked).new_deferred_bytes;
        assert_eq!((of_model(true), of_model(false)), (bytes(1000, 1000), bytes(3000, 3000)));
    }
}
