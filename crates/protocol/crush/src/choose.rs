//! A bucket's choice of one item.

use crate::hash::{hash32_3, hash32_4};
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
    let draw = |((&item, &id), &weight): ((&i32, &i32), &u32)| {
        let length = match weight as i32 {
            0 => i64::MIN,
            // The logarithm lies below 0, so a larger weight gives a longer (less negative) straw.
            weight => (ln(hash3(bucket, x, id, r) as u16) as i64 - (1 << 48)) / i64::from(weight),
        };
        (length, item)
    };
    longest(bucket.items.iter().zip(ids).zip(weights).map(draw))
}

/// The item with the longest straw; the first among equals.
fn longest<T: PartialOrd>(straws: impl Iterator<Item = (T, i32)>) -> Option<i32> {
    straws.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, item)| item)
}
