//! A bucket's choice of one item.

use crate::hash::{LANES, hash32_3, hash32_3_each, hash32_4};
use crate::ln::ln;
use crate::{Alg, Bucket, ChooseArg};

/// Chooses an item of a non-empty bucket for input `x` and replica number `r`; `position` is the place in the result
/// that weight sets are chosen by. `None` only from a bucket whose parts disagree in length.
pub(crate) fn choose(
    bucket: &Bucket,
    x: u32,
    r: i32,
    arg: Option<&ChooseArg>,
    position: usize,
) -> Option<i32> {
    match &bucket.alg {
        Alg::Uniform { .. } => permuted(bucket, x, r),
        Alg::List { weights, sums } => list(bucket, weights, sums, x, r),
        Alg::Tree { nodes } => tree(bucket, nodes, x, r),
        Alg::Straw { straws, .. } => straw(bucket, straws, x, r),
        Alg::Straw2 { weights } => straw2(bucket, weights, x, r, arg, position),
    }
}

fn hash3(bucket: &Bucket, a: u32, b: i32, c: i32) -> u32 {
    // An unknown hash function yields 0 in Ceph too.
    if bucket.hash == 0 { hash32_3(a, b as u32, c as u32) } else { 0 }
}

fn hash4(bucket: &Bucket, a: u32, b: i32, c: i32, d: i32) -> u32 {
    if bucket.hash == 0 { hash32_4(a, b as u32, c as u32, d as u32) } else { 0 }
}

/// The item at place `r` of a permutation of the bucket that depends on `x` only.
pub(crate) fn permuted(bucket: &Bucket, x: u32, r: i32) -> Option<i32> {
    let size = bucket.items.len() as u32;
    let place = (r as u32).checked_rem(size)?;
    let mut order: Vec<u32> = (0..size).collect();
    for p in 0..=place.min(size.saturating_sub(2)) {
        let offset = hash3(bucket, x, bucket.id, p as i32) % (size - p);
        order.swap(p as usize, (p + offset) as usize);
    }
    bucket.items.get(*order.get(place as usize)? as usize).copied()
}

fn list(bucket: &Bucket, weights: &[u32], sums: &[u32], x: u32, r: i32) -> Option<i32> {
    for ((&item, &weight), &sum) in bucket.items.iter().zip(weights).zip(sums).rev() {
        let draw = u64::from(hash4(bucket, x, item, r, bucket.id) & 0xffff);
        if (draw * u64::from(sum)) >> 16 < u64::from(weight) {
            return Some(item);
        }
    }
    bucket.items.first().copied()
}

/// Nodes are numbered in order: leaves odd, and a node's height is its number of trailing zeros.
fn tree(bucket: &Bucket, nodes: &[u32], x: u32, r: i32) -> Option<i32> {
    let mut node = nodes.len() / 2;
    while node & 1 == 0 {
        let weight = u64::from(*nodes.get(node)?);
        let draw = (u64::from(hash4(bucket, x, node as i32, r, bucket.id)) * weight) >> 32;
        let step = (1usize << node.checked_ilog2().map(|_| node.trailing_zeros())?) / 2;
        let left = node - step;
        node = if draw < u64::from(*nodes.get(left)?) { left } else { node + step };
    }
    bucket.items.get(node / 2).copied()
}

fn straw(bucket: &Bucket, straws: &[u32], x: u32, r: i32) -> Option<i32> {
    let draw = |(&item, &straw): (&i32, &u32)| {
        (u64::from(hash3(bucket, x, item, r) & 0xffff) * u64::from(straw), item)
    };
    longest(bucket.items.iter().zip(straws).map(draw))
}

