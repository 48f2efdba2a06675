//! What a PG is at.

/// What a PG is at. Who decides something by it asks a method: peering, replicas and recovery will add to the phases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Its records are being read.
    Loading,
    /// Another OSD leads it, or none does.
    Nonprimary,
    /// This OSD leads it, and it is not settled yet what the PG's state is.
    Peering(Peering),
    /// The state is settled, but fewer copies act than `min_size`.
    Peered,
    /// The pool has more PGs, and a part of its objects is being moved to new ones. Then its role is decided.
    Splitting,
    /// It serves requests.
    Active(Active),
    /// What it stored is being removed.
    Removing,
    /// It can't go on.
    Failed,
}

/// What the start of an interval waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peering {
    /// What other OSDs have: they are asked, are down, or have what this one lacks.
    Others,
    /// A map that shows the primary alive in this interval (its `up_thru`). Without it a later primary concludes that
    /// the interval took no writes.
    UpThru,
    /// The record that the interval has started is being made durable.
    Activating,
}

/// How well an active PG is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Active {
    /// As many copies as the pool asks for, all complete.
    Clean,
    /// Fewer copies than the pool asks for, but at least `min_size`.
    Undersized,
}

impl Phase {
    pub fn serves_requests(self) -> bool {
        matches!(self, Self::Active(_))
    }

    pub fn is_clean(self) -> bool {
        matches!(self, Self::Active(Active::Clean))
    }

    /// Whether removed snapshots may be trimmed: not while clones are missing here, since a snapshot whose clones the
    /// index does not name counts as purged.
    pub fn may_trim(self) -> bool {
        match self {
            // The copies that act are whole.
            Self::Active(Active::Clean | Active::Undersized) => true,
            Self::Loading
            | Self::Nonprimary
            | Self::Splitting
            | Self::Peering(_)
            | Self::Peered
            | Self::Removing
            | Self::Failed => false,
        }
    }

    /// Whether it waits for something that any map may bring: another OSD's state, or this one's up_thru.
    pub fn waits_for_a_map(self) -> bool {
        match self {
            Self::Peering(_) => true,
            Self::Nonprimary
            | Self::Splitting
            | Self::Peered
            | Self::Active(_)
            | Self::Loading
            | Self::Removing
            | Self::Failed => false,
        }
    }

    /// Whether new maps concern it.
    pub fn takes_maps(self) -> bool {
        match self {
            Self::Nonprimary | Self::Peering(_) | Self::Peered | Self::Active(_) => true,
            // One that loads or splits gets them once it has.
            Self::Loading | Self::Splitting | Self::Removing | Self::Failed => false,
        }
    }
}