fn straw2(
    bucket: &Bucket,
    weights: &[u32],
    x: u32,
    r: i32,
    arg: Option<&ChooseArg>,
    position: usize,
) -> Option<i32> {
    let sets = arg.map(|a| &a.weight_sets[..]).unwrap_or(&[]);
    // The last set holds for all further positions.
    let weights = sets.get(position).or(sets.last()).map_or(weights, |set| &set[..]);
    let ids = arg.map(|a| &a.ids[..]).filter(|ids| !ids.is_empty()).unwrap_or(&bucket.items);
    let len = bucket.items.len().min(ids.len()).min(weights.len());
    let first = *bucket.items.get(..len)?.first()?;
    let mut longest = Straw { item: first, length: i64::MIN };
    let groups = bucket.items[..len].chunks(LANES).zip(ids[..len].chunks(LANES));
    for ((items, ids), weights) in groups.zip(weights[..len].chunks(LANES)) {
        let mut words = [0; LANES];
        words.iter_mut().zip(ids).for_each(|(word, &id)| *word = id as u32);
        let hashes = match bucket.hash {
            0 => hash32_3_each(x, &words, r as u32),
            _ => [0; LANES],
        };
        for ((&item, &weight), &hash) in items.iter().zip(weights).zip(&hashes) {
            longest.compare(item, hash as u16, weight);
        }
    }
    Some(longest.item)
}

/// The longest straw of straw2 so far. A straw's length is the logarithm of a random number, below 0, divided by the
/// item's weight and rounded towards 0: a larger weight gives a longer (less negative) straw.
struct Straw {
    item: i32,
    length: i64,
}

impl Straw {
    /// Draws another item's straw, and keeps the longer one; the first among equals.
    fn compare(&mut self, item: i32, draw: u16, weight: u32) {
        // A weight above i32::MAX is forged; Ceph takes it for a negative number.
        let weight = weight as i32;
        if weight == 0 {
            // The shortest straw there is.
            return;
        }
        let below = (1 << 48) - ln(draw);
        let length = match u64::try_from(weight) {
            Ok(divisor) => {
                if self.length != i64::MIN {
                    // below / weight < -length, without the division: most straws are not the longest.
                    let Ok(bound) = u128::try_from(-self.length) else {
                        // The best has a negative weight, and so lies above 0.
                        return;
                    };
                    if u128::from(below) >= bound * u128::from(divisor) {
                        return;
                    }
                }
                -((below / divisor) as i64)
            }
            Err(_) => -(below as i64) / i64::from(weight),
        };
        if length > self.length {
            *self = Self { item, length };
        }
    }
}

/// The item with the longest straw; the first among equals.
fn longest<T: PartialOrd>(straws: impl Iterator<Item = (T, i32)>) -> Option<i32> {
    straws.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, item)| item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::SplitMix64;

    /// The straw as Ceph computes it, with a division for every item.
    fn reference(items: &[i32], weights: &[u32], x: u32, r: i32) -> Option<i32> {
        let draw = |(&item, &weight): (&i32, &u32)| {
            let length = match weight as i32 {
                0 => i64::MIN,
                weight => {
                    (ln(hash32_3(x, item as u32, r as u32) as u16) as i64 - (1 << 48)) / i64::from(weight)
                }
            };
            (length, item)
        };
        longest(items.iter().zip(weights).map(draw))
    }

    #[test]
    fn straws_compared_without_division_are_the_divided_ones() {
        let mut random = SplitMix64::new(1);
        for round in 0..4_000 {
            let items: Vec<i32> = (0..random.below(30)).map(|_| random.next_u64() as i32).collect();
            // From weights at which all straws are alike to those that no map has.
            let weights: Vec<u32> = items
                .iter()
                .map(|_| match random.below(8) {
                    0 => 0,
                    1 => random.next_u64() as u32,
                    2 => 1 + random.below(3) as u32,
                    3 => u32::MAX - random.below(3) as u32,
                    4 => i32::MAX as u32,
                    _ => 0x1_0000 * random.below(5) as u32,
                })
                .collect();
            let bucket = Bucket {
                id: -1,
                kind: 1,
                hash: 0,
                weight: 0,
                items: items.clone(),
                alg: Alg::Straw2 { weights: weights.clone() },
            };
            let (x, r) = (random.next_u64() as u32, random.below(10) as i32);
            let expected = reference(&items, &weights, x, r);
            assert_eq!(choose(&bucket, x, r, None, 0), expected, "round {round}: {items:?} {weights:?}");
        }
    }
}
